"""Source code: a whole file as one document, with the language that its name tells and the licence that it declares.

Whether code is generated, minified or otherwise poor is the business of the quality rules. Notebooks have a reader of
their own (`notebook.py`), which asks here for the licence.
"""

import re

from pipelines.ingest.formats import text
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, metadata_json
from pipelines.ingest.streams import Stream

SUFFIXES: dict[str, str] = {
    ".adb": "Ada",
    ".ads": "Ada",
    ".asm": "Assembly",
    ".s": "Assembly",
    ".awk": "Awk",
    ".bat": "Batchfile",
    ".cmd": "Batchfile",
    ".c": "C",
    ".h": "C",
    ".cs": "C#",
    ".cc": "C++",
    ".cpp": "C++",
    ".cxx": "C++",
    ".hh": "C++",
    ".hpp": "C++",
    ".hxx": "C++",
    ".cmake": "CMake",
    ".css": "CSS",
    ".clj": "Clojure",
    ".cljs": "Clojure",
    ".coffee": "CoffeeScript",
    ".lisp": "Common Lisp",
    ".cr": "Crystal",
    ".cu": "Cuda",
    ".cuh": "Cuda",
    ".pxd": "Cython",
    ".pyx": "Cython",
    ".d": "D",
    ".dart": "Dart",
    ".ex": "Elixir",
    ".exs": "Elixir",
    ".elm": "Elm",
    ".el": "Emacs Lisp",
    ".erl": "Erlang",
    ".hrl": "Erlang",
    ".fs": "F#",
    ".fsx": "F#",
    ".f": "Fortran",
    ".f03": "Fortran",
    ".f90": "Fortran",
    ".f95": "Fortran",
    ".glsl": "GLSL",
    ".go": "Go",
    ".gradle": "Gradle",
    ".graphql": "GraphQL",
    ".groovy": "Groovy",
    ".hcl": "HCL",
    ".tf": "HCL",
    ".hs": "Haskell",
    ".java": "Java",
    ".cjs": "JavaScript",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".mjs": "JavaScript",
    ".jl": "Julia",
    ".kt": "Kotlin",
    ".kts": "Kotlin",
    ".less": "Less",
    ".lua": "Lua",
    ".mk": "Makefile",
    ".nim": "Nim",
    ".nix": "Nix",
    ".ml": "OCaml",
    ".mli": "OCaml",
    ".m": "Objective-C",
    ".mm": "Objective-C++",
    ".php": "PHP",
    ".pas": "Pascal",
    ".pl": "Perl",
    ".pm": "Perl",
    ".ps1": "PowerShell",
    ".psm1": "PowerShell",
    ".pro": "Prolog",
    ".proto": "Protocol Buffer",
    ".py": "Python",
    ".pyi": "Python",
    ".r": "R",
    ".rkt": "Racket",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".sass": "Sass",
    ".scss": "SCSS",
    ".sql": "SQL",
    ".scala": "Scala",
    ".scm": "Scheme",
    ".bash": "Shell",
    ".sh": "Shell",
    ".zsh": "Shell",
    ".sol": "Solidity",
    ".bzl": "Starlark",
    ".swift": "Swift",
    ".sv": "SystemVerilog",
    ".tcl": "Tcl",
    ".thrift": "Thrift",
    ".cts": "TypeScript",
    ".mts": "TypeScript",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".vhd": "VHDL",
    ".vhdl": "VHDL",
    ".v": "Verilog",
    ".vim": "Vim Script",
    ".vb": "Visual Basic .NET",
    ".vue": "Vue",
    ".wat": "WebAssembly",
    ".zig": "Zig",
}
"""Suffix of a name, in small letters → the language, spelt as GitHub's Linguist does. Where several languages share a
suffix (.h, .m, .pl, .v) the one that repositories hold more of stands here."""

NAMES: dict[str, str] = {
    "build.bazel": "Starlark",
    "cmakelists.txt": "CMake",
    "containerfile": "Dockerfile",
    "dockerfile": "Dockerfile",
    "gemfile": "Ruby",
    "gnumakefile": "Makefile",
    "jenkinsfile": "Groovy",
    "justfile": "Just",
    "makefile": "Makefile",
    "rakefile": "Ruby",
    "vagrantfile": "Ruby",
}
"""Whole name, in small letters → the language."""

