"""What a user may say about a source and about ingestion. How files are found and read stands beside this module."""

from datetime import date
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.profile import Params

MEGABYTE = 1_000_000
FIELDS = ("text", "id", "license", "url", "date")
WITH_FIELDS = frozenset({"jsonl", "json", "csv", "parquet", "arrow"})
"""Readers of records with named fields."""


class Source(Params):
    """One corpus: files in a folder or behind a URL, or the text that a Python environment already holds."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="name of the source and of its partition: small letters, digits, '-' and '_', at most 63",
    )
    reader: Literal[
        "auto",
        "environment",
        "text",
        "code",
        "notebook",
        "html",
        "jsonl",
        "json",
        "csv",
        "parquet",
        "arrow",
        "warc",
        "mediawiki",
    ] = Field(
        default="auto",
        description="how files are read; 'auto' decides file by file from content, then name; "
        "'environment' reads what installed Python packages ship",
    )
    path: str = Field(
        default="",
        description="what to read: a folder or a file, a pattern such as data/**/*.jsonl.gz, or an fsspec URL of one, "
        "such as s3://bucket/folder, https://host/file or hf://datasets/owner/name; for reader 'environment' the "
        "site-packages folder, empty: that of the running Python",
    )
    what: Literal["", "readmes", "docstrings", "licences", "code"] = Field(
        default="", description="for reader 'environment': which text of the packages is read"
    )
    include: list[str] = Field(
        default=[],
        description="shell patterns of the files to read ('*' also crosses folders), tried on the file's name and on "
        "its path below the root; empty: all files that are not hidden",
    )
    exclude: list[str] = Field(default=[], description="shell patterns of the files to leave out, tried the same way")
    fields: dict[str, str] = Field(
        default={},
        description="which field of a record holds text (if not 'text'), id, license, url and date, for example "
        "{text: body}",
    )
    license: str = Field(default="", description="SPDX expression for the whole source, where records name none")
    consent: str = Field(
        default="", description="what the use of the source rests on, in the user's words, for the compliance audit"
    )
    region: str = Field(default="", description="where the source comes from, such as EU, for the compliance audit")
    retention_days: int | None = Field(
        default=None,
        ge=0,
        le=36_500,
        description="days for which a document may be used, from its date; null: for ever",
    )
    collected: date | None = Field(
        default=None, description="day on which the source was gathered, the date of documents that bear none"
    )
    max_megabytes: float = Field(
        default=0.0,
        ge=0,
        description="at most this much (10^6 bytes of files as stored) is read, a stable sample; 0: everything",
    )
    errors: Literal["skip", "fail"] | int = Field(
        default="skip",
        description="bad input is rejected and counted ('skip'), or stops the ingestion ('fail'), or does so "
        "where one file has more of it than this number",
    )

    @field_validator("errors", mode="before")
    @classmethod
    def _a_number_or_a_word(cls, value: Any) -> Any:
        if isinstance(value, bool) or (isinstance(value, int) and value < 0):
            raise ValueError("`errors` is 'skip', 'fail' or how many errors a file may have, 0 or more")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "Source":
        told = f"source {self.name!r}"
        environment = self.reader == "environment"
        if environment and not self.what:
            raise ValueError(f"{told}: reader 'environment' needs `what`: readmes, docstrings, licences or code")
        if not environment and self.what:
            raise ValueError(f"{told}: `what` is for reader 'environment'; remove it or change the reader")
        if not environment and not self.path:
            raise ValueError(f"{told}: `path` is empty; name the folder or the file to read")
        if environment and self.license:
            raise ValueError(f"{told}: `license` comes from each package with reader 'environment'; remove it")
        if self.reader == "warc" and self.fields not in ({}, {"id": "url"}):
            raise ValueError(f"{told}: of a web archive only `fields: {{id: url}}` can be mapped; remove the others")
        if self.fields and self.reader not in {"auto", "warc", *WITH_FIELDS}:
            raise ValueError(f"{told}: reader {self.reader!r} reads no records that have `fields`; remove them")
        for ours, theirs in self.fields.items():
            if ours not in FIELDS:
                raise ValueError(f"{told}: `fields` maps {ours!r}, but only {', '.join(FIELDS)} can be mapped")
            if not theirs:
                raise ValueError(f"{told}: `fields` maps {ours!r} to an empty name; name the record's field")
        return self

    def field(self, ours: str) -> str:
        """The record's field that holds `ours`; empty where none is mapped. The text's default is 'text'."""
        return self.fields.get(ours, "text" if ours == "text" else "")

    @property
    def errors_allowed(self) -> int | None:
        """How much bad input a file may have before ingestion stops; None: any amount."""
        if isinstance(self.errors, int):
            return self.errors
        return 0 if self.errors == "fail" else None


class IngestParams(Params):
    """How sources are cut into shards, and what is too large to be a document."""

    shard_megabytes: float = Field(
        default=32.0, ge=0.001, le=1024, description="text in one shard, 10^6 bytes: what one worker holds in memory"
    )
    max_document_megabytes: float = Field(
        default=32.0, ge=0.001, le=1024, description="a larger record (as stored) is rejected, 10^6 bytes"
    )

    @property
    def shard_bytes(self) -> int:
        """Bytes of text after which a shard is closed."""
        return round(self.shard_megabytes * MEGABYTE)

    @property
    def max_document_bytes(self) -> int:
        """Bytes that a record may have."""
        return round(self.max_document_megabytes * MEGABYTE)
