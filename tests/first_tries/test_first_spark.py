"""What is typed first in Spark works, or says what is wrong."""

import pytest
from tasks import Spark, tries_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(("task", "line"), tries_of(Spark), ids=lambda value: str(value)[:60])
def test_a_first_line_of_spark_works(spark, directory, task, line):
    names = {"read": spark.read.format("rocketstore"), "P": str(directory / "big"), "B": str(directory / "batchcq")}
    assert eval(f"read.{line.typed}", names) == line.answer
