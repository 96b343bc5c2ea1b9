"""A Spark cluster of its own kind of processes: a standalone master, and a worker that starts executors."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[3]

REACHABLE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.executor.memory": "512m",
}
"""Properties of an application whose executors are started by that worker."""


def standalone_cluster(folder: Path) -> Iterator[str]:
    """Start a master with one worker of two cores, for fixtures; gives the master's URL, and ends both."""
    import pyspark

    home, log = Path(pyspark.__file__).parent, (folder / "cluster.log").open("ab")
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}

    def start(kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *arguments]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True)

    url = f"spark://127.0.0.1:{(port := _free_port())}"
    master = start("master.Master", "--port", str(port), "--webui-port", str(_free_port()))
    where = ["--work-dir", str(folder / "work"), "--webui-port", str(_free_port())]
    worker = start("worker.Worker", "--cores", "2", "--memory", "1g", *where, url)
    try:
        yield url
    finally:
        processes = [psutil.Process(one.pid) for one in (worker, master)]
        for process in [child for one in processes for child in one.children(recursive=True)] + processes:
            with suppress(psutil.Error):
                process.kill()
        worker.wait()
        master.wait()
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
