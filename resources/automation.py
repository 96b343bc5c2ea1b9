"""What a profile says about work that starts by itself: when, on which files, whom to tell, how long to remember.

The schedules and sensors that read it stand in `jobs/`.
"""

import difflib
from typing import Annotated, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field, field_validator, model_validator

from pipelines.profile import Params

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def known_time_zone(name: str) -> str:
    """The name of a time zone, as it came. Raises `ValueError` with the nearest one for a name that is none."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = {zone.casefold(): zone for zone in available_timezones()}
        last_parts = {zone.rpartition("/")[2]: zone for zone in known}
        wanted = name.strip().casefold().replace(" ", "_")
        near = difflib.get_close_matches(wanted, known, 1, 0.75) or [
            last_parts[part] for part in difflib.get_close_matches(wanted, last_parts, 1)
        ]
        hint = f"did you mean {known[near[0]]!r}?" if near else "such as 'UTC' or 'Europe/Berlin'"
        raise ValueError(f"name a time zone of the IANA ({hint})") from None
    return name


TimeZone = Annotated[str, AfterValidator(known_time_zone)]


class ScheduleParams(Params):
    """When jobs start by themselves, once their schedule is turned on in Dagster. A schedule without a time does not
    exist.
    """

    nightly: str | None = Field(
        default="0 1 * * *",
        description="when corpus_job starts, as a cron line (minute hour day month weekday) in the profile's timezone",
    )
    weekly: str | None = Field(default="0 5 * * 0", description="when full_job starts, written the same way")

    @field_validator("nightly", "weekly")
    @classmethod
    def _is_cron(cls, line: str | None) -> str | None:
        from dagster._utils.schedules import is_valid_cron_string  # not for those who only read a profile

        if line is not None and not is_valid_cron_string(line):
            raise ValueError(
                "write a cron line (minute hour day month weekday, for example '30 2 * * *' for 2:30 every day), "
                "or null for no schedule"
            )
        return line


class WatchParams(Params):
    """Which sources the sensor `new_files` watches, once it is turned on in Dagster."""

    sources: list[str] | None = Field(
        default=None, description="names of the sources to watch; null: all that read a folder or file of their own"
    )
    every_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="seconds between two looks; a change is taken up once two looks in a row found the same",
    )


class EmailParams(Params):
    """E-mail about failed runs. The password is never written down here: it is in `CORPUSMILL_SMTP_PASSWORD`."""

    to: list[str] = Field(default=[], description="addresses that are told; empty: no e-mail")
    sender: str = Field(default="corpusmill@localhost", description="address that the e-mail comes from")
    host: str = Field(default="localhost", description="SMTP server")
    port: int = Field(default=587, ge=1, le=65_535, description="its port")
    starttls: bool = Field(default=True, description="whether the connection is encrypted before anything is said")
    user: str | None = Field(default=None, description="user to log in as; null: no login")

    @model_validator(mode="after")
    def _no_password_in_the_clear(self) -> Self:
        if self.user and not self.starttls and self.host not in LOOPBACK:
            raise ValueError(f"the password of {self.user!r} would travel to {self.host} readable; set starttls: true")
        return self


class AlertParams(Params):
    """Whom the sensor `failure_alert` tells of a failed run. It always writes into Dagster's log."""

    webserver: str | None = Field(
        default=None, pattern=r"^https?://", description="address of Dagster's webserver, for links to the run"
    )
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="URL that gets the alert as JSON by POST; null: none"
    )
    email: EmailParams = Field(default=EmailParams(), description="whom to tell by e-mail, and through which server")


class RetentionParams(Params):
    """How long the sensor `housekeeping` leaves the logs of finished runs in Dagster. The ledger is never touched."""

    days: int | None = Field(
        default=None, ge=1, le=36_500, description="days after which a finished run may go from Dagster; null: never"
    )
