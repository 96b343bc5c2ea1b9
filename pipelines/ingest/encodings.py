"""What makes bytes into text: byte order marks, UTF-8 with a scratch, other encodings, and Unicode that is broken.

Text is kept as the source has it; repairing it is the business of cleaning, except where Unicode itself is broken: the
store holds valid UTF-8 only.
"""

import codecs
import io
import unicodedata
from typing import Any, BinaryIO

WHITE_SPACE = " \t\n\r\v\f"
MAX_REPLACED_SHARE = 0.01
MAX_CONTROL_SHARE = 0.1
ENOUGH_BYTES = 12
"""Fewer bytes beyond ASCII than this say nothing about an encoding."""
DETECTION_BYTES = 1 << 16
_LARGER = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
}
"""Encodings, and what Windows made of them: the same letters in the same places, and more of them."""
MAX_ODD_SHARE = 0.02
"""Of the characters beyond ASCII, how many may be no letters, marks, digits or punctuation where the guess is right."""
_CONTROLS = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\x1b")
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and the encodings that they name."""


class NotText(Exception):
    """Bytes that cannot pass as text. `reason` is one of `pipelines.ingest.records.REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """A file's bytes as text, and what was repaired. A byte order mark names the encoding and is removed.

    Without a mark it is UTF-8, or UTF-16 where its zero bytes say so. Raises `NotText` as `decode_utf8` does.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
    if wide := _unmarked(data[:DETECTION_BYTES]):
        return _decode(data, wide)
    return decode_utf8(data)


def decode_any(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The same, and other encodings where it is clear which one it is; the repair is then named after it."""
    try:
        return decode(data)
    except NotText as error:
        charset = charset_of(data) if error.reason == "not_utf8" else None
        if charset is None:
            raise
        return data.decode(charset, "replace"), (f"decoded_{charset}",)


def decode_utf8(data: bytes, charset: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Bytes as UTF-8 text, and what was repaired: a broken sequence becomes U+FFFD.

    One, or one in a hundred characters, is damage that can be lived with; more are another encoding: `charset`, if
    it is known, else they raise `NotText`, as more than one control character in ten bytes does.
    """
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if controls > max(1, len(data) * MAX_CONTROL_SHARE):
        raise NotText("not_text", f"{controls} of {len(data)} bytes are control characters")
    try:
        return _decode(data, "utf-8")
    except NotText:
        if charset is None:
            raise
        return data.decode(charset, "replace"), (f"decoded_{charset}",)


def _decode(data: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    try:
        return data.decode(encoding), ()
    except UnicodeDecodeError as error:
        first = error.start
    text = data.decode(encoding, "replace")
    replaced = text.count("\ufffd") - data.count("\ufffd".encode(encoding))
    if replaced > max(1, len(text) * MAX_REPLACED_SHARE):
        told = f"{replaced} broken sequences in {len(text)} characters, the first at byte {first}; convert to UTF-8"
        raise NotText("not_utf8", told)
    return text, ("broken_utf8",)


def valid_unicode(text: str) -> tuple[str, tuple[str, ...]]:
    """Text without lone surrogates (halves that belong together are joined, others become U+FFFD), and the repair."""
    if text.isascii():
        return text, ()
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), ("lone_surrogates",)
    return text, ()


def is_blank(text: str) -> bool:
    """True if there is nothing but ASCII white space."""
    return not text or (text[0] in WHITE_SPACE and not text.strip(WHITE_SPACE))


def charset_of(data: bytes) -> str | None:
    """The encoding of bytes that are no UTF-8, by Python's name; None where it is not clear.

    It is what resiliparse (uchardet) finds in the beginning, provided that there is enough to see, that everything can
    be decoded by it, and that what comes out are letters and not the boxes and signs of a wrong guess.
    """
    data = data[:DETECTION_BYTES]
    beyond = bytes(byte for byte in data if byte >= 128)
    if len(beyond) < ENOUGH_BYTES:
        return None
    from resiliparse.parse.encoding import detect_encoding

    try:
        name = codecs.lookup(detect_encoding(data, max_len=DETECTION_BYTES, html5_compatible=False) or "").name
        name = _LARGER.get(name, name)
        text = codecs.getincrementaldecoder(name)().decode(data)
    except (LookupError, UnicodeDecodeError):
        return None
    if name in ("utf-8", "ascii"):
        return None
    foreign = [character for character in text if character >= "\x80"]
    odd = sum(unicodedata.category(character)[0] not in "LMNPZ" for character in foreign)
    return name if foreign and odd <= len(foreign) * MAX_ODD_SHARE else None


def charset_of_lines(head: bytes) -> str | None:
    """The encoding of the lines in a file's beginning that are no UTF-8; None: there are none, or it is not clear."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return None
    except UnicodeDecodeError:
        pass
    foreign = []
    for line in head.splitlines(keepends=True):
        try:
            line.decode()
        except UnicodeDecodeError:
            foreign.append(line)
    return charset_of(b"".join(foreign))


def wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, where a byte order mark says so, and UTF-16 without one where its zero bytes do."""
    return next((encoding for mark, encoding in MARKS[1:] if head.startswith(mark)), None) or _unmarked(head)


def _unmarked(head: bytes) -> str | None:
    """UTF-16 without a byte order mark, if it is that. Only bytes with too many control characters to be UTF-8 may be.

    The zeros of its spaces, digits and Latin letters stand at odd places (little endian) or at even ones, but for those
    of a few characters at the beginning of a block of Unicode; and what comes out is no rubbish.
    """
    zeros = head.count(0)
    if not zeros or len(head) - len(head.translate(None, _CONTROLS)) <= max(1, len(head) * MAX_CONTROL_SHARE):
        return None
    odd = head[1::2].count(0)
    if min(odd, zeros - odd) * 4 > zeros or zeros * 40 < len(head):
        return None
    encoding = "utf-16-le" if odd > zeros - odd else "utf-16-be"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None
    strange = sum(unicodedata.category(character)[0] == "C" for character in text if character not in WHITE_SPACE)
    return encoding if strange <= len(text) * MAX_ODD_SHARE else None


def as_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    """A file in UTF-16 or UTF-32 as UTF-8, with the mark. Lone surrogates pass as the three bytes that are no UTF-8."""
    return io.BufferedReader(_Recoded(file, encoding), 1 << 17)


class _Recoded(io.RawIOBase):
    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._ready = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready and not self._ended:
            block = self._file.read(1 << 16)
            self._ended = not block
            try:
                text = self._decoder.decode(block, final=self._ended)
            except UnicodeDecodeError:  # an odd byte at the end, or what is no code point
                self._decoder.errors = "replace"
                text = self._decoder.decode(block, final=self._ended)
            self._ready = memoryview(text.encode("utf-8", "surrogatepass"))
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
