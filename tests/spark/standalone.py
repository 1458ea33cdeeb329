"""A standalone Spark cluster on this machine: a master and workers as processes of their own, on loopback alone."""

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyspark

from tests.servers.process import ServerProcess, accepts_connections, free_port

HOME = Path(pyspark.__file__).parent
HERE = "127.0.0.1"

WORKERS = 2

DEFAULTS = {
    "spark.cores.max": WORKERS,
    "spark.executor.cores": 1,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.master.rest.enabled": "false",
    "spark.scheduler.minRegisteredResourcesRatio": 1,  # no task before all executors are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": 0,  # what executors have done is known at once
}


class Cluster(NamedTuple):
    """A cluster that runs: its master's address, the environment that a driver needs, the pids of its processes."""

    master: str
    environment: dict[str, str]
    pids: list[int]


@contextmanager
def standalone() -> Iterator[Cluster]:
    """Run a master and two workers of one core each; their executors run this interpreter."""
    with ExitStack() as stack:
        servers = [ServerProcess(f"spark-{n}", signal.SIGTERM, leaves_root=False) for n in range(1 + WORKERS)]
        for server in servers:
            stack.callback(server.close)
        leader, *others = servers
        leader.write("spark-defaults.conf", "".join(f"{name} {value}\n" for name, value in DEFAULTS.items()))
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(leader.directory),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(leader.directory),
            "SPARK_LOCAL_IP": HERE,
        }
        port = free_port()
        options = ["--host", HERE, "--port", str(port), "--webui-port", "0"]
        leader.start(program("master.Master", environment, options), lambda: accepts_connections(port), "BindException")
        address = f"spark://{HERE}:{port}"

        def join(server: ServerProcess) -> None:
            options = ["--host", HERE, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            command = program("worker.Worker", environment, [*options, "--work-dir", str(server.directory), address])
            server.start(command, partial(registered, server.directory / "log"))

        with ThreadPoolExecutor() as pool:
            list(pool.map(join, others))
        yield Cluster(address, environment, [server.pid for server in servers if server.pid is not None])


def program(name: str, environment: dict[str, str], options: list[str]) -> list[str | Path]:
    """Return the command that runs a part of Spark."""
    java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if os.environ.get("JAVA_HOME") else {}
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    variables = [f"{key}={value}" for key, value in {**environment, **java, **small}.items()]
    return ["env", *variables, HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *options]


def registered(log: Path) -> bool:
    """Tell whether a worker has found its master."""
    return "Successfully registered with master" in log.read_text(errors="replace")
