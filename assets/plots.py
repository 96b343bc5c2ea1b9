"""Small plots for Dagster's pages, as SVG: histograms, shares, curves. What is drawn of an asset: `outcomes.py`.

A page shows Markdown in place if it has fewer than `IN_PLACE` characters, else behind a link, and of images only those
that carry their own content. So plots are drawn with few characters: on whole numbers of a coarse grid, bars as thick
strokes, the labels of an axis as one text. The ground is transparent and the colours can be read on light and on dark.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

IN_PLACE = 1000
PLAIN = " '/:;=,.-"
"""Characters of an SVG that mean nothing in a URL or in Markdown, besides letters and digits."""

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 240, 22, 238, 12, 62
"""The grid: the field of bars and curves within it, from its left to its right and from its top to its bottom."""
SHOWN_WIDTH = 400
"""Width of an image on a page, pixels: more than this does not fit beside the labels of an asset's overview."""

LETTER = 3.6
"""Width of a character, in the font of fixed width that labels have."""

INK, LIMIT = "#888", "#e33"
GREY, BLUE, ORANGE = "#aaa", "#48e", "#e72"
SERIES = {
    **dict.fromkeys(("before", "wanted"), GREY),
    **dict.fromkeys(("after", "planned", "realised", "kept", "train"), BLUE),
    **dict.fromkeys(("dropped", "validation"), ORANGE),
}
"""Colours of series, in the order in which they are drawn; of any other name a series is blue."""

POINTS = (BLUE, ORANGE, "#393", "#a3c", "#a80", GREY)
"""Colours of points, in the order in which they are given."""

FEWEST_BINS, MOST_POINTS, MOST_ROWS = 8, 40, 20
FAINT = 0.02
"""Where the highest bar of a series is less than this share of the highest of all, heights are logarithms."""


def image(title: str, svg: str) -> str:
    """A plot as Markdown."""
    return f"![{title}](<data:image/svg+xml,{quote(svg, safe=PLAIN)}>)"


