"""Trainings of a tiny model, and what they report."""

import json

from pipelines.training.owner import StopRequest
from pipelines.training.pretrain import pretrain
from tests.pipelines.training.corpus import TINY


def tiny(**changes):
    return TINY.model_copy(update=changes)


def run(work, config=TINY, stop_when=lambda event: False):
    """(finished, reports) of a training, asked to stop when a report says so."""
    work.write_job(config)
    stop, events = StopRequest(), []

    def report(event):
        events.append(json.loads(json.dumps(event, allow_nan=False)))
        if stop_when(event):
            stop.ask()

    return pretrain(work, report, stop), events


def losses(events, kind="step"):
    return {event["step"]: event["loss"] for event in events if event["event"] == kind}


def weights(work):
    return (work.model / "model.safetensors").read_bytes()
