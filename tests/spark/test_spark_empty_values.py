"""Filters on empty, missing and odd texts that Spark pushes down: no message that Spark would keep is left out."""

from itertools import combinations

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from pyspark.sql.datasource import EqualNullSafe, EqualTo, In
from support.empty_values import TEXTS, make_store
from support.spark_reads import batches_of, reader_of

from rocketstore.spark.source.messages import PushdownReader

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("empty") / "store")


def read(root, conditions=()):
    reader, schema = reader_of(root, pushdown="true")
    assert isinstance(reader, PushdownReader)
    list(reader.pushFilters(list(conditions)))
    return [row for batch in batches_of(reader, schema, reader.partitions()) for row in batch.to_pylist()]


@pytest.mark.parametrize("column", ["tags", "topic"])
def test_a_filter_that_is_pushed_down_loses_no_message(root, column):
    rows = read(root)
    values = [None, "A", *TEXTS]
    for wanted in [*((value,) for value in values), *combinations(values, 2)]:
        is_equal = {row["phyOffset"] for row in rows if row[column] is not None and row[column] in wanted}
        first = {row["phyOffset"] for row in rows if row[column] is not None and row[column] == wanted[0]}
        same = {row["phyOffset"] for row in rows if row[column] == wanted[0]}
        for condition, expected in [
            (In((column,), wanted), is_equal),
            (EqualTo((column,), wanted[0]), first),
            (EqualNullSafe((column,), wanted[0]), same),
        ]:
            assert expected <= {row["phyOffset"] for row in read(root, [condition])}, condition
