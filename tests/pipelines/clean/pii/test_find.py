"""What personal data is, and what only looks like it. Numbers are published examples, or made to pass a check."""

import base64
import json

import pytest

from pipelines.clean.pii.find import find
from pipelines.clean.pii.finding import Finding
from pipelines.clean.pii.params import PiiParams

ALL = PiiParams()


def found(text: str, params: PiiParams = ALL) -> list[tuple[str, str]]:
    return [(finding.type, text[finding.start : finding.stop]) for finding in find(text, params)]


def one(kind: str, text: str) -> tuple[str, str]:
    """The text with the finding in «guillemets» taken out of them, and what is to be found."""
    before, value = text.split("«")
    value, after = value.split("»")
    assert found(before + value + after) == [(kind, value)]
    return before, value


@pytest.mark.parametrize(
    "text",
    [
        "Write to «jane.doe+news@mail.python.org», please.",
        "<«jane@python.org»>",
        "mailto:«jane@python.org»?subject=x",
        "«o_reilly@bbc.co.uk».",
        "«jane@müller.de»",
        "«jane@xn--mller-kva.de»",
        "«ivan@почта.рф»",
        "連絡先は«jane@nhk.or.jp»まで",
        "«jane@python.org».Next sentence",
        "«ＪＡＮＥ＠ｐｙｔｈｏｎ．ｏｒｇ»",
        "«jane [at] python [dot] org»",
        "«jane(at)python.org»",
        "reach me: «jane at python dot org»",
        "«jane dot doe at python dot org»",
        "«1234+jane@users.noreply.github.com»",
        "«John.Meier@Gmail.Com»",
        "«jane@python.org».In short",
        "«youri.djorkaeff@gmail.com»",
        "«elon@x.com»",
        "«info@company.com»",
        "«john@acme.com»",
        "«john@gmx.de»(work)",
        "«john@gmx.de»[1]",
        "\\email{«john@gmx.de»}",
        "?user=«john%40gmx.net»&x=1",
        "%3C«john%2Bnews%40gmx.net»%3E",
        "«john&#64;gmx.net»",
        "«jörg.müller@t-online.de»",
        "«jo\u0308rg@t-online.de»",
        "«müller@bücher.de»",
        "«jane@müller-bücher.de»",
        "«émile.zola@orange.fr»",
        "«o'brien@ireland.ie»",
        "'«o'brien@ireland.ie»'",
        "u'«jane@python.org», '",
        "x'«jane@python.org»'",
        "«r&d@python.org»",
        "?a=b&«jane@python.org»",
        "cc=x&«jane@python.org»",
        "«山田@softbank.co.jp»",
        "連絡先は«山田@softbank.co.jp»まで",
        "«用户@例子.公司»",
        "«Δημήτρης@ελλάδα.ελ»",
    ],
)
def test_an_email_address(text: str) -> None:
    one("email", text)


@pytest.mark.parametrize(
    "text",
    [
        "user@localhost",
        "root@server.local",
        "git clone git@github.com:jane/project.git",
        "ssh://git@python.org/repo",
        "@pytest.mark.slow",
        "x = a@b.T",
        "w@x.reshape(3)",
        "npm i @types/node@18.2.0",
        "left-pad@1.3.0",
        "icon@2x.png",
        "jane@example.com and jane@mail.example.org",
        "jane@site.invalid",
        "user@yourdomain.com",
        "getty@tty1.service",
        "look at that dot on the screen",
        "meet at noon dot dot dot",
        "%s@python.org",
        "http://user:pass@python.org/",
        "MACs hmac-sha2-512-etm@openssh.com",
        "Message-ID: <CAHp8n2nmGN@mail.gmail.com>",
        "{name}@python.org",
        "your.name@python.org, yourname@python.org, username@python.org",
        "jane@example.co.uk",
        "x = rows@model.at[0]",
        "y = rows@model.dot(3)",
        "import %40types%2Fnode and a%40b.reshape",
        "a" * 80 + "@python.org",
    ],
)
def test_no_email_address(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Call «+1 650-253-0000» now",
        "«+44 20 7031 3000»",
        "«+44 (0)20 7031 3000»",
        "tel:«+4930830501»",
        "«(650) 253-0000»",
        "650 or «650-253-0000»",
        "«1-800-692-7753»",
        "Tél. «01 42 68 53 00»",
        "«01.42.68.53.00»",
        "«03-6384-9000»",
        "０３を含む«０３－６３８４－９０００»",
        "phone: «6502530000»",
        "Telefon: «030 303986300»",
        "Móvil «612 348 907»",
        "mobile «98765 12340»",
        "Phone «650-253-0000» 2024",
        "Tel. «0049 89 81090014»",
        "Tel.: «089 / 36 53 39 87»",
    ],
)
def test_a_phone_number(text: str) -> None:
    one("phone", text)


