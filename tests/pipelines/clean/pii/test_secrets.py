"""How many random secrets are found by the place where they stand, and that code and prose are left alone."""

import random
import string

import pyarrow as pa
import pytest

from pipelines.clean.pii.find import find
from pipelines.clean.pii.mask import mask
from pipelines.clean.pii.params import PiiParams

ALPHANUMERIC = string.ascii_letters + string.digits
BASE64 = ALPHANUMERIC + "+/"
SIGNS = ALPHANUMERIC + "!@#%&*-_+?"
HEX = "0123456789abcdef"
DJANGO = string.ascii_lowercase + string.digits + "!@#$%^&*(-_=+)"
"""Of django.core.management.utils.get_random_secret_key."""
GENERATED = 1000


@pytest.mark.parametrize(
    ("form", "alphabet", "length"),
    [
        ("AWS_SECRET_ACCESS_KEY={}", BASE64, 40),
        ('aws_secret_access_key = "{}"', BASE64, 40),
        ("SECRET_KEY={}", ALPHANUMERIC, 32),
        ("SECRET_KEY = '{}'", DJANGO, 50),
        ("SECRET_KEY = 'django-insecure-{}'", DJANGO, 50),
        ("API_KEY={}", HEX, 32),
        ("DB_PASSWORD={}", SIGNS, 10),
        ("DB_PASSWORD={}", SIGNS, 12),
        ("DB_PASSWORD={}", ALPHANUMERIC, 12),
        ("DB_PASSWORD={}", SIGNS, 24),
        ('DB_PASSWORD="{}"', SIGNS, 10),
        ("password      = '{}'", SIGNS, 16),
        ("  password: {}", ALPHANUMERIC, 10),
        ("  password: {}", ALPHANUMERIC, 12),
        ("Server=db;Password={};User=app", ALPHANUMERIC, 12),
        ('"Uid=app;Pwd={};"', ALPHANUMERIC, 12),
        ("DB_PASS={}", SIGNS, 12),
        ("SMTP_PASS='{}'", SIGNS, 12),
        ("dbPass: '{}',", SIGNS, 12),
        ("token = b'{}'", ALPHANUMERIC, 24),
        ("https://db/x?access_token={}&user=app", ALPHANUMERIC, 24),
        ("postgres://app:{}@db.internal/x", ALPHANUMERIC, 12),
        ("postgres://app:{}@db.internal/x", string.ascii_letters, 16),
        ("curl -s -u app:{} https://db/x", ALPHANUMERIC, 12),
        ("curl https://db/x --user 'app:{}'", SIGNS, 16),
        ("Authorization: Bearer {}", ALPHANUMERIC, 40),
    ],
)
def test_random_secrets_are_found_whole(form: str, alphabet: str, length: int) -> None:
    """97 of 100 at least; and where one is found, nothing of it is left."""
    drawn = random.Random(20)
    texts = [form.format("".join(drawn.choices(alphabet, k=length))) for _ in range(GENERATED)]
    left = mask(pa.array(texts, pa.large_string()), PiiParams()).texts.to_pylist()
    masked = form.format("<CREDENTIAL>").replace("django-insecure-", "")
    missed = [text for text, now in zip(texts, left, strict=True) if text == now]
    assert set(left) - set(missed) == {masked}
    assert len(missed) <= 0.03 * GENERATED


@pytest.mark.parametrize("value", ["Summer2019!", "Tr0ub4dor&3xQ", "S3cr3tP4ss!"])
def test_passwords_that_people_take(value: str) -> None:
    for text in (f"DB_PASSWORD={value}", f'password = "{value}"'):
        assert [text[found.start : found.stop] for found in find(text, PiiParams())] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "password = get_password()",
        "password: string",
        "password: NSMutableString",
        "password: LPCWSTR",
        "token: Optional[str] = None",
        "api_key = settings.API_KEY",
        "secret = hmac.compare_digest2",
        "access_key = self.accessKeyV2",
        "password: see below",
        "Password: Slightly",
        "The password: Donaudampfschifffahrt.",
        "PASSWORD=$DB_PASSWORD",
        "PASSWORD=${DB_PASS1:-q7Zp2LxV9}",
        "PASSWORD=$(pass show db9X2)",
        "PASSWORD={{ vault_Pq7z }}",
        "PASSWORD=%(Pq7z2LxV)s",
        "PASSWORD='<Pq7z 2LxV>'",
        'password = f"{q7Zp}-{2LxV}"',
        "password: ************",
        "password: xxxxxxxxxx",
        "PASSWORD=ChangeMe123!",
        "api_key: your-api-key-123Xy",
        "token_endpoint_auth: /oauth2/v2/Token1",
        "secret: /run/k8s/x7/db.key",
        "class: q7Zp2LxV9rTn4Kw",
        "bypass: q7Zp2LxV9rTn4Kw",
        "PASS: q7Zp2LxV9rTn4Kw",
        'publicKeyToken="1fc8b3b9a1e18e3b"',
        "passphrase= password= scmVersion=",
        "password==q7Zp2LxV9rTn4Kw",
        "curl -u $USER:$PASSWORD https://db/x",
        "curl -u username:password https://db/x",
        "docker run -u app:q7Zp2LxV9rTn4Kw image",
        "a follow-up app:q7Zp2LxV9rTn4Kw",
    ],
)
def test_code_and_prose_are_left_alone(text: str) -> None:
    assert find(text, PiiParams()) == []
