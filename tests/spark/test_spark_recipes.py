"""The recipes of the page for Spark that need packages beside PySpark: a declarative pipeline, pandas on Spark."""

import re
import subprocess
import sysconfig
import venv
from importlib.metadata import requires
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support.spark_reads import environment_of_classic

import rocketstore
from rocketstore import Message, StoreConfig

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "spark-recipes.md"
PIPELINE = """
name: orders
storage: file://{directory}/storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "1"
"""
READ_TABLES = """
import pyarrow.dataset as ds

for name in ("paid_orders", "all_orders"):
    found = ds.dataset(f"spark-warehouse/{name}", format="parquet").to_table()
    print(name, sorted(body.decode() for body in found.column("body").to_pylist()))
"""
PANDAS = """
from pyspark.sql import SparkSession
from rocketstore.spark import register

builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
spark = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
register(spark)
messages = spark.read.format("rocketstore").load(sys.argv[1])
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not PAGE.exists(), reason="tested away from the source tree"),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has the packages of this one, those of the extra pipelines of PySpark, and pandas before 3.0."""
    directory = tmp_path_factory.mktemp("recipes") / "venv"
    venv.create(directory, with_pip=True)
    found = directory / "bin" / "python"
    extra = [each.partition(";")[0] for each in requires("pyspark") if "pipelines" in each]
    subprocess.run([found, "-m", "pip", "install", "--quiet", *extra, "pandas<3"], check=True, timeout=300)
    site = sysconfig.get_path("purelib", vars={"base": str(directory)})
    (Path(site) / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("recipes") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        messages = [Message("Orders", b"%d" % i, tags="paid" if i % 2 else "sent") for i in range(4)]
        store.put_messages([*messages, Message("Payments", b"4")])
    return root


def fence_below(heading):
    """The code in the last fence of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[-1]


def run(python, command, directory):
    """Run a command, whose Python is ``python``. Return its output."""
    environment = environment_of_classic(PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")
    options = {"capture_output": True, "text": True, "timeout": 600, "check": False, "cwd": directory}
    done = subprocess.run(list(map(str, command)), env=environment, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_declarative_pipeline_reads_a_store(tmp_path, python, root):
    (tmp_path / "transformations").mkdir()
    source = fence_below("A declarative pipeline").replace("/data/store", str(root))
    assert str(root) in source
    (tmp_path / "transformations" / "orders.py").write_text(source, encoding="utf-8")
    (tmp_path / "spark-pipeline.yml").write_text(PIPELINE.format(directory=tmp_path), encoding="utf-8")
    run(python, [Path(sysconfig.get_path("scripts")) / "spark-pipelines", "run"], tmp_path)
    assert run(python, [python, "-c", READ_TABLES], tmp_path).splitlines() == [
        "paid_orders ['1', '3']",
        "all_orders ['0', '1', '2', '3', '4']",
    ]


def test_a_store_is_a_dataframe_of_pandas_on_spark(tmp_path, python, root):
    program = f"{PANDAS}\n{fence_below('pandas on Spark')}\nprint(counts.to_pandas().to_dict())"
    assert run(python, [python, "-c", program, root], tmp_path).splitlines()[-1] == "{'Orders': 4, 'Payments': 1}"