SPELLINGS = {language.lower(): language for language in (*SUFFIXES.values(), *NAMES.values())}
"""A language in small letters → as it is spelt here."""

HEADER_CHARACTERS = 8_000
"""How far into a file a licence is looked for: the longest common headers (BSD) end well before."""

_SPDX = re.compile(r"SPDX-License-Identifier:[ \t]*([^\r\n]+)")
_EXPRESSION = re.compile(
    r"\(*[A-Za-z0-9][\w.+:-]*\)*(?: (?:AND|OR|WITH|and|or|with) \(*[A-Za-z0-9][\w.+:-]*\)*)*", re.ASCII
)
_COMMENT_MARKS = re.compile(r"[\s*#/;%!\"'-]+|\bREM\b|\bdnl\b")
_BSD = "redistribution and use in source and binary forms"
_GNU = re.compile(r"gnu (lesser |library |affero )?general public licen[cs]e")
_GNU_NAMES = {None: "GPL", "lesser ": "LGPL", "library ": "LGPL", "affero ": "AGPL"}
_GNU_VERSION = re.compile(r"\bversion (3|2\.1|2)\b|\bv(3|2\.1|2)\b")
_PHRASES = (
    ("licensed under the apache license, version 2.0", "Apache-2.0"),
    ("subject to the terms of the mozilla public license, v. 2.0", "MPL-2.0"),
    ("permission is hereby granted, free of charge, to any person obtaining a copy of this software and", "MIT"),
    ("permission to use, copy, modify, and distribute this software for any purpose with or without fee", "ISC"),
    ("permission to use, copy, modify, and/or distribute this software for any purpose with or without fee", "ISC"),
    ("this is free and unencumbered software released into the public domain", "Unlicense"),
    ("distributed under the boost software license, version 1.0", "BSL-1.0"),
    ("governed by a bsd style license", "LicenseRef-BSD"),
    ("licensed under the mit license", "MIT"),
    ("released under the mit license", "MIT"),
)
"""Words of the usual headers, in small letters and without comment marks (a hyphen counts as one) → SPDX."""


def language_of(name: str) -> str | None:
    """The programming language that a file's name tells; None: it is no name of source code."""
    name = name.rsplit("/", 1)[-1].lower()
    return NAMES.get(name) or (SUFFIXES.get(name[name.rfind(".") :]) if "." in name else None)


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A source file as record 0, with its licence and, in the metadata, `programming_language`."""
    for made in text.read(stream, source, max_bytes):
        if isinstance(made, Record):
            language = language_of(stream.name.removesuffix(stream.suffix))
            made.license = declared_licence(made.text)
            made.metadata = metadata_json({"programming_language": language} if language else {})
        yield made


def declared_licence(code: str) -> str | None:
    """The licence that the beginning of a source file declares, as an SPDX expression; None: none that is known.

    An `SPDX-License-Identifier` decides (SPDX specification 2.3, annex E), else the words of a usual header.
    """
    head = code[:HEADER_CHARACTERS]
    if tagged := _SPDX.search(head):
        found = _EXPRESSION.match(tagged[1])
        return _balanced(found[0]) if found else None
    words = _COMMENT_MARKS.sub(" ", head).lower()
    for phrase, licence in _PHRASES:
        if phrase in words:
            return licence
    if _BSD in words:
        return "BSD-3-Clause" if "neither the name" in words else "BSD-2-Clause"
    if gnu := _GNU.search(words):
        return _gnu_licence(_GNU_NAMES[gnu[1]], words[max(0, gnu.start() - 400) : gnu.end() + 400])
    return None


def _balanced(expression: str) -> str:
    """An expression without the closing brackets of a comment that stood behind it."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1]
    return expression


def _gnu_licence(family: str, words: str) -> str | None:
    version = _GNU_VERSION.search(words)
    if version is None:
        return None
    number = version[1] or version[2]
    number = number if "." in number else f"{number}.0"
    return f"{family}-{number}-{'or-later' if 'any later version' in words else 'only'}"
