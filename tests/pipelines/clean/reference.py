"""What the signals are, in plain Python: clear and slow, the oracle of the compiled ones.

Nothing here is shared with `pipelines/clean/` but the list of exceptions, which is data.
"""

import re
import unicodedata
from collections import Counter
from itertools import groupby, pairwise

from pipelines.clean.contractions import exceptions

PUNCTUATION = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
QUOTES = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉\u2329\u232a⟦⟧"
CURRENCIES = "$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"
UNITS = (
    "nm µm mm cm dm m km in ft yd mm² mm³ cm² cm³ dm² dm³ m² m³ km² km³ ha µg mg g kg t oz lb m/s km/h kmh mph Pa hPa "
    "mbar K M G T kb KB mb MB gb GB tb TB %"
)
STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}


def lower(c: str) -> bool:
    return bool(c) and unicodedata.category(c)[0] in "LM" and unicodedata.category(c) != "Lu"


def upper(c: str) -> bool:
    return bool(c) and unicodedata.category(c)[0] in "LM" and unicodedata.category(c) != "Ll"


def letter(c: str) -> bool:
    return lower(c) or upper(c)


def digit(c: str) -> bool:
    return bool(c) and c in "0123456789"


def icon(c: str) -> bool:
    return c == "…" or unicodedata.category(c) == "So"


def prefix(run: str) -> int:
    """Characters cut off the beginning."""
    if run[0] in PUNCTUATION + QUOTES + CURRENCIES + "—–§%=" or icon(run[0]):
        return 1
    if run[0] == "+":
        return int(not digit(run[1:2]))
    if found := re.match(r"\.\.+|US\$|[AC]\$", run):
        return len(found[0])
    return 0


def suffix(run: str) -> int:
    """Characters cut off the end."""
    if not run:
        return 0
    last, before = run[-1], run[-2:-1]
    if last in PUNCTUATION + QUOTES + "—–" or icon(last):
        return 1
    if run.endswith(".."):
        return len(run) - len(run.rstrip("."))
    if last == "." and before:
        ends = lower(before) or before in "0123456789%²-+|" + PUNCTUATION + QUOTES
        return int(ends or (upper(before) and upper(run[-3:-2])))
    if run[-2:] in ("'s", "'S", "’s", "’S"):
        return 2
    if last == "+" or last in CURRENCIES:
        return int(digit(before))
    for unit in UNITS.split():
        if run.endswith(unit) and digit(run[-len(unit) - 1 : -len(unit)]):
            return len(unit)
    return 0


def infix(run: str, at: int) -> int:
    """Characters of the sign that cuts a run in two."""
    before, after = run[at - 1] if at else "", run[at + 1 : at + 2]
    if found := re.compile(r"\.\.+").match(run, at):
        return len(found[0])
    if icon(run[at]):
        return 1
    if run[at] in "+-*^" and digit(before) and (digit(after) or after == "-"):
        return 1
    if run[at] == ".":
        return int((lower(before) or before in list(QUOTES)) and (upper(after) or after in list(QUOTES)))
    if run[at] == ",":
        return int(letter(before) and letter(after))
    if letter(before) or digit(before):
        if run[at] in ":<>=/":
            return int(letter(after))
        for dash in ("-", "–", "—", "--", "---", "——", "~"):
            if run.startswith(dash, at) and letter(run[at + len(dash) : at + len(dash) + 1]):
                return len(dash)
    return 0


def words(text: str) -> list[str]:
    found: list[str] = []
    for run in text.split():
        found += cut(run)
    return found


def cut(run: str) -> list[str]:
    """Words of a run without white space."""
    known = exceptions()
    first, last, whole = [], [], run
    while whole and whole not in known:
        before = prefix(whole)
        if before and whole[before:] in known:
            first.append(whole[:before])
            whole = whole[before:]
            break
        after = suffix(whole[before:])
        end = len(whole) - after
        if after and whole[:end] in known:
            last.append(whole[end:])
            whole = whole[:end]
            break
        if before:
            first.append(whole[:before])
        if after:
            last.append(whole[end:])
        if not before and not after:
            break
        whole = whole[before:end]
    return first + list(known.get(whole) or inside(whole)) + last[::-1]


def inside(whole: str) -> list[str]:
    if not whole:
        return []
    cuts = []
    at = 0
    while at < len(whole):
        size = infix(whole, at)
        if size and at:
            cuts += [at, at + size]
        at += max(size, 1)
    if cuts and is_address(whole):
        return [whole]
    bounds = [0, *cuts, len(whole)]
    return [whole[a:b] for a, b in pairwise(bounds) if a < b]


def is_address(whole: str) -> bool:
    starts = [0]
    if found := re.match(r"[\w+.\-]{2,}?://", whole, re.ASCII):
        starts.append(found.end())
    starts += [at + 1 for at, c in enumerate(whole) if c == "@" and at]
    return any(is_host(whole[start:]) for start in starts)


