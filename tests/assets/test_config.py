"""Parameters as forms of the launchpad: what goes in comes out, however deep it stands."""

import dagster as dg
import pytest

from assets.config import config_class, params_from
from pipelines.filters.toxicity.params import ToxicityParams


def cascade() -> ToxicityParams:
    return ToxicityParams.model_validate(
        {
            "neural": [{"checkpoint": "a.ckpt", "languages": ["en", "fr"]}, {"model": "multilingual"}],
            "band": [0.1, 0.9],
            "lexicons": {"de": "de.txt"},
            "remote": {"url": "https://scorer.example", "usd_per_call": "0"},
        }
    )


@pytest.mark.parametrize("params", [ToxicityParams(), cascade()], ids=["defaults", "cascade"])
def test_a_form_that_nobody_touched_gives_the_same_parameters(params: ToxicityParams) -> None:
    form = config_class(params, "toxicity_form")
    assert params_from(form(), ToxicityParams) == params


def test_dagster_takes_a_form_with_lists_of_sections() -> None:
    form = config_class(cascade(), "toxicity_form_of_a_step")
    found = []

    @dg.op
    def step(config: form) -> None:  # type: ignore[valid-type]
        found.append(params_from(config, ToxicityParams))

    @dg.job
    def one() -> None:
        step()

    changed = {"band": [0.2, 0.8], "neural": [{"checkpoint": "b.ckpt"}]}
    assert one.execute_in_process(run_config={"ops": {"step": {"config": changed}}}).success
    assert (found[0].band, found[0].neural[0].checkpoint) == ([0.2, 0.8], "b.ckpt")


def test_what_does_not_fit_is_refused_with_its_key() -> None:
    form = config_class(cascade(), "toxicity_form_refused")
    wrong = form(neural=[{"checkpoint": "b.ckpt", "window": 3}])
    with pytest.raises(dg.Failure, match=r"config: neural\[0\].window is not a key"):
        params_from(wrong, ToxicityParams)
