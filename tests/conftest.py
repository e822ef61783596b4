"""Fixtures of every test, and the header that makes a run repeatable."""

import functools
import gc
import os
import secrets
import shutil
import signal
import sys
import warnings
from pathlib import Path

import pytest
from support import brokers, spark_cluster
from support.spark_settings import QUICK
from support.stores import GOLDEN, extract

TESTS = Path(__file__).parent
# Where the tests of Spark run: see the fixture ``spark``.
SPARK = os.environ.get("ROCKETSTORE_SPARK", "classic")


def pytest_configure(config):
    # Tests start themselves as scripts, which import ``support`` too. The server of Spark Connect imports the module of
    # a function that a test of Spark gives to a stream.
    paths = [str(TESTS), str(TESTS / "spark"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # In the environment, so that a test run in a subprocess draws the same numbers.
    os.environ.setdefault("ROCKETSTORE_SEED", str(secrets.randbelow(2**32)))
    # In the background of a script it is ignored, also by the processes that are started here: they would not end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item):
    if "seed" in item.fixturenames:
        item.add_marker("seeded")
    if "client" in item.fixturenames:
        item.add_marker("broker")
    if uses_session(item):
        item.add_marker("spark")
    if "cluster" in item.fixturenames:
        item.add_marker("cluster")


def pytest_collection_modifyitems(config, items):
    """On a cluster, leave out the tests that use no session of it: they run as everywhere."""
    if "cluster" in SPARK:
        config.hook.pytest_deselected(items=[item for item in items if not uses_session(item)])
        items[:] = [item for item in items if uses_session(item)]


def pytest_collection_finish():
    """Exclude the collected tests from garbage collections: they are half a million objects."""
    gc.freeze()


def uses_session(item):
    """Whether a test uses the session of the run, or its cluster."""
    return "spark" in item.fixturenames or "cluster" in item.fixturenames


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        """A file is one worker's; so are all of interop and all of Spark, whose JVMs are each started once.

        The tests of damaged stores share nothing, and the last worker would take minutes with them alone.
        """

        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            if file.endswith("test_store_hostile.py"):
                return nodeid
            return next((scope for scope in ("interop/", "test_spark_") if scope in file), file)

    return Scheduling(config, log)


def pytest_report_header(config):
    import rocketstore
    from rocketstore.kernels import csrc

    return (
        f"rocketstore {rocketstore.__version__}, cpu level {csrc.cpu_level()}, "
        f"ROCKETSTORE_SEED={os.environ['ROCKETSTORE_SEED']}"
    )


@pytest.fixture(scope="session")
def seed():
    """The number that every random input of the run comes from."""
    return int(os.environ["ROCKETSTORE_SEED"])


@pytest.fixture(scope="session")
def root_of(tmp_path_factory):
    """A function from the name of a store of ``golden/brokers`` to its unpacked root, which no test changes."""
    return functools.cache(lambda name: brokers.unpack(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def golden_index(tmp_path_factory):
    """The index directory that a RocketMQ 5.5.0 broker left."""
    directory = tmp_path_factory.mktemp("golden")
    extract(GOLDEN / "broker-5.5.0.tar.xz", directory, lambda name: name.startswith("broker-5.5.0/index/"))
    return directory / "broker-5.5.0" / "index"


MASTERS = {"classic": "local[2]", "connect": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A cluster of Spark, with ROCKETSTORE_SPARK=cluster or connect-cluster."""
    if SPARK not in ("cluster", "connect-cluster"):
        pytest.skip("needs a cluster of Spark: make test-cluster")
    found = spark_cluster.Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    """One Spark session of two cores for the whole run.

    ROCKETSTORE_SPARK says where: classic in this process, connect through Spark Connect, cluster on a standalone
    cluster, connect-cluster on it through Spark Connect, local-cluster on executors that the driver starts.
    """
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("needs Java 17")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = spark_cluster.worker_python() if "cluster" in SPARK else sys.executable
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["FSSPEC_CONFIG_DIR"] = str(scratch / "fsspec")  # where tests may say how workers reach a server
    settings = {
        **QUICK,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.extraJavaOptions": f"{QUICK['spark.driver.extraJavaOptions']} -Djava.io.tmpdir={scratch}",
    }
    master = MASTERS.get(SPARK)
    if "cluster" in SPARK:
        found = None if master else request.getfixturevalue("cluster")
        settings |= spark_cluster.settings()
        os.environ.update(spark_cluster.variables())
        if master:
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # the address of its executors
        master = master or found.url
    builder = SparkSession.builder.master(master)
    if SPARK.startswith("connect"):
        os.environ["SPARK_TESTING"] = "1"  # the server takes any free port
        builder = builder.remote(master) if master.startswith("local") else builder.config("spark.api.mode", "connect")
    with warnings.catch_warnings():  # Connect's server has these settings, and its session cannot have them again
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        session = builder.config(map=settings).getOrCreate()
    yield session
    # Spark has no setting for the directory of the logs of a local cluster's executors.
    work = Path(os.environ["SPARK_HOME"], "work") if SPARK == "local-cluster" else None
    logs = work and work / session.sparkContext.applicationId
    session.stop()
    if logs:
        shutil.rmtree(logs)
