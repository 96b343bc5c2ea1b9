"""Plots: images that a browser reads, small enough to stand in the page."""

import re
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from assets import plots
from pipelines.histograms import PERPLEXITY_EDGES, SIZE_EDGES, TOXICITY_EDGES, histogram

RANDOM = np.random.default_rng(1)
LENGTHS = RANDOM.lognormal(7, 1.4, 100_000).astype(int)
PERPLEXITIES = RANDOM.lognormal(6, 0.8, 100_000)
SCORES = np.r_[RANDOM.beta(1, 12, 100_000), RANDOM.beta(8, 1, 60)]
LOSSES = [[step, 3 + 8 / step, 1e-4, 1.0] for step in range(1, 201)]

DRAWN = {
    "lengths": plots.histogram(histogram(SIZE_EDGES, before=LENGTHS, after=LENGTHS[LENGTHS < 4000])),
    "perplexity": plots.histogram(
        histogram(PERPLEXITY_EDGES, kept=PERPLEXITIES[PERPLEXITIES < 1300], dropped=PERPLEXITIES[PERPLEXITIES > 1300]),
        [80, 1300],
    ),
    "toxicity": plots.histogram(
        histogram(TOXICITY_EDGES, kept=SCORES[SCORES < 0.9], dropped=SCORES[SCORES > 0.9]), [0.9]
    ),
    "a cluster": plots.histogram(histogram(SIZE_EDGES, clusters=np.array([2]))),
    "shares": plots.shares({"wanted": {"books": 0.6, "<web> & more": 0.4}, "realised": {"books": 1.0}}),
    "loss": plots.curves({"train": LOSSES, "validation": LOSSES[::25]}),
    "one point": plots.curves({"train": LOSSES[:1]}),
}


def paths(svg: str) -> dict[str, str]:
    """What is drawn in each colour."""
    elements = [element for element in ElementTree.fromstring(svg) if element.tag.endswith("path")]
    return {element.attrib["stroke"]: element.attrib["d"] for element in elements}


def said(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg) if e.tag.endswith("text")]


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_is_an_image_that_stands_in_the_page(name: str) -> None:
    markdown = plots.image(name, DRAWN[name])

    found = re.fullmatch(rf"!\[{name}\]\(<data:image/svg\+xml,([^<>&#\\]+)>\)", markdown)
    assert found, markdown
    assert ElementTree.fromstring(unquote(found[1])).tag == "{http://www.w3.org/2000/svg}svg"
    assert len(markdown) < plots.IN_PLACE


def test_the_highest_bar_fills_the_field_and_the_lowest_can_still_be_seen() -> None:
    drawn = paths(plots.histogram({"edges": [0, 1, 2, 3], "documents": [100, 1, 50, 0]}))

    assert re.findall(r"v-(\d+)", drawn[plots.BLUE]) == [str(plots.BOTTOM - plots.TOP), "1", "25"]


def test_series_keep_their_order_and_colours_however_they_were_stored() -> None:
    svg = plots.histogram({"after": [1, 2], "before": [3, 2], "edges": [0, 1]})

    assert list(paths(svg)) == [plots.GREY, plots.BLUE]
    assert said(svg)[0] == "before 5 after 3"


def test_a_threshold_is_a_line_between_its_neighbours() -> None:
    edges = [step / 10 for step in range(10)]
    svg = plots.histogram({"edges": edges, "kept": [9] * 8 + [0, 0], "dropped": [0] * 8 + [5, 5]}, [0.85])

    line = int(re.match(r"M(\d+) ", paths(svg)[plots.LIMIT])[1])
    kept = [int(x) for x in re.findall(r"M(\d+) ", paths(svg)[plots.BLUE])]
    dropped = [int(x) for x in re.findall(r"M(\d+) ", paths(svg)[plots.ORANGE])]
    assert max(kept) < line <= dropped[0] < dropped[1]
    assert "limit 0.85" in said(svg)[0]


@pytest.mark.parametrize("limit", [-1.0, 0.0, 1.0, 99.0])
def test_a_threshold_beyond_all_bins_stays_in_the_image(limit: float) -> None:
    svg = plots.histogram(histogram(TOXICITY_EDGES, kept=np.array([0.2, 0.99])), [limit])

    assert 0 <= int(re.match(r"M(\d+) ", paths(svg)[plots.LIMIT])[1]) <= plots.WIDTH


def test_a_series_that_would_vanish_beside_another_makes_the_scale_logarithmic() -> None:
    assert "log scale" in said(plots.histogram({"edges": [0, 1], "kept": [9000, 0], "dropped": [0, 3]}))[0]
    assert "log scale" not in said(plots.histogram({"edges": [0, 1], "kept": [9000, 0], "dropped": [0, 3000]}))[0]


def test_a_loss_that_is_not_finite_is_left_out() -> None:
    assert said(plots.curves({"train": [[1, 4.0], [2, float("nan")]]}))[0] == "train 4"
    assert plots.curves({"train": [[1, float("inf")]]}) is None


def test_nothing_is_drawn_of_nothing() -> None:
    assert plots.histogram({"edges": [0, 1], "before": [0, 0], "after": [0, 0]}) is None
    assert plots.shares({}) is None
    assert plots.shares({"wanted": {"books": 0.0}}) is None
    assert plots.curves({"train": []}) is None


def test_points_have_their_intervals_on_a_logarithmic_scale() -> None:
    svg = plots.scatter({"screen": (0.5, 0.8, 0.7, 0.9), "cascade": (50.0, 0.85, 0.8, 0.9), "free": (0.0, 1, 1, 1)})

    drawn = {colour: re.match(r"M(\d+) (\d+)V(\d+)M(\d+) (\d+)h6", path) for colour, path in paths(svg).items()}
    screen, cascade = (list(map(int, found.groups())) for found in drawn.values())
    assert plots.LEFT < screen[0] < cascade[0] < plots.RIGHT
    assert screen[1] == plots.BOTTOM and screen[2] == cascade[2] == plots.TOP  # from 0.7 to 0.9
    assert cascade[2] < cascade[4] < cascade[1]
    assert said(svg)[0].split() == ["screen", "cascade"]  # what costs nothing has no place on such a scale
    assert len(plots.image("F1 by cost", svg)) < plots.IN_PLACE
    assert plots.scatter({}) is None
