"""The bounds that filters of pyarrow and polars give, and the conditions of a scan that they become."""

import datetime
from functools import reduce
from operator import or_

import pytest

from rocketstore.dataset.bounds import Interval, both, compare, either, is_impossible, one_of, scan_conditions


def plain(bounds):
    return {name: set(values) if isinstance(values, frozenset) else values for name, values in bounds.items()}


def arrow_cases():
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
    topic, tags, queue, time = map(pc.field, ("topic", "tags", "queueId", "storeTimestamp"))
    null = pa.scalar(None, pa.bool_())
    return [
        (topic == "A", {"topic": {"A"}}),
        ((topic == "A") | topic.isin(["B", "C"]), {"topic": {"A", "B", "C"}}),
        ((topic == "A") | (tags == "B"), {}),
        ((topic == "A") & ~(tags == "B"), {"topic": {"A"}}),
        (
            ((topic == "A") & (tags == "B")) & ((queue > 1) & (queue <= 7)),
            {"topic": {"A"}, "tags": {"B"}, "queueId": Interval(1, 7)},
        ),
        ((topic == "A") & ((queue == 1) | ((queue == 3) & (tags == "x"))), {"topic": {"A"}, "queueId": Interval(1, 3)}),
        (topic.isin(["A", None]), {}),
        (topic.isin(pa.array([], pa.string())), {}),
        (topic > "A", {}),
        (topic == pa.scalar("A", pa.large_string()), {"topic": {"A"}}),
        (topic == pa.scalar(None, pa.string()), {}),
        (pc.field("body") == b"A", {}),
        (queue.isin([1, 5]) & (queue >= 2), {"queueId": Interval(2, 5)}),
        (queue.cast("int64") == 1, {}),
        (queue == 1.5, {}),
        (pc.scalar(3) < queue, {"queueId": Interval(3, 2**63 - 1)}),
        (pc.if_else(tags.is_valid(), tags == "A", null), {"tags": {"A"}}),
        (pc.if_else(tags.is_valid(), tags == "A", True), {}),
        (pc.starts_with(topic, "A"), {}),
        (time == pa.scalar(1500, pa.timestamp("us", "UTC")), {"storeTimestamp": Interval(2, 1)}),
        (time >= pa.scalar(2, pa.timestamp("s", "UTC")), {"storeTimestamp": Interval(2000, 2**63 - 1)}),
        (time == pa.scalar(1500, pa.timestamp("us")), {}),
        (pc.field("topic", "nested") == "A", {}),
        (pc.scalar(True), {}),
    ]


def test_the_bounds_of_filters_of_pyarrow():
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    from rocketstore.dataset.arrow_filter import read_filter

    for condition, bounds in arrow_cases():
        assert plain(read_filter(condition).bounds) == bounds, condition


def test_the_columns_of_expressions_of_pyarrow():
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
    from rocketstore.dataset.arrow_filter import read_filter

    a, b, c = map(pc.field, "abc")
    assert read_filter(((a == 1) & (b == 2)) | (pc.utf8_length(c) > pc.field("d", "e"))).columns == {"a", "b", "c", "d"}
    assert read_filter(pc.scalar(1)).columns == set()
    assert read_filter(pc.field(0) == 1).columns is None  # by its place, which pyarrow does not pickle
    assert read_filter("no expression").columns is None


def polars_cases(col, lit):
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    day = int(at.timestamp() * 1000)
    return [
        (col("topic") == "A", {"topic": {"A"}}),
        (lit("A") == col("topic"), {"topic": {"A"}}),
        (col("topic").is_in(["A", "B"]) & (col("queueId") <= 3), {"topic": {"A", "B"}, "queueId": AT_MOST_3}),
        ((col("topic") == "A") | (col("tags") == "B"), {}),
        ((col("topic") == "A") & ~(col("tags") == "B"), {"topic": {"A"}}),
        (col("phyOffset").is_between(1, 9), {"phyOffset": Interval(1, 9)}),
        (lit(3) >= col("queueId"), {"queueId": AT_MOST_3}),
        (col("keys").list.contains("k") & (col("topic") == "A"), {"keys": {"k"}, "topic": {"A"}}),
        (col("keys").list.contains(col("topic")), {}),
        (col("topic") == col("tags"), {}),
        (col("topic").is_in(["A", None]), {}),
        (col("topic").str.starts_with("A"), {}),
        (col("storeTimestamp") >= at, {"storeTimestamp": Interval(day, 2**63 - 1)}),
        (col("storeTimestamp") >= at.replace(tzinfo=None), {}),
        (col("queueId") == 1.5, {}),
    ]


AT_MOST_3 = Interval(-(2**63), 3)


def test_the_bounds_of_filters_of_polars():
    pl = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    from rocketstore.dataset.polars_filter import read_predicate

    for condition, bounds in polars_cases(pl.col, pl.lit):
        assert plain(read_predicate(condition)) == bounds, condition


DEEP = 5000  # terms, more than Python's calls may be nested


def test_a_filter_of_pyarrow_that_is_too_deep_has_no_bounds():
    pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow, from the extra 'arrow'")
    from rocketstore.dataset.arrow_filter import read_filter

    terms = [pc.field("uniqKey") == str(i) for i in range(DEEP)]
    assert read_filter(reduce(or_, terms)) == ({}, None)


@pytest.mark.parametrize("n", [500, DEEP])  # polars itself writes the first as JSON
def test_a_filter_of_polars_that_is_too_deep_has_no_bounds(n):
    pl = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    from rocketstore.dataset.polars_filter import read_predicate

    terms = [pl.col("uniqKey") == str(i) for i in range(n)]
    assert set(read_predicate(reduce(or_, terms))) <= {"uniqKey"}


def test_bounds_join():
    """Two filters on keys may hold by two words. Of other columns both filters hold by one value."""
    keys = one_of("keys", ["a", "b"]), compare("keys", "==", "c")
    assert plain(both(*keys)) == {"keys": {"c"}}
    assert plain(either(*keys)) == {"keys": {"a", "b", "c"}}
    topics = both(compare("topic", "==", "A"), compare("topic", "==", "B"))
    assert is_impossible(topics)
    assert is_impossible(both(compare("queueId", ">", 5), compare("queueId", "<", 4)))
    assert not is_impossible({})
    assert one_of("topic", []) == {}


def test_bounds_become_conditions_of_a_scan():
    bounds = both(one_of("topic", ["B", "A"]), both(compare("queueId", ">=", 2), compare("queueId", "<=", 4)))
    bounds = both(bounds, both(compare("phyOffset", ">=", -5), compare("phyOffset", "<=", 99)))
    assert scan_conditions(bounds) == {
        "topic": ["A", "B"],
        "queue_ids": [2, 3, 4],
        "begin_offset": 0,
        "end_offset": 100,
    }
    assert scan_conditions(compare("queueId", ">=", 2)) == {}
    times = both(compare("storeTimestamp", ">=", 10), compare("storeTimestampMs", "<=", 20))
    assert scan_conditions(times) == {"since": 10, "until": 21}
    assert scan_conditions(compare("storeTimestamp", "<=", 2**63 - 1)) == {}
    assert scan_conditions(compare("storeTimestamp", ">=", 1_700_000_000)) == {}  # a scan takes it for seconds
    for tag in ("", " x", "a|b"):  # a subscription cannot say these
        assert scan_conditions(one_of("tags", ["x", tag])) == {}
    assert scan_conditions(both(compare("uniqKey", "==", "U"), compare("keys", "==", "k"))) == {"key": ["U"]}
