"""The engine that a profile asks for."""

import pytest
from pydantic import ValidationError

from pipelines.engines.local import Engine
from pipelines.engines.spark import SparkEngine
from pipelines.store import Store
from resources.engine import open_engine
from resources.settings import EngineParams


def test_without_a_word_tasks_run_in_processes_of_this_machine(store: Store) -> None:
    with open_engine(EngineParams(workers=3), store) as engine:
        assert (type(engine), engine.workers) == (Engine, 3)


@pytest.mark.parametrize(
    ("said", "master", "elsewhere"),
    [
        ({}, "local[3]", False),
        ({"master": "local-cluster[2,1,1024]"}, "local-cluster[2,1,1024]", False),
        ({"master": "spark://there:7077"}, "spark://there:7077", True),
    ],
)
def test_spark_works_where_its_master_says(store: Store, said: dict, master: str, elsewhere: bool) -> None:
    params = EngineParams(kind="spark", workers=3, spark=said)

    with open_engine(params, store) as engine:
        assert isinstance(engine, SparkEngine)
        assert (engine.application.master, engine.application.elsewhere) == (master, elsewhere)


def test_a_master_that_spark_does_not_know_is_refused() -> None:
    with pytest.raises(ValidationError, match="master"):
        EngineParams(kind="spark", spark={"master": "http://there:7077"})


def test_properties_may_be_written_as_yaml_has_them() -> None:
    conf = EngineParams(spark={"conf": {"spark.executor.cores": 2, "spark.speculation": True}}).spark.conf

    assert conf == {"spark.executor.cores": "2", "spark.speculation": "true"}
