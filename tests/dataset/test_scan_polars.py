"""A store as a lazy frame of polars: filters of any kind give what polars gives for the whole frame."""

import random
import sys

import pytest
from support.dataset_store import Filters, draw_filter, spied, write

import rocketstore
from rocketstore.dataset.dataset_reader import DatasetReader
from rocketstore.kernels.message_columns import lazy_fields

pl = pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
col = pl.col


@pytest.fixture(scope="module")
def root(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("polars") / "store"
    write(path, seed)
    return path


@pytest.fixture(scope="module")
def whole(root):
    with rocketstore.open(root) as store:
        return store.scan(columns=lazy_fields()).to_polars()


@pytest.fixture
def frame(root):
    return rocketstore.scan_polars(root)


def test_columns_have_either_of_their_names(root):
    for columns in (["phy_offset", "msgId"], ["phyOffset", "msg_id"]):
        assert rocketstore.scan_polars(root, columns=columns).collect_schema().names() == ["phyOffset", "msgId"]


def test_a_lazy_frame_has_a_scans_rows_with_the_texts_of_bodies(frame, whole):
    assert isinstance(frame, pl.LazyFrame)
    assert frame.collect_schema() == whole.schema
    assert frame.collect().equals(whole)
    assert frame.select(pl.len()).collect().item() == len(whole)
    assert frame.select("tags", "size").collect().equals(whole.select("tags", "size"))
    assert frame.collect(engine="streaming").equals(whole)


def test_random_filters_give_what_polars_gives(frame, whole, seed):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    rng, make, table = random.Random(seed), Filters(col, "is_in"), pa.table(whole)
    for _ in range(50):
        condition = draw_filter(rng, table, make)
        expected = whole.filter(condition).select("phyOffset", "tags")
        assert frame.filter(condition).select("phyOffset", "tags").collect().equals(expected), condition


def test_a_limit_counts_rows_before_or_after_the_filter(frame, whole):
    orders = col("topic") == "Orders"
    assert frame.head(5).collect().equals(whole.head(5))
    assert frame.filter(orders).head(5).collect().equals(whole.filter(orders).head(5))
    assert frame.head(50).filter(orders).collect().equals(whole.head(50).filter(orders))
    assert frame.tail(3).collect().equals(whole.tail(3))


def test_columns_and_filters_reach_the_scan(root, whole, monkeypatch):
    from rocketstore.dataset.polars_scan import lazy_frame

    with rocketstore.open(root) as store:
        calls = spied(monkeypatch, store.commit_log)
        frame = lazy_frame(DatasetReader(store), None)
        found = frame.filter(col("topic") == "Orders", col("tags").is_in(["paid", "sent"])).select("size").collect()
        assert found.equals(whole.filter(col("topic") == "Orders", col("tags").is_in(["paid", "sent"])).select("size"))
        ((name, options),) = calls
        assert (name, {*options["columns"]}, options["topic"]) == ("scan", {"topic", "tags", "size"}, ["Orders"])


def test_a_filter_on_topic_and_keys_uses_the_index(root, whole, monkeypatch):
    from rocketstore.dataset.polars_scan import lazy_frame

    with rocketstore.open(root) as store:
        calls = spied(monkeypatch, store.commit_log)
        frame = lazy_frame(DatasetReader(store), None)
        for wanted in (col("keys").list.contains("kk"), col("uniqKey") == "U00007"):
            calls.clear()
            condition = wanted & (col("topic") == "Orders")
            assert frame.filter(condition).collect().equals(whole.filter(condition))
            assert {name for name, options in calls if "body" in options["columns"]} <= {"find_messages"}


def test_wrong_arguments_are_refused_at_once(root, tmp_path):
    with pytest.raises(ValueError, match="nothing"):
        rocketstore.scan_polars(root, columns=["nothing"])
    with pytest.raises(ValueError, match="on_corrupt"):
        rocketstore.scan_polars(root, on_corrupt="ignore")
    with pytest.raises(rocketstore.StoreError, match="no store"):
        rocketstore.scan_polars(tmp_path)
    assert rocketstore.scan_polars(root, columns=["store_timestamp_ms"]).collect_schema() == {
        "storeTimestampMs": pl.Int64
    }


def test_polars_that_is_missing_or_too_old_is_an_error(root, monkeypatch):
    monkeypatch.setattr(pl, "__version__", "1.34.0")
    with pytest.raises(ImportError, match=r"needs polars 1\.35 or newer, not 1\.34\.0"):
        rocketstore.scan_polars(root)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ModuleNotFoundError, match=r"rocketstore\[polars\]"):
        rocketstore.scan_polars(root)
