"""Dagster's own storage on Postgres, patient as the ledger is: a run outlives a database that is away for a minute.

Dagster itself gives up after six seconds. `deploy/dagster-postgres.yaml` names the class; nothing else imports this
module, which needs the `postgres` extra.
"""

from collections.abc import Mapping
from typing import Any, Self

import sqlalchemy as sa
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

from pipelines.costs.database import database_url, patiently, place_of


class PatientPostgresStorage(DagsterPostgresStorage):
    """Runs, events and schedules in the database of `postgres_url`. Every connection waits for the database.

    The webserver makes connections of its own, without patience: a page had better say that the database is away.
    """

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """The storage, once the database answers. Raises `LedgerError` if it stays away."""
        address = database_url(config_value["postgres_url"])
        place = place_of(address)
        engine = sa.create_engine(address, poolclass=sa.NullPool)
        patiently(place, lambda: engine.connect().close())
        storage = cls(address.render_as_string(hide_password=False), inst_data=inst_data)
        for part in (storage._run_storage, storage._event_log_storage, storage._schedule_storage):
            _wait_for(place, part._engine)
        return storage


def _wait_for(place: str, engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, _: Any, arguments: Any, parameters: Any) -> Any:
        return patiently(place, lambda: dialect.connect(*arguments, **parameters))