@pytest.mark.parametrize(
    "text",
    [
        "6502530000",
        "version 650.253.0000",
        "2020-01-02 12:00:00",
        "20200102-120000",
        "01/02/2020",
        "978-0-306-40615-7",
        "ISBN 0-306-40615-2",
        "order 650-253-0000",
        "#650-253-0000",
        "(555) 555-0123",
        "212-555-0123",
        "+1 212 555 0187",
        "020 7946 0123",
        "123-456-7890",
        "+1 234 567 8901",
        "0.6502530000",
        "650253-0000e5",
        "3.14159265358979",
        "1 234 567 890",
        "192.168.100.200",
        "52.520008, 13.404954",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "123e4567-e89b-12d3-a456-426614174000",
        "1607.06450v1",
        "3.0.2.1-650-253-0000",
        "x+6502530000",
        "0xdeadbeef 0012345678",
        "c.09.09.23.09.32 0s",
        "rescale +35236450.6 -2",
        "Buffer 01 02 03 04 05",
        "# 00 01 02 03 04 05 06 07",
        "48 b9 01 20 00 04 80",
        "0049 89 81090014",
        "089 / 36 53 39 87",
    ],
)
def test_no_phone_number(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ping «93.184.216.34»",
        "http://«81.2.69.142»:8080/",
        "host=«81.2.69.142»",
        "81 or «212.58.244.70»",
        "addr «5.9.10.113»",
        "«2a00:1450:4001:81b::200e»",
        "[«2a00:1450:4001:081b:0000:0000:0000:200e»]:443",
    ],
)
def test_an_ip_address(text: str) -> None:
    one("ip", text)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1 192.168.1.1 172.16.0.1 127.0.0.1 169.254.1.1 100.64.0.1",
        "192.0.2.10 198.51.100.7 203.0.113.9",
        "224.0.0.251 255.255.255.255",
        "nameserver 8.8.8.8",
        "version 81.2.69.142",
        "Chrome/120.99.60.109 Safari",
        "package-81.2.69.142.tar.gz",
        "torch==81.2.69.142",
        "1.3.6.1.4.1.311",
        "id-at-commonName 2.5.4.3",
        'STREET_ADDRESS = ObjectIdentifier("2.5.4.9")',
        "192.0.0.9",
        "see 3.2.1.4",
        "81.2.69.0/24",
        "999.2.69.142",
        "081.2.69.142",
        "2001:db8::1",
        "fe80::1 ::1 fd00::1 ff02::1",
        "2a00:1450::/32",
        "a[::2] std::vector dead::beef 12:30:45 00:1a:2b:3c:4d:5e",
        "2020:01:02",
        "Jun 6 2006::",
        "172.32.0.0",
    ],
)
def test_no_ip_address(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "«4539 1488 0343 6467»",
        "«4539-1488-0343-6467» 12/29",
        "card 12 «5555 3412 4444 1115»",
        "«3782 822463 17000»",
        "card: «4539148803436467»",
        "cc «4539148803436467»",
        "Kartennummer «4539148803436467»",
        "American Express «378282246310047»",
    ],
)
def test_a_payment_card(text: str) -> None:
    one("card", text)


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1111",
        "card 4242424242424242",
        "5555 5555 5555 4444",
        "4539 1488 0343 6468",
        "9539148803436463",
        "0.4539148803436467",
        "a4539148803436467f",
        "4539148803436467.5",
        "1234567890123456",
        "1500000000000000000",
        "default_rng(4539148803436467)",
        "5512 5513 5514 5515 5516",
        "4539 1488 0343 6467 551A",
    ],
)
def test_no_payment_card(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "IBAN «DE89 3704 0044 0532 0130 00»",
        "«DE89370400440532013000»",
        "«GB29 NWBK 6016 1331 9268 19» BIC",
        "«FR14 2004 1010 0505 0001 3M02 606»",
        "«NL91ABNA0417164300», ok",
        "iban «de89370400440532013000»",
        "IBAN: «gb29 nwbk 6016 1331 9268 19» bic",
        "IBAN-Nr. (neu) «fr14 2004 1010 0505 0001 3m02 606»",
    ],
)
def test_a_bank_account(text: str) -> None:
    one("iban", text)


@pytest.mark.parametrize(
    "text",
    [
        "DE88370400440532013000",
        "DE8937040044053201300",
        "XX89370400440532013000",
        "aDE89370400440532013000",
        "DE89 3704 0044",
        "de89370400440532013000",
        "iban de88370400440532013000",
        "ibande89370400440532013000",
    ],
)
def test_no_bank_account(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("country", "text"),
    [
        ("US", "«536-90-4399»"),
        ("US", "SSN: «536904399»"),
        ("GB", "NI «AA 12 34 56 B»."),
        ("GB", "NINO: «AA123456B»"),
        ("DE", "Steuer-ID «36 574 261 809»"),
        ("FR", "«2 95 10 99 126 111 93»"),
        ("ES", "«54362315K»"),
        ("ES", "NIE «X-2482300-W»"),
        ("IT", "«RCCMNL83S18D969H»"),
        ("NL", "BSN «111222333»"),
        ("BR", "«390.533.447-05»"),
        ("IN", "Aadhaar «2341 2341 2346»"),
        ("PL", "PESEL «44051401359»"),
        ("SE", "personnummer «880320-0016»"),
        ("CN", "«360426199101010071»"),
    ],
)
def test_a_personal_number(country: str, text: str) -> None:
    before, value = one("national_id", text)
    [finding] = find(before + value, ALL)
    assert finding == Finding("national_id", len(before), len(before + value), country)
    other = "SE" if country != "SE" else "US"
    assert find(before + value, PiiParams(countries=[other])) == []


