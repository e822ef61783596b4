"""Filters on empty, missing and odd texts: a store answers as the same rows in memory do."""

import pytest
from support.empty_values import TEXTS, make_store

import rocketstore

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

LISTS = [[text] for text in TEXTS] + [["", "a"], ["a", "a||b"], ["a", " a"], ["*", "a"]]
WITH_NULL = [*LISTS, [None, "a"], [None, ""], [None, "", "a"]]  # the last text is no null


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("empty") / "store")


@pytest.fixture(scope="module")
def table(root):
    with rocketstore.open(root) as store:
        return store.scan().to_arrow()


@pytest.mark.parametrize("column", ["tags", "uniqKey"])
@pytest.mark.parametrize("topic", [None, "A", ""])
def test_filters_of_arrow(root, table, column, topic):
    field = pytest.importorskip("pyarrow.dataset").field
    with rocketstore.open(root) as store:
        for wanted in WITH_NULL:
            for condition in (field(column).isin(wanted), field(column) == wanted[-1], field(column).is_null()):
                if topic is not None:
                    condition = condition & (field("topic") == topic)
                found = store.dataset().to_table(["phyOffset"], condition)
                assert found.equals(table.filter(condition).select(["phyOffset"])), condition


@pytest.mark.parametrize("topic", [None, "A", ""])
def test_filters_of_polars(root, table, topic):
    pl = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    frame, lazy = pl.from_arrow(table), rocketstore.scan_polars(root)
    conditions = [pl.col("keys").list.contains(text) for text in TEXTS]
    for column in map(pl.col, ("tags", "uniqKey")):
        for wanted in WITH_NULL:
            conditions += [column.is_in(wanted), column.is_in(wanted, nulls_equal=True)]
            conditions += [column == wanted[-1], column.eq_missing(wanted[0])]
    for condition in conditions:
        if topic is not None:
            condition = condition & (pl.col("topic") == topic)
        found = lazy.filter(condition).select("phyOffset").collect()
        assert found.equals(frame.filter(condition).select("phyOffset")), condition


def test_filters_of_duckdb(root, table):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    connection = duckdb.connect()
    connection.register("whole", table)
    with rocketstore.open(root) as store:
        connection.register("messages", store.dataset())
        for column in ("tags", "uniqKey"):
            for wanted in WITH_NULL:
                values = ", ".join("NULL" if text is None else f"'{text}'" for text in wanted)
                for condition in (
                    f"{column} IN ({values})",
                    f"NOT {column} IN ({values})",
                    f"{column} IS NOT DISTINCT FROM {values.split(', ')[0]}",
                    f"({column} IN ({values}) OR {column} IS NULL) AND topic IN ('A', '')",
                ):
                    found, expected = (
                        connection.sql(f"SELECT phyOffset FROM {name} WHERE {condition} ORDER BY 1").fetchall()
                        for name in ("messages", "whole")
                    )
                    assert found == expected, condition
