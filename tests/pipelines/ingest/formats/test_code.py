"""Source code: the language that a name tells, the licence that a header declares."""

import gzip
import json

import pytest

from pipelines.ingest.formats.code import declared_licence, language_of

from .reading import items, reasons, records


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("src/main.rs", "Rust"),
        ("a/b.test.TS", "TypeScript"),
        ("Makefile", "Makefile"),
        ("deploy/Dockerfile", "Dockerfile"),
        ("CMakeLists.txt", "CMake"),
        ("kernel.cu", "Cuda"),
        ("analysis.R", "R"),
        ("notes.txt", None),
        ("README", None),
        (".py", "Python"),
    ],
)
def test_the_name_tells_the_language(name: str, language: str | None) -> None:
    assert language_of(name) == language


def test_a_file_is_one_record_with_language_and_licence() -> None:
    [record] = records(items("code", b"# SPDX-License-Identifier: MIT\nx = 1\n", "pkg/x.py"))
    assert (record.key, record.text, record.license) == ("0", "# SPDX-License-Identifier: MIT\nx = 1\n", "MIT")
    assert json.loads(record.metadata or "") == {"programming_language": "Python"}


def test_the_suffix_of_a_compression_is_not_the_languages() -> None:
    [record] = records(items("code", gzip.compress(b"package main\n"), "main.go.gz"))
    assert json.loads(record.metadata or "") == {"programming_language": "Go"}


def test_a_file_of_no_known_language_and_without_licence_says_nothing_about_them() -> None:
    [record] = records(items("code", b"x\n", "script"))
    assert (record.license, record.metadata) == (None, None)


@pytest.mark.parametrize(
    ("header", "licence"),
    [
        ("/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */", "GPL-2.0-only WITH Linux-syscall-note"),
        ("// SPDX-License-Identifier: (MIT OR Apache-2.0)", "(MIT OR Apache-2.0)"),
        ("<!-- SPDX-License-Identifier: BSD-3-Clause -->", "BSD-3-Clause"),
        ("(* SPDX-License-Identifier: MIT *)", "MIT"),
        ("(SPDX-License-Identifier: MIT)", "MIT"),
        ("# SPDX-License-Identifier:", None),
        ('# Licensed under the Apache License, Version 2.0 (the "License");', "Apache-2.0"),
        (" * Licensed under the Apache\n *  License, Version 2.0", "Apache-2.0"),
        (
            "Permission is hereby granted, free of charge, to any\n// person obtaining a copy of this\n// software and",
            "MIT",
        ),
        ("// Use of this source code is governed by a BSD-style\n// license that can be found", "LicenseRef-BSD"),
        ("Redistribution and use in source and binary forms, … Neither the name of the", "BSD-3-Clause"),
        ("Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"),
        (
            "# it under the terms of the GNU General Public License as published by\n"
            "# the Free Software Foundation; either version 2 of the License, or\n"
            "# (at your option) any later version.",
            "GPL-2.0-or-later",
        ),
        ("the GNU Lesser General Public License version 2.1 as published", "LGPL-2.1-only"),
        ("GNU Affero General Public License, either version 3 or any later version", "AGPL-3.0-or-later"),
        ("subject to the terms of the Mozilla Public\n * License, v. 2.0.", "MPL-2.0"),
        ("the GNU General Public License", None),
        ("def licence(): return 'none'", None),
    ],
)
def test_the_licence_of_a_header(header: str, licence: str | None) -> None:
    assert declared_licence(header + "\n\ncode()\n") == licence


def test_a_licence_far_below_the_header_is_not_the_files() -> None:
    assert declared_licence("x = 1\n" * 2000 + "# SPDX-License-Identifier: MIT\n") is None


@pytest.mark.parametrize(
    ("data", "reason"), [(b"\x00\x01\x02\x03" * 50, "not_text"), (b" \n", "empty_text"), (b"x" * 200, "too_large")]
)
def test_what_is_no_source_code_is_rejected(data: bytes, reason: str) -> None:
    assert reasons(items("code", data, "a.c", max_bytes=190 if reason == "too_large" else 1000)) == [("0", reason)]
