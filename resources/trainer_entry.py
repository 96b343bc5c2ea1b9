"""The trainer process: what `resources/launcher.py` starts, once or once per rank.

It joins the ranks, watches its owner, and hands reports on: to Dagster Pipes where it was launched with it, else to a
file. The training itself is `pipelines/training/pretrain.py`.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.processes import ProcessIdentity, process_identity
from pipelines.training.owner import GRACE_SECONDS, StopRequest, end_with
from pipelines.training.pretrain import pretrain
from pipelines.training.ranks import join_ranks
from pipelines.training.work import STOPPED_EXIT_CODE, Event, Report, TrainingError, WorkFolder


def main(arguments: list[str] | None = None) -> int:
    """Train in a work folder. Returns the exit code: 0 finished, 75 stopped and saved, 1 failed."""
    parser = argparse.ArgumentParser(description="Train in a work folder; launched by resources/launcher.py.")
    parser.add_argument("--work", type=Path, required=True, help="work folder, laid out by the training stage")
    parser.add_argument("--owner", help="identity of the process to end with, JSON")
    parser.add_argument("--grace", type=float, default=GRACE_SECONDS, help="seconds from a request to stop to the kill")
    parser.add_argument("--pipes", action="store_true", help="report through Dagster Pipes, not into reports.jsonl")
    options = parser.parse_args(arguments)
    rank, world_size, local_rank = (int(os.environ.get(n, d)) for n, d in _TORCHRUN.items())
    work = WorkFolder(options.work)
    stop = StopRequest()
    stop.on_sigterm()
    if options.owner:
        owners = [ProcessIdentity(**json.loads(options.owner))]
        if world_size > 1:
            owners.append(process_identity(os.getppid()))  # torchrun gives every rank a session of its own
        if os.getpgrp() != os.getpid():
            os.setsid()
        end_with(owners, stop, grace_seconds=options.grace)
    with _channel(work, pipes=options.pipes, first=rank == 0) as report:
        try:
            finished = _train(work, report, stop, rank, world_size, local_rank)
        except TrainingError as error:
            report({"event": "failed", "message": str(error)})
            print(f"training failed: {error}", file=sys.stderr)
            return 1
        except Exception as error:
            report({"event": "failed", "message": _sentence(error), "unexpected": True})
            raise
    return 0 if finished else STOPPED_EXIT_CODE


_TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
"""How torchrun tells a process its place, and what holds without torchrun."""


def _train(work: WorkFolder, report: Report, stop: StopRequest, rank: int, world_size: int, local_rank: int) -> bool:
    config = work.read_job()
    import torch

    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    ranks = join_ranks(rank, world_size, local_rank, on_gpu=on_gpu)
    try:
        return pretrain(work, report, stop, ranks)
    finally:
        if world_size > 1:
            torch.distributed.destroy_process_group()


@contextmanager
def _channel(work: WorkFolder, *, pipes: bool, first: bool) -> Iterator[Report]:
    """Where reports go: nowhere from ranks other than the first."""
    if not first:
        yield lambda event: None
    elif pipes:
        from dagster_pipes import open_dagster_pipes

        with open_dagster_pipes() as context:
            yield context.report_custom_message
    else:
        with work.reports.open("a", encoding="utf-8") as file:

            def write(event: Event) -> None:
                file.write(json.dumps(event) + "\n")
                file.flush()

            yield write


def _sentence(error: Exception) -> str:
    """An unexpected error in words, with the way out where there is a usual one."""
    name = type(error).__name__
    if name == "OutOfMemoryError" or "can't allocate memory" in str(error):
        return f"the device ran out of memory; lower training.micro_batch_size ({error})"
    return f"{name}: {error}"


if __name__ == "__main__":
    sys.exit(main())
