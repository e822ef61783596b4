"""Messages in tables of Delta Lake and Iceberg, with the packages that the page of recipes names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyspark
from support.spark_reads import environment_of_classic

import rocketstore
from rocketstore import Message, StoreConfig

TREE = Path(__file__).parent.parent.parent
RELEASE = ".".join(pyspark.__version__.split(".")[:2])
PAGE = TREE / "docs" / "how-to" / "spark-recipes.md"
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from rocketstore.spark import register

kind, package, root, directory = sys.argv[1:5]
builder = SparkSession.builder.master("local[1]").config("spark.jars.packages", package)
for name, value in {settings!r}.items():
    builder = builder.config(name, value)
for name in ("spark.sql.warehouse.dir", "spark.sql.catalog.lake.warehouse"):
    builder = builder.config(name, directory)
spark = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
register(spark)
messages = spark.read.format("rocketstore").load(root)
for _ in range(2):
    if kind == "delta":
        messages.write.format("delta").mode("append").save(directory + "/messages")
    elif spark.catalog.tableExists("lake.db.messages"):
        messages.writeTo("lake.db.messages").append()
    else:
        messages.writeTo("lake.db.messages").create()
table = spark.read.format("delta").load(directory + "/messages") if kind == "delta" else spark.table("lake.db.messages")
assert table.schema.names == messages.schema.names
assert sorted(map(str, table.collect())) == sorted(2 * list(map(str, messages.collect())))
"""


def package_of(kind):
    """The package for this release of PySpark that the page names; None without one."""
    names = re.findall(r"`((?:io\.delta|org\.apache\.iceberg):[\w.:-]+)`", PAGE.read_text(encoding="utf-8"))
    return next((name for name in names if kind in name and f"{RELEASE}_2.13" in name), None)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.skipif(not PAGE.exists(), reason="tested away from the source tree")
def test_a_table_of_a_lake_has_the_messages(tmp_path, kind):
    package = package_of(kind)
    if package is None:
        pytest.skip(f"Maven Central has no package of {kind} for PySpark {RELEASE}")
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        store.put_messages([Message("T", b"%d" % i, keys=[f"k{i}"], tags="t") for i in range(20)])
    program = PROGRAM.replace("{settings!r}", repr(SETTINGS[kind]))
    command = [sys.executable, "-c", program, kind, package, str(tmp_path / "store"), str(tmp_path / "lake")]
    environment = environment_of_classic(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
