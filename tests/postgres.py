"""A Postgres server of a test's own, from the Debian package: started, stopped and started again as the test likes."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "s3cret-of-the-mill"


def programs() -> Path | None:
    """The folder of the newest server's programs."""
    found = {int(path.parent.parent.name): path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")}
    if found:
        return found[max(found)]
    elsewhere = shutil.which("initdb")
    return Path(elsewhere).parent if elsewhere else None


@dataclass
class Postgres:
    """One server on loopback. Its user `corpusmill` needs a password and may do everything."""

    folder: Path
    programs: Path
    port: int

    def start(self) -> None:
        """Start it; it answers when this returns."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def stop(self) -> None:
        """Stop it: whoever is connected is thrown out, whoever comes is refused."""
        self._run("pg_ctl", "stop", "-w", "-D", "data", "-m", "fast")

    def url(self, database: str) -> str:
        """The URL of a new, empty database of this name, with the password in it."""
        import sqlalchemy as sa

        address = f"postgresql+psycopg2://corpusmill:{PASSWORD}@127.0.0.1:{self.port}"
        engine = sa.create_engine(f"{address}/postgres", poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{database}"')
        return f"{address}/{database}"

    def initialise(self) -> None:
        """Make its files. The server refuses to be run by root, so they are another user's then."""
        (self.folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (self.folder, self.folder / "password"):
                os.chown(path, *self._owner)
        login = ["--username=corpusmill", "--auth=scram-sha-256", "--pwfile=password"]
        self._run("initdb", *login, "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "data")

    @property
    def _owner(self) -> tuple[int, int]:
        names = [user.pw_name for user in pwd.getpwall()]
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        return user.pw_uid, user.pw_gid

    def _run(self, program: str, *arguments: str) -> None:
        user, group = self._owner if os.geteuid() == 0 else (None, None)
        told = self.folder / "told"
        with told.open("w") as file:
            done = subprocess.run(
                [self.programs / program, *arguments],
                cwd=self.folder,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=False,
            )
        log = self.folder / "log"
        assert done.returncode == 0, told.read_text() + (log.read_text() if log.exists() else "")


def server() -> Iterator[Postgres]:
    """A running server, for fixtures; skips the test where Postgres or its driver is not installed."""
    pytest.importorskip("psycopg2", reason="needs the `postgres` extra")
    found = programs()
    if found is None:
        pytest.skip("needs a Postgres server: apt-get install postgresql")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="corpusmill-postgres-"))
    postgres = Postgres(folder, found, port)
    try:
        postgres.initialise()
        postgres.start()
        yield postgres
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            postgres.stop()
        shutil.rmtree(folder)
