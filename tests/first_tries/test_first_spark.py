"""What is typed first in Spark works, or says what is wrong."""

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORKS = [
    ("count", "load(P).count()", 400),
    ("one topic", "option('subscribe', 'orders').load(P).count()", 200),
    (
        "a JSON field",
        "load(P).selectExpr(\"sum(get_json_object(CAST(body AS STRING), '$.amount'))\").first()[0]",
        79800,
    ),
    ("join", "load(P).alias('a').join(read.load(P).alias('b'), 'phyOffset').count()", 400),
    ("inner batches", "load(B).count()", 87),
]


@pytest.mark.parametrize(("task", "typed", "answer"), WORKS)
def test_a_first_line_of_spark_works(spark, directory, task, typed, answer):
    names = {"read": spark.read.format("rocketstore"), "P": str(directory / "big"), "B": str(directory / "batchcq")}
    assert eval(f"read.{typed}", names) == answer
