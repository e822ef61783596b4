"""The errors of SQL and of save modes that a store cannot have: the last line says what to do."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from pyspark.errors import PySparkException

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.spark import register

pytestmark = pytest.mark.spark
SPARK_PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"
ROW = "SELECT 'T' AS topic, CAST('x' AS BINARY) AS body"
USE_VIEW = "use CREATE TEMPORARY VIEW name USING rocketstore OPTIONS (path '/data/store')"
USE_SAVE = "use df.write.format('rocketstore').mode('append').save('/data/store')"


@pytest.fixture
def root(spark, tmp_path):
    register(spark)
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("T", b"first"))
    return tmp_path / "store"


def last_line(call):
    """The last line of the error of a call, without Spark's code of the error and the stack of Connect's server."""
    with pytest.raises(PySparkException) as error:
        call()
    text = str(error.value).partition("\n\nJVM stacktrace:\n")[0]
    lines = [line for line in text.splitlines() if line.strip() and "SQLSTATE" not in line]
    return lines[-1]


def test_tables_are_refused_with_the_statement_to_use(spark, root):
    options = f"USING rocketstore OPTIONS (path '{root}')"
    assert USE_VIEW in last_line(lambda: spark.sql(f"CREATE TABLE made {options}"))
    spark.sql(f"CREATE TABLE made_with_schema (topic STRING) {options}")  # Spark asks no source then
    try:
        assert USE_VIEW in last_line(lambda: spark.sql("SELECT * FROM made_with_schema").collect())
        assert USE_SAVE in last_line(lambda: spark.sql(f"CREATE TABLE selected {options} AS {ROW}"))
        spark.sql(ROW).write.format("rocketstore").option("path", str(root)).saveAsTable("saved")  # it only appends
        assert USE_VIEW in last_line(lambda: spark.sql("SELECT * FROM saved").collect())
    finally:
        for name in ("made_with_schema", "selected", "saved"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_store_is_not_overwritten(spark, root):
    write = spark.sql(ROW).write.format("rocketstore").mode("overwrite")
    found = last_line(lambda: write.save(str(root)))
    assert "mode overwrite: a store can only be appended to, although Spark advises overwrite" in found
    assert found.endswith("use mode append, as in df.write.format('rocketstore').mode('append').save('/data/store')")


@pytest.mark.skipif(not SPARK_PAGE.exists(), reason="tested away from the source tree")
def test_the_page_quotes_the_error_of_a_write_without_a_mode(spark, root):
    with pytest.raises(PySparkException) as error:
        spark.sql(ROW).write.format("rocketstore").save(str(root))
    sentence = str(error.value).partition("] ")[2].partition(" SQLSTATE")[0]
    page = " ".join(SPARK_PAGE.read_text(encoding="utf-8").split())
    assert '"ErrorIfExists" mode' in sentence
    assert f"`{sentence}`" in page


def test_rows_are_inserted_into_a_view_that_has_a_schema(spark, root):
    path = f"path '{root}'"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW written (topic STRING, body BINARY) USING rocketstore OPTIONS ({path})"
    )
    spark.sql(f"INSERT INTO written {ROW}")
    assert sorted(bytes(row.body) for row in spark.sql("SELECT body FROM written").collect()) == [b"first", b"x"]
    options = f"{path}, columns 'topic,body'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW narrow USING rocketstore OPTIONS ({options})")
    found = last_line(lambda: spark.sql(f"INSERT INTO narrow {ROW}"))
    assert "option 'columns' is an option of reading. INSERT INTO a view writes with the options of the view" in found
