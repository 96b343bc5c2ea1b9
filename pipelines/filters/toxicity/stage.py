"""Stage `toxicity_scores`: how likely the worst passage of every document is toxic, at the price of a cheap scorer
where that one is sure.

The tasks of a shard, each with a key of its own: the cheap scorers read it (`screen.py`, `lexicon.py`), it is chosen
who reads what (`cascade.py`), experts read that (`experts.py`), all scores become one (`scores.py`), and sentences are
scored where they are asked for (`sentences.py`). So another band or model never screens again. From which score on a
document goes stands in `rules.py`.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts, read_table
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Task
from pipelines.filters.toxicity import experts
from pipelines.filters.toxicity.calibration import labels_of, sample_task
from pipelines.filters.toxicity.cascade import REMOTE, Band, Choice, choose_band, pooled
from pipelines.filters.toxicity.experts import (
    NEURAL,
    VERDICTS,
    NeuralExpert,
    RemoteExpert,
    ask_shard,
    neural_experts,
    quote_shard,
    read_shard,
    routes_of,
    verdict_of,
)
from pipelines.filters.toxicity.lexicon import Lexicons, lexicon_file, read_entries
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.scores import Combining, cheap_of, choose_rows, combine_shard, screen_shard, tally
from pipelines.filters.toxicity.screen import extract_screen, package_version
from pipelines.filters.toxicity.sentences import Sentencing, score_sentences
from pipelines.histograms import added
from pipelines.schemas import TOXICITY

VERSION = 3
"""Of this stage's code; raise it when scores change."""

PARTS = ("toxicity", "toxicity_screen", "toxicity_labels", "toxicity_sentences")


def score_toxicity(unique_documents: Dataset, config: ToxicityParams, engine: Engine) -> Draft:
    """Score every document, shard by shard; parts "toxicity" and "toxicity_screen" are row-aligned with the documents,
    "toxicity_labels" has what experts said, "toxicity_sentences" sentences that can be cut. Part "calibration", where
    the band is chosen from a sample: the sample and what was said of it, so that it is not read again.

    A document in a language that no scorer knows gets null, never a low score; stats count them by language. Raises
    `ValueError` where a lexicon, a sample or a checkpoint cannot be read.
    """
    shards = [_Shard(shard.object, shard.bytes, shard.rows) for shard in unique_documents.shards("documents")]
    told: dict[str, Any] = {}
    parts = {name: Part("table", ()) for name in PARTS}
    if shards:
        stage = _Stage.begin(config, engine)
        band, told, sample = stage.band()
        files = [file for one in sample for file in one.files()]
        parts |= {"calibration": Part("files", tuple(files))} if files else {}
        stage.screen(shards)
        stage.read(shards, band)
        stage.decide(shards, band)
        if config.sentences_from is not None:
            stage.score_sentences(shards, band, config.sentences_from)
            told["sentences_from"] = config.sentences_from
    nothing = tally(pa.table({"language": []}), TOXICITY.empty_table()) | {"bytes_in": 0}
    stats = added([nothing, *(shard.counts for shard in shards)])
    return Draft(parts | join_parts([shard.parts for shard in shards]), stats | told)


def make_screen(inputs: Inputs, payload: None) -> Iterable[Made]:
    """The task that reads the screen out of the installed package, once for all shards: part "screen"."""
    yield "screen", File("screen.npz", extract_screen().to_bytes())


def make_lexicons(inputs: Inputs, payload: tuple[ToxicityParams, dict[str, str]]) -> Iterable[Made]:
    """The task that reads the lexicons, once for all shards: part "lexicons". payload: with the files' hashes."""
    config, known = payload
    entries = {
        language: read_entries(language, lexicon_file(language, config.lexicons[language]).content(sha256))
        for language, sha256 in known.items()
    }
    yield "lexicons", File("lexicons.json", Lexicons(entries, config.lexicon_certainty).to_bytes())


@dataclass
class _Shard:
    """A shard of documents on its way. screened: object of its "toxicity_screen". said: by expert, the objects of the
    rows that it read and of its labels. scored: object of its "toxicity"."""

    object: str
    bytes: int
    rows: int
    screened: str = ""
    scored: str = ""
    said: dict[str, tuple[str, str]] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)

    def files(self) -> list[Shard]:
        """The documents and what was said of them, as files that a dataset can hold beside its own tables."""
        own = [Shard(self.object, self.bytes, self.rows, "documents")]
        said = [replace(shard, name=name) for name, part in self.parts.items() for shard in part.shards]
        return [replace(shard, name=f"{shard.name}.{shard.object[:12]}") for shard in own + said]

    def take(self, result: Result, part: str, counts: dict[str, Any]) -> str:
        """Note what a task made: it goes into the dataset. Gives the object."""
        [made] = result.parts[part].shards
        standing = self.parts[part].shards if part in self.parts else ()
        self.parts[part] = Part("table", (*standing, made))
        self.counts = added([self.counts, counts])
        return made.object