def histogram(drawn: Mapping[str, Sequence[Any]], limits: Sequence[float] = ()) -> str | None:
    """A histogram of `pipelines/histograms.py`, from its first to its last bin that is not empty; None if all are.

    Every bin is equally wide. limits: thresholds, each a line.
    """
    edges = drawn["edges"]
    series = _in_order({name: counts for name, counts in drawn.items() if name != "edges"})
    filled = [bin for bin in range(len(edges)) if any(counts[bin] for counts in series.values())]
    if not filled:
        return None
    places = [_place(limit, edges) for limit in limits]
    first = int(min([*filled, *places]))
    last = max(int(max([*filled, *places])) + 1, first + FEWEST_BINS)
    step = max(1, (RIGHT - LEFT) // (last - first))
    most = {name: max(counts) for name, counts in series.items() if any(counts)}
    logarithmic = min(most.values()) < FAINT * max(most.values())
    scale = math.log1p if logarithmic else float
    unit = (BOTTOM - TOP) / scale(max(most.values()))
    parts = []
    for number, (name, counts) in enumerate(series.items()):
        bars = "".join(
            f"M{LEFT + step * (bin - first) + step // 2} {BOTTOM}v-{max(1, round(unit * scale(counts[bin])))}"
            for bin in range(first, min(last, len(edges)))
            if counts[bin]
        )
        wide = max(1, (step - 1) // (1 + number))  # a bar behind another stays visible
        parts.append(f"<path stroke='{_colour(name)}' stroke-width='{wide}' d='{bars}'/>")
    if limits:
        lines = "".join(f"M{LEFT + round(step * (place - first))} {BOTTOM}V{TOP - 3}" for place in places)
        parts.append(f"<path stroke='{LIMIT}' d='{lines}'/>")
    labels = {bin: _short(edges[bin]) for bin in range(first, min(last + 1, len(edges)))}
    room = 2 + max(map(len, labels.values()))
    every = next(n for n in (1, 2, 4, 5, 10, 20) if step * n >= LETTER * room or n == 20)
    ticks = {LEFT + step * (bin - first): label for bin, label in labels.items() if bin % every == 0}
    legend = {f"{name} {sum(counts):,}": _colour(name) for name, counts in series.items()}
    if limits:
        legend |= {f"limit {' and '.join(f'{limit:.4g}' for limit in limits)}": LIMIT}
    if logarithmic:
        legend |= {"log scale": INK}
    return _svg(BOTTOM + 9, legend, [*parts, _text(0, TOP + 5, _short(max(most.values()))), _axis(ticks)])


def shares(series: Mapping[str, Mapping[str, float]]) -> str | None:
    """Bars side by side: what share each series gives to each name, 0 to 1. The first `MOST_ROWS` names."""
    series = _in_order(series)
    names = list(dict.fromkeys(name for one in series.values() for name in one))[:MOST_ROWS]
    most = max((share for one in series.values() for share in one.values()), default=0)
    if not most:
        return None
    row = 4 * len(series) + 4
    left = 110
    parts = []
    for number, (name, values) in enumerate(series.items()):
        lines = "".join(
            f"M{left} {TOP + row * index + 4 * number}h{max(1, round((RIGHT - left) * values.get(one, 0) / most))}"
            for index, one in enumerate(names)
        )
        parts.append(f"<path stroke='{_colour(name)}' stroke-width='3' d='{lines}'/>")
    for index, name in enumerate(names):
        told = " / ".join(f"{100 * values.get(name, 0):.3g}" for values in series.values())
        cut = name if len(name) <= 16 else f"{name[:15]}…"
        parts.append(_text(0, TOP + row * index + row // 2, f"{cut} {told} %"))
    return _svg(TOP + row * len(names), {name: _colour(name) for name in series}, parts)


def curves(series: Mapping[str, Sequence[Sequence[float]]]) -> str | None:
    """Lines through points (x, y), the finite ones of them; None where there is none. x starts at 0."""
    finite = {name: [p for p in points if math.isfinite(p[1])] for name, points in series.items()}
    finite = {name: _thinned(points) for name, points in _in_order(finite).items() if points}
    if not finite:
        return None
    every = [point for points in finite.values() for point in points]
    end, low, high = max(x for x, *_ in every), min(y for _, y, *_ in every), max(y for _, y, *_ in every)
    parts = []
    for name, points in finite.items():
        places = [
            (
                LEFT + round((RIGHT - LEFT) * x / (end or 1)),
                BOTTOM - round((BOTTOM - TOP) * (y - low) / (high - low or 1)),
            )
            for x, y, *_ in points
        ]
        moves = " ".join(f"{x - left} {y - up}" for (left, up), (x, y) in pairwise(places))
        start = f"M{places[0][0]} {places[0][1]}"  # a round cap makes a point of a single place
        parts.append(
            f"<path fill='none' stroke='{_colour(name)}' stroke-linecap='round' d='{start}l{moves or '0 0'}'/>"
        )
    ends = [_text(0, TOP + 3, f"{high:.3g}"), _text(0, BOTTOM, f"{low:.3g}")] if high > low else []
    axis = _axis({LEFT: "0", LEFT + (RIGHT - LEFT) // 2: _short(end / 2), RIGHT - 14: _short(end)})
    legend = {f"{name} {points[-1][1]:.4g}": _colour(name) for name, points in finite.items()}
    return _svg(BOTTOM + 9, legend, [*parts, *ends, axis])


def scatter(points: Mapping[str, tuple[float, float, float, float]]) -> str | None:
    """Points (x, y, lowest y, highest y) with their intervals, x on a logarithmic scale; None where there is none."""
    points = {name: point for name, point in points.items() if point[0] > 0 and all(map(math.isfinite, point))}
    if not points:
        return None
    begin = math.floor(math.log10(min(x for x, *_ in points.values())))
    end = max(math.ceil(math.log10(max(x for x, *_ in points.values()))), begin + 1)
    low, high = min(least for _, _, least, _ in points.values()), max(most for *_, most in points.values())

    def place(x: float) -> int:
        return LEFT + 4 + round((RIGHT - LEFT - 24) * (math.log10(x) - begin) / (end - begin))

    def level(y: float) -> int:
        return BOTTOM - round((BOTTOM - TOP) * (y - low) / (high - low or 1))

    colours = {name: POINTS[number % len(POINTS)] for number, name in enumerate(points)}
    parts = [
        f"<path stroke='{colours[name]}' d='M{place(x)} {level(least)}V{level(most)}M{place(x) - 3} {level(y)}h6'/>"
        for name, (x, y, least, most) in points.items()
    ]
    ends = [_text(0, TOP + 3, f"{high:.3g}"), _text(0, BOTTOM, f"{low:.3g}")] if high > low else []
    axis = _axis({place(10.0**power): _short(10.0**power) for power in range(begin, end + 1)})
    return _svg(BOTTOM + 9, colours, [*parts, *ends, axis])


def _svg(height: int, legend: Mapping[str, str], parts: Iterable[str]) -> str:
    said = " ".join(f"<tspan fill='{colour}'>{escape(name)}</tspan>" for name, colour in legend.items())
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{SHOWN_WIDTH}' fill='{INK}' "
        f"style='font:6px monospace'><text x='{LEFT}' y='6'>{said}</text>{''.join(parts)}</svg>"
    )


def _text(x: int, y: int, said: str) -> str:
    return f"<text x='{x}' y='{y}'>{escape(said)}</text>"


def _axis(labels: Mapping[int, str]) -> str:
    """Labels under the field, each beginning at its place; none reaches out of the image."""
    line = ""
    for x, label in labels.items():
        if x + LETTER * len(label) <= WIDTH:
            line = line.ljust(round((x - LEFT) / LETTER)) + label
    length = round(LETTER * len(line))
    return f"<text x='{LEFT}' y='{BOTTOM + 7}' textLength='{length}' xml:space='preserve'>{line}</text>"


def _colour(name: str) -> str:
    return SERIES.get(name, BLUE)


def _in_order(series: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(series.items(), key=lambda item: list(SERIES).index(item[0]) if item[0] in SERIES else -1))


def _place(value: float, edges: Sequence[float]) -> float:
    """Where a number lies among bins of equal width: 2.5 is the middle of bin 2."""
    bin = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    share = (value - edges[bin]) / (edges[bin + 1] - edges[bin])
    return bin + min(max(share, 0.0), 1.0 if bin < len(edges) - 2 else 2.0)


def _thinned(points: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """At most about `MOST_POINTS` of the points, the first and the last among them."""
    step = math.ceil(len(points) / MOST_POINTS)
    return [*points[:-1:step], points[-1]]


def _short(value: float) -> str:
    """A number in few characters: 512, 4Ki, 250k."""
    for size, unit in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if value >= size and math.log2(value).is_integer():
            return f"{value / size:g}{unit}"
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if value >= size:
            return f"{value / min(size, 10 ** (3 if unit == 'k' else 9)):.3g}{unit}"
    return f"{value:.4g}"