def is_host(text: str) -> bool:
    name = re.match(r"(?:[^\W]|[-.]|[\u00a1-\uffff])*", text)[0]
    labels = name.split(".")
    if not re.fullmatch(r"(?::[0-9]{2,5})?(?:[/?#].*)?", text[len(name) :], re.DOTALL):
        return False
    if not all(0 < len(label) <= 64 and label[0] not in "-_" and label[-1] not in "-_" for label in labels[:-1]):
        return False
    last = labels[-1]
    named = len(labels) > 1 and 2 <= len(last) <= 63 and all(map(lower, last))
    return named or (len(labels) == 4 and all(digit(c) for label in labels for c in label) and bool(last))


def is_sign(word: str) -> bool:
    """Whether a word is punctuation only."""
    return all(unicodedata.category(c)[0] == "P" or unicodedata.category(c) == "Cc" or c in "$+<=>^`|~" for c in word)


def lines(text: str) -> list[str]:
    found = text.split("\n")
    return found[:-1] if found[-1] == "" else found


def seen_before(items: list[str]) -> list[str]:
    return [item for at, item in enumerate(items) if item in items[:at]]


def characters_of(items: list[str]) -> int:
    return sum(map(len, items))


def gopher_quality(text: str) -> dict[str, float | None]:
    tokens, rows = words(text), lines(text)
    real = [token for token in tokens if not is_sign(token)]
    ellipses = text.count("…") + sum(len(list(run)) // 3 for c, run in groupby(text) if c == ".")
    return {
        "words": len(real),
        "mean_word_characters": share(characters_of(real), len(real)),
        "hashes_per_word": share(text.count("#"), len(tokens)),
        "ellipses_per_word": share(ellipses, len(tokens)),
        "bullet_line_share": share(sum(row.strip()[:1] in ("•", "-") for row in rows if row.strip()), len(rows)),
        "ellipsis_line_share": share(sum(row.rstrip().endswith(("…", "...")) for row in rows), len(rows)),
        "alphabetic_word_share": share(sum(any(map(str.isalpha, token)) for token in tokens), len(tokens)),
        "stop_words": len(STOP_WORDS.intersection(tokens)),
    }


def gopher_repetition(text: str) -> dict[str, float | None]:
    tokens = words(text)
    filled = [row for row in text.split("\n") if row]
    paragraphs = [part for part in re.split(r"\n\n+", text.strip("\n")) if part]
    found = {
        "duplicate_paragraph_share": share(len(seen_before(paragraphs)), len(paragraphs)),
        "duplicate_paragraph_character_share": share(characters_of(seen_before(paragraphs)), len(text)),
        "duplicate_line_share": share(len(seen_before(filled)), len(filled)),
        "duplicate_line_character_share": share(characters_of(seen_before(filled)), len(text)),
    }
    for n in (2, 3, 4):
        grams = [" ".join(tokens[at : at + n]) for at in range(len(tokens) - n + 1)]
        top = Counter(grams).most_common(1)
        found[f"top_{n}gram_character_share"] = share(len(top[0][0]) * top[0][1] if top else 0, len(text))
    for n in range(5, 11):
        seen, at, characters = set(), 0, 0
        while at + n <= len(tokens):
            gram = tuple(tokens[at : at + n])
            if gram in seen:
                characters += characters_of(list(gram))
                at += n
            else:
                seen.add(gram)
                at += 1
        found[f"duplicate_{n}gram_character_share"] = share(characters, len(text))
    return found


def fineweb(text: str) -> dict[str, float | None]:
    rows = [row for row in text.split("\n") if row.strip()]
    return {
        "punctuated_line_share": share(
            sum(row.endswith((".", "?", "!", "。", "？", "！", "।")) for row in rows), len(rows)
        ),
        "short_line_share": share(sum(len(row) <= 30 for row in rows), len(rows)),
        "duplicate_line_character_share": share(characters_of(seen_before(rows)), len(text.replace("\n", ""))),
        "newlines_per_word": share(text.count("\n"), len(words(text))),
    }


def code(text: str) -> dict[str, float | None]:
    rows = lines(text)
    return {
        "longest_line_characters": max(map(len, rows), default=0),
        "mean_line_characters": share(characters_of(rows), len(rows)),
        "alphanumeric_share": share(sum(map(str.isalnum, text)), len(text)),
    }


def c4_lines(text: str) -> list[str]:
    """The lines that C4 counts, as it writes them."""
    kept = []
    for raw in lines(text):
        row = re.sub(r"\[[0-9]*\]|\[edit\]|\[citation needed\]", "", raw.strip())
        low = row.lower()
        long_word = any(len(word) > 1000 for word in raw.split())
        ends = row.endswith((".", "?", "!", '"', "'")) and not row.endswith("...")
        policy = re.search("terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies", low)
        if ends and len(raw.split()) >= 3 and not long_word and "javascript" not in low and not policy:
            kept.append(row)
    return kept


def sentences(row: str) -> int:
    """A sentence goes on over the signs after its terminal mark."""
    count, stopped = 0, False
    for token in words(row):
        terminal = token in (".", "?", "!", "。", "？", "！", "।")
        signs = all(unicodedata.category(c)[0] == "P" for c in token)
        if count == 0 or (stopped and not signs):
            count += 1
            stopped = terminal
        stopped = stopped or terminal
    return count


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
