"""Telling people: a message to a webhook and by e-mail, within bounds, whatever the other side does.

What is told of a failed run stands in `jobs/sensors/alerts.py`.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from resources.automation import AlertParams, EmailParams

TRIES = 3
TIMEOUT_SECONDS = 5.0
"""How long one answer of the other side may take."""

LIMIT_SECONDS = 30.0
"""How long telling may take altogether: Dagster gives a sensor a minute."""

PAUSE_SECONDS = 1.0
"""Before the second try; twice as long before the third."""


@dataclass(frozen=True)
class Message:
    """subject: one line. text: for people. facts: the same for programs, JSON values."""

    subject: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def notify(message: Message, alerts: AlertParams, password: str | None) -> dict[str, str]:
    """Tell everybody whom the profile names, all at once. Returns, by channel, '' where it worked, else why not.

    password: of the e-mail user. Never raises, and returns within `LIMIT_SECONDS`.
    """
    channels: dict[str, Callable[[], None]] = {}
    if url := alerts.webhook:
        channels["webhook"] = lambda: post(url, message)
    if alerts.email.to:
        channels["email"] = lambda: send(alerts.email, message, password)
    outcomes = dict.fromkeys(channels, f"no answer within {LIMIT_SECONDS:.0f} s")

    def tell(channel: str) -> None:
        outcomes[channel] = _tried(channels[channel])

    threads = [threading.Thread(target=tell, args=(channel,), daemon=True) for channel in channels]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + LIMIT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(outcomes)


def post(url: str, message: Message) -> None:
    """POST a message as JSON: `text`, which chat services show, and the facts beside it. Raises `OSError`."""
    import json
    import urllib.request

    body = json.dumps({"text": f"{message.subject}\n{message.text}", **message.facts}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "User-Agent": "corpusmill"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # raises for 4xx and 5xx
        answer.read(1024)


def send(email: EmailParams, message: Message, password: str | None) -> None:
    """Send a message as an e-mail. Raises `OSError` (smtplib's errors are such) or `ValueError`."""
    import smtplib
    import ssl
    from email.message import EmailMessage
    from email.utils import formatdate, make_msgid

    if email.user and not password:
        raise ValueError(f"the password of {email.user!r} is not set: export CORPUSMILL_SMTP_PASSWORD")
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = message.subject, email.sender, ", ".join(email.to)
    mail["Date"], mail["Message-ID"] = formatdate(localtime=True), make_msgid(domain="corpusmill")
    mail.set_content(message.text)
    with smtplib.SMTP(email.host, email.port, timeout=TIMEOUT_SECONDS) as server:
        if email.starttls:
            server.starttls(context=ssl.create_default_context())
        if email.user and password:
            server.login(email.user, password)
        server.send_message(mail)


def _tried(tell: Callable[[], None]) -> str:
    """Why a channel failed in the end; '' if it worked."""
    reason = ""
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE_SECONDS * number)
        try:
            tell()
            return ""
        except ValueError as error:  # trying again does not help
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever the other side does, the other channels go on
            reason = f"{type(error).__name__}: {error}"
            if 400 <= getattr(error, "code", 0) < 500:
                break
    return reason
