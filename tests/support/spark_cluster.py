"""A standalone cluster of Spark on this machine: a master, and two workers with one core and 1 GiB each.

Each worker has an address of its own, 127.0.0.1 and 127.0.0.2, since Spark starts no second attempt of a slow task on
the host of the first attempt.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from support.spark_settings import QUICK

WORKERS = 2
SECONDS = 120
HERE = Path(__file__).parent
TREE = HERE.parent.parent


class Cluster:
    """The processes of a cluster. Attributes: url: of the master. faults: the directory of ``worker_faults``."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.faults = scratch / "faults"
        self.faults.mkdir(parents=True)
        self.processes = []
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.start("master.Master", "127.0.0.1", "--port", str(port))
        wait_until(lambda: is_listening(port), "the master does not listen")
        for number in range(WORKERS):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(scratch / f"work-{number}")]
            self.start("worker.Worker", f"127.0.0.{number + 1}", *work, self.url)

    def start(self, name, host, *args):
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.deploy.maxExecutorRetries=-1"]
        command = ["java", *options, "-cp", f"{variables()['SPARK_HOME']}/jars/*", f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0", *args]
        with (self.scratch / f"{name}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self.environment())
        self.processes.append(process)

    def environment(self):
        """Return the environment of workers, and of drivers in processes of their own."""
        python_path = os.pathsep.join([str(HERE / "worker_faults"), *python_paths()])
        directories = {"SPARK_LOCAL_DIRS": str(self.scratch / "local"), "ROCKETSTORE_FAULTS": str(self.faults)}
        return {**os.environ, **variables(), **directories, "PYTHONPATH": python_path}

    def ask_for_fault(self, function, fault="kill"):
        """Let the next call of a function fail. See ``worker_faults``."""
        (self.faults / function).write_text(fault)

    def claimed(self):
        """Return the functions whose faults have happened, and forget all faults."""
        names = sorted(path.name for path in self.faults.iterdir())
        for path in self.faults.iterdir():
            path.unlink()
        return [name.partition(".claimed-")[0] for name in names if ".claimed-" in name]

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(SECONDS)


def settings(**more):
    """Return the settings of a session on a cluster. A task may fail several times."""
    addresses = dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
    limits = {"spark.executor.memory": "600m", "spark.executor.cores": "1", "spark.task.maxFailures": "8"}
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "2",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.task.duration.threshold": "5s",  # of a stage with one task
    }
    options = {"spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"]}
    zone = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    return {**QUICK, **addresses, **limits, **speculation, **options, **zone, **more}


def variables():
    """Return variables of the environment of all processes of a cluster."""
    import pyspark

    home = os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))
    return {"SPARK_HOME": home, "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": worker_python()}


def python_paths():
    """Return the directories of PYTHONPATH, without the tree if the workers have the wheel."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    has_wheel = "ROCKETSTORE_WORKER_PYTHON" in os.environ
    return [path for path in paths if path and not (has_wheel and Path(path) == TREE)]


def worker_python():
    """Return the Python of the workers: with ``make test-cluster``, of an environment that has the wheel."""
    return os.environ.get("ROCKETSTORE_WORKER_PYTHON", sys.executable)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition, problem="", seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)
