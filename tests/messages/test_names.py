"""One set of names: snake_case in Python, camelCase in tables, and both wherever columns are chosen."""

import pytest

import rocketstore
from rocketstore import Message, StoreConfig, arrow
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.verify.verify import verify


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        for i in range(4):
            message = Message("A", f"body {i}", keys="k", queue_id=i % 2)
            store.put_message(message, store_timestamp=1_700_000_000_000 + i)
    (tmp_path / "config/consumerOffset.json").write_text('{"offsetTable": {"A@group": {"0": 1, "1": 5, "3": 0}}}')
    return tmp_path


def camel(name):
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def test_every_field_has_one_regular_pair_of_names():
    """The texts of a body have the names that they have in SQL."""
    irregular = {"body_text": "body_text", "body_json": "body_json"}
    names = {name: field.name for name, field in MESSAGE_FIELDS.items()}
    assert names == {name: camel(name) for name in MESSAGE_FIELDS} | irregular


def test_columns_are_chosen_by_either_name(root):
    pytest.importorskip("pyarrow")
    snake, mixed = ["phy_offset", "msg_id", "store_timestamp_ms"], ["phyOffset", "msg_id", "storeTimestampMs"]
    with rocketstore.open(root) as store:
        log = store.commit_log
        for columns in (snake, mixed):
            for batch in (
                store.scan(columns=columns).head(), next(iter(store.follow_batches(columns=columns, poll=None))),
                log.get_messages([0], columns=columns), store["A"].scan(columns=columns).head(),
                store.scan(columns=[*MESSAGE_FIELDS]).head().select(columns),
                log.find_messages([0], columns=columns)[0],
            ):  # fmt: skip
                assert batch.names == tuple(snake)
            assert arrow.message_schema(columns).names == ["phyOffset", "msgId", "storeTimestampMs"]
            assert store.dataset(columns=columns).schema.names == ["phyOffset", "msgId", "storeTimestampMs"]
        assert store.scan(columns="msgId").head().msg_id[0] == store.look_message_by_offset(0).msg_id
        with pytest.raises(ValueError, match="columns: 'phyoffset' is none of"):
            store.scan(columns="phyoffset")


def test_a_table_with_either_names_is_put(root, tmp_path):
    polars = pytest.importorskip("polars")
    with rocketstore.open(root) as store:
        table = store.scan(columns=["topic", "queueId", "body", "keys", "bornTimestamp"]).to_polars()
    assert table.columns == ["topic", "queueId", "body", "keys", "bornTimestamp"]
    renamed = table.rename({"queueId": "queue_id", "bornTimestamp": "born_timestamp"})
    with rocketstore.open(tmp_path / "new", "a", config=StoreConfig.small()) as store:
        store.put_messages(table)
        store.put_messages(renamed)
        queue_ids = [message.queue_id for message in store["A"]]
        assert queue_ids[:4] == queue_ids[4:] == [0, 1, 0, 1]
        with pytest.raises(ValueError, match="queueId: are there more than once"):
            store.put_messages(table.with_columns(queue_id=1))
    assert isinstance(renamed, polars.DataFrame)


def test_consumer_lag_is_a_sequence_and_a_table(root):
    pa = pytest.importorskip("pyarrow")
    with rocketstore.open(root) as store:
        lags = store.consumer_lag("group")
        messages = store.scan().to_arrow().schema
    assert [(lag.queue_id, lag.lag, lag.problem is None) for lag in lags] == [
        (0, 1, True), (1, 0, False), (3, 0, True),
    ]  # fmt: skip
    assert (len(lags), lags[0].queue_id, [lag.queue_id for lag in lags[1:]]) == (3, 0, [1, 3])
    table = lags.to_arrow()
    table.validate(full=True)
    names = ["group", "topic", "queueId", "consumerOffset", "minOffset", "maxOffset", "lag", "problem"]
    names += ["oldestTimestamp", "topicExists", "logBytes"]
    assert table.schema.names == names
    for name in ("topic", "queueId"):
        assert table.schema.field(name).type == messages.field(name).type
    assert table["lag"].to_pylist() == [1, 0, 0]
    assert table["topicExists"].to_pylist() == [True, True, True]
    assert table.schema.field("oldestTimestamp").type == messages.field("storeTimestamp").type
    assert table["oldestTimestamp"].cast(pa.int64()).to_pylist() == [lag.oldest_timestamp for lag in lags]
    assert table["problem"].null_count == 2
    assert lags.to_polars()["queueId"].to_list() == lags.to_pandas()["queueId"].tolist() == [0, 1, 3]
    assert repr(lags).splitlines()[1].split()[:3] == ["group", "topic", "queue_id"]
    empty = lags[:0].to_arrow()
    assert (empty.num_rows, empty.schema) == (0, table.schema)
    assert table.schema.field("minOffset").type == pa.int64()


def test_a_lag_that_is_unknown_is_null(root):
    pytest.importorskip("pyarrow")
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"A@group": {"0": 1, "3": 3}}}')
    with rocketstore.open(root) as store:
        table = store.consumer_lag("group").to_arrow()
    assert table["lag"].to_pylist() == [1, 2, None]  # queue 1 has no offset, and counts from 0
    assert table["minOffset"].to_pylist() == [0, 0, None]
    assert "lost" in table["problem"].to_pylist()[2]


def test_reports_are_tables(root, tmp_path_factory):
    pytest.importorskip("pyarrow")
    (root / "consumequeue/A/1/stray").touch()
    report = verify(root)
    table = report.to_arrow()
    table.validate(full=True)
    assert table.schema.names == list(report.findings[0].to_dict())
    assert table["kind"].to_pylist() == [finding.kind for finding in report.findings]
    assert table["offset"].to_pylist() == [finding.offset for finding in report.findings]
    (root / "abort").touch()
    recovered = rocketstore.recover(root, dry_run=True)
    assert recovered.to_arrow().num_rows == len(recovered.actions)
    assert recovered.to_arrow().schema.names == ["path", "what", "offset", "size"]
    rebuilt = rocketstore.rebuild(root, out=tmp_path_factory.mktemp("new") / "out")
    assert rebuilt.to_arrow().to_pylist()[0]["indexItems"] == rebuilt.index_items == 4
    saved = rocketstore.salvage(root, tmp_path_factory.mktemp("new") / "saved")
    assert saved.to_pandas().columns.tolist() == ["path", "offset", "size", "phyOffset", "reason"]
    with rocketstore.open(root) as store:
        messages = store.scan().to_arrow().schema
    assert saved.to_arrow().schema.field("phyOffset").type == messages.field("phyOffset").type


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_reports_go_to_pandas_and_polars(root, tmp_path_factory, library):
    pytest.importorskip("pyarrow")
    pytest.importorskip(library)
    (root / "consumequeue/A/1/stray").touch()
    (root / "abort").touch()
    with rocketstore.open(root) as store:
        lags = store.consumer_lag()
    reports = [lags, verify(root), rocketstore.recover(root, dry_run=True)]
    elsewhere = tmp_path_factory.mktemp("new")
    reports += [rocketstore.rebuild(root, out=elsewhere / "new"), rocketstore.salvage(root, elsewhere / "saved")]
    for report in reports:
        table, frame = report.to_arrow(), getattr(report, f"to_{library}")()
        assert [*frame.columns] == table.schema.names
        assert len(frame) == table.num_rows
    assert len(lags.to_arrow()) > 0 < len(reports[1].to_arrow())