@pytest.mark.parametrize(
    "text",
    [
        "000-12-3456",
        "666-12-3456",
        "912-12-3456",
        "536-00-4399",
        "536-90-0000",
        "078-05-1120",
        "123-45-6789",
        "536904399",
        "x536-90-4399",
        "536-90-43990",
        "QQ 12 34 56 C",
        "MC146818A",
        "Steuer-ID 36 574 261 890",
        "36574261809",
        "54362315Z",
        "RCCMNL83S18D969X",
        "111222333",
        "390.533.447-06",
        "2341 2341 2346",
        "44051401359",
        "880320-0016",
        "360426199101010072",
    ],
)
def test_no_personal_number(text: str) -> None:
    assert found(text) == []


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


RANDOM = "q7Zp2LxV9rTn4KwB8sYd3MhF6jGc1QaE5uXoR0vi"
TOKEN = f"{part({'alg': 'HS256'})}.{part({'sub': '77'})}.{RANDOM}"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{RANDOM * 3}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        "«AKIA" + "Q3EGLZ4TNWX7HVRB»",
        "token «ghp_" + RANDOM[:36] + "»",
        "«glpat-" + RANDOM[:20] + "»",
        "«xoxb-" + "2716450183-2716450199-" + RANDOM[:24] + "»",
        "«sk_live_" + RANDOM[:24] + "»",
        "«AIza" + RANDOM[:35] + "»",
        "«sk-" + RANDOM + RANDOM[:8] + "»",
        "«sk-ant-api03-" + RANDOM + RANDOM + "»",
        "«npm_" + RANDOM[:36] + "»",
        "«pypi-AgEIcHlwaS5vcmc" + RANDOM * 2 + "»",
        "«hf_" + RANDOM[:34] + "»",
        "«" + TOKEN + "»",
        "«" + KEY + "»\n",
        "postgresql://app:«q7Zp2LxV»@db.internal/x",
        'password = "«q7Zp-2LxV9»"',
        '"api_key": "«' + RANDOM[:32] + '»"',
        "AWS_SECRET_ACCESS_KEY=«" + RANDOM + "»",
        "Authorization: Bearer «" + RANDOM + "»",
    ],
)
def test_a_secret(text: str) -> None:
    one("credential", text)


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-estimator-doc-link fitted",
        "hf_hub_download_from_somewhere_else_again",
        "npm_config_registry",
        'password = "changeme"',
        "PASS: ld-ifunc/ifunc-7b-x86-64",
        'password = "correcthorse"',
        "api_key: <your key>",
        'token = "${TOKEN_OF_SOMEBODY_1}"',
        'secret = os.environ["SECRET_9aB"]',
        "password=get_password(user1, key2)",
        'password == "q7Zp-2LxV9"',
        "api_key = settings.API_KEY_2",
        "https://user:password@host/",
        "https://user:${PASS}@host/",
        "github://org:repo@/precip",
        "private_key: x25519.X25519PrivateKey",
        "http://localhost:8080/@scope",
        "eyJhbGciOiJIUzI1NiJ9",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n" + RANDOM * 3 + "\n-----END PUBLIC KEY-----",
        'key="' + "a" * 40 + '"',
    ],
)
def test_no_secret(text: str) -> None:
    assert found(text) == []


def test_the_documentation_token_is_none() -> None:
    text = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': '1234567890', 'name': 'John Doe'})}.{RANDOM}"
    assert found(text) == []


def test_places_count_characters() -> None:
    text = "é́漢😀 jane@python.org 😀 81.2.69.142"
    assert [(kind, value) for kind, value in found(text)] == [("email", "jane@python.org"), ("ip", "81.2.69.142")]


def test_a_lone_surrogate_is_no_obstacle() -> None:
    assert found("\ud835 jane@python.org \udc00") == [("email", "jane@python.org")]


def test_of_two_that_overlap_the_longer_one_is_meant() -> None:
    assert found("https://app:q7Zp2LxV@81.2.69.142/") == [("credential", "q7Zp2LxV"), ("ip", "81.2.69.142")]
    assert found("16502530000@python.org") == [("email", "16502530000@python.org")]


def test_details_name_the_kind() -> None:
    assert [
        finding.detail for finding in find("jane(at)python.org +44 20 7031 3000 2a00:1450:4001:81b::200e", ALL)
    ] == [
        "obfuscated",
        "GB",
        "IPv6",
    ]