_Work = tuple[_Shard, Shard, NeuralExpert | RemoteExpert]
"""What an expert is to read: a shard, and the file with its rows."""


def _reading(shard: _Shard, rows: Shard, expert: NeuralExpert | RemoteExpert) -> Task:
    remote = isinstance(expert, RemoteExpert)
    return Task(
        ask_shard if remote else read_shard,
        f"filters.toxicity.{REMOTE if remote else NEURAL}",
        experts.VERSION,
        {"scorer": rows.name, "identity": expert.identity, "unicode": unicodedata.unidata_version},
        (shard.object, rows.object),
        payload=expert,
        rows=rows.rows,
        quote=quote_shard if remote else None,
    )


@dataclass(frozen=True)
class _Stage:
    """The tasks of the stage. cheap: objects that the cheap scorers read; cheap_params: what else is in their key."""

    config: ToxicityParams
    engine: Engine
    cheap: tuple[str, ...]
    cheap_params: dict[str, Any]
    experts: dict[str, NeuralExpert | RemoteExpert]
    combining: Combining

    @classmethod
    def begin(cls, config: ToxicityParams, engine: Engine) -> "_Stage":
        """Make what all shards share: the screen and the lexicons."""
        package = {"screen": package_version(), "unicode": unicodedata.unidata_version}
        tasks = [Task(make_screen, "filters.toxicity.screen", VERSION, package)]
        hashes = {language: lexicon_file(language, path).sha256() for language, path in sorted(config.lexicons.items())}
        if hashes:
            said = {"lexicons": hashes, "certainty": config.lexicon_certainty}
            tasks.append(Task(make_lexicons, "filters.toxicity.lexicons", VERSION, said, payload=(config, hashes)))
        cheap = tuple(
            shard.object for result in engine.map(tasks) for part in result.parts.values() for shard in part.shards
        )
        models = neural_experts(config)
        readers: dict[str, NeuralExpert | RemoteExpert] = {expert.name: expert for expert in models}
        if config.remote.url is not None:
            readers[REMOTE] = RemoteExpert(config.remote, engine.progress, engine.attempt)
        params = {**package, "languages": sorted(set(config.languages)), "window_bytes": config.window_bytes}
        combining = Combining(
            routes_of(config, models), None, config.neural_decision, tuple(config.remote.attributes[:1])
        )
        return cls(config, engine, cheap, params, readers, combining)

    def screen(self, shards: Sequence[_Shard]) -> None:
        """The cheap scorers read the shards."""
        languages, window_bytes = self.cheap_params["languages"], self.cheap_params["window_bytes"]
        tasks = [
            Task(
                screen_shard,
                "filters.toxicity.score",
                VERSION,
                self.cheap_params,
                (shard.object,),
                self.cheap,
                payload=(languages, window_bytes),
                rows=shard.rows,
            )
            for shard in shards
        ]
        for shard, result in zip(shards, self.engine.map(tasks), strict=True):
            shard.screened = shard.take(result, "toxicity_screen", {"bytes_in": result.stats["bytes_in"]})

    def band(self) -> tuple[Band | None, dict[str, Any], list[_Shard]]:
        """The band, what is to be told of it, and the sample that it was chosen from. None where no expert is beside
        the screen."""
        config = self.config
        sample: list[_Shard] = []
        if config.calibration.path is not None:
            sha256 = config.calibration.file.sha256()
            made = self.engine.map([sample_task(config.calibration, sha256)])[0]
            sample = [_Shard(one.object, one.bytes, one.rows) for one in made.parts["documents"].shards]
            self.screen(sample)
            self.read(sample, Band(0.0, 1.0, config.neural_threshold))
            choice = self._chosen(sample)
            low, high, told = choice.low, choice.high, {"band_on_sample": choice.record() | {"sample_sha256": sha256}}
        elif config.band is not None:
            (low, high), told = config.band, {}
        else:
            return None, {}, []
        band = Band(low, high, config.neural_threshold)
        return band, {"band": {"low": low, "high": high, "threshold": band.threshold}, **told}, sample

    def _chosen(self, sample: Sequence[_Shard]) -> Choice:
        wanted = self.config.calibration

        def whole(objects: Iterable[str]) -> pa.Table:
            return pa.concat_tables([read_table(self.engine.store, name) for name in objects])

        models = list(sample[0].said)
        labels = [whole(shard.said[name][1] for shard in sample) for name in models]
        said = np.stack([verdict_of(one, VERDICTS)[0] for one in labels], axis=1)
        expert = pooled(said, self.config.neural_decision) > self.config.neural_threshold
        cheap = cheap_of(whole(shard.screened for shard in sample)).worst
        toxic = labels_of(whole(shard.object for shard in sample))
        return choose_band(cheap, expert, toxic, wanted.target_recall, wanted.target_precision)

    def read(self, shards: Sequence[_Shard], band: Band | None) -> None:
        """The experts read what is left open of the shards; an expert whom nothing of a shard is sent is not opened."""
        if not self.experts:
            return
        combining = replace(self.combining, band=band)
        said = combining.routes.record() | {"band": None if band is None else [band.low, band.high]}
        choosing = [
            Task(
                choose_rows,
                "filters.toxicity.choose",
                VERSION,
                said,
                (shard.object, shard.screened),
                payload=combining,
                in_threads=True,
            )
            for shard in shards
        ]
        work = [
            (shard, rows, self.experts[rows.name])
            for shard, result in zip(shards, self.engine.map(choosing), strict=True)
            for part in result.parts.values()
            for rows in part.shards
        ]
        while work:
            work = self._read(work)

    def _read(self, work: Sequence[_Work]) -> list[_Work]:
        """Have experts read; gives what has to be done again with half the batch, since memory did not suffice."""
        tasks = [_reading(*one) for one in work]
        alone = {task.key for task, (*_, expert) in zip(tasks, work, strict=True) if expert.in_one_process}
        shared = [task for task in tasks if task.key not in alone]
        results = self.engine.map(shared) if shared else []
        results += self.engine.run_each([task for task in tasks if task.key in alone])
        done = {result.key: result for result in results}
        again: list[_Work] = []
        for (shard, rows, expert), task in zip(work, tasks, strict=True):
            result = done[task.key]
            if "out_of_memory" in result.stats and isinstance(expert, NeuralExpert):
                shard.counts = added([shard.counts, {"out_of_memory": 1}])
                again.append((shard, rows, expert.halved()))
                continue
            counts = {"read_by": {rows.name: rows.rows}, **result.stats["counts"]}
            shard.said[rows.name] = rows.object, shard.take(result, "toxicity_labels", counts)
        return again

    def decide(self, shards: Sequence[_Shard], band: Band | None) -> None:
        """All scores of a document become one."""
        combining = replace(self.combining, band=band)
        tasks = [
            Task(
                combine_shard,
                "filters.toxicity.combine",
                VERSION,
                {**combining.record(), "scorers": list(shard.said)},
                (shard.object, shard.screened, *(name for pair in shard.said.values() for name in pair)),
                payload=(combining, list(shard.said)),
                rows=shard.rows,
                in_threads=True,
            )
            for shard in shards
        ]
        for shard, result in zip(shards, self.engine.map(tasks), strict=True):
            shard.scored = shard.take(result, "toxicity", result.stats)

    def score_sentences(self, shards: Sequence[_Shard], band: Band | None, least: float) -> None:
        """Sentences go through the same cascade, the remote scorer apart."""
        models = [expert for expert in self.experts.values() if isinstance(expert, NeuralExpert)]
        combining = replace(self.combining, band=band, routes=self.combining.routes.without_remote())
        sentencing = Sentencing(
            combining, models, self.cheap_params["languages"], self.cheap_params["window_bytes"], least
        )
        waiting = [(shard, sentencing) for shard in shards]
        while waiting:
            waiting = self._score_sentences(waiting)

    def _score_sentences(self, work: Sequence[tuple[_Shard, Sentencing]]) -> list[tuple[_Shard, Sentencing]]:
        """Gives what has to be done again with half the batch, since memory did not suffice."""
        tasks = [
            Task(
                score_sentences,
                "filters.toxicity.sentences",
                VERSION,
                {**self.cheap_params, **sentencing.record()},
                (shard.object, shard.scored),
                self.cheap,
                payload=sentencing,
                rows=shard.rows,
            )
            for shard, sentencing in work
        ]
        again = []
        for (shard, sentencing), result in zip(work, self._map(tasks), strict=True):
            if "out_of_memory" in result.stats:
                shard.counts = added([shard.counts, result.stats])
                again.append((shard, sentencing.halved()))
            else:
                shard.take(result, "toxicity_sentences", result.stats)
        return again

    def _map(self, tasks: Sequence[Task]) -> list[Result]:
        """All tasks, in this process where one process has to run the models."""
        if any(isinstance(one, NeuralExpert) and one.in_one_process for one in self.experts.values()):
            return self.engine.run_each(tasks)
        return self.engine.map(tasks)
