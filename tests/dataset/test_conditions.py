"""The conditions of all messages of a dataset, and of a lazy frame, are those of a scan."""

import pickle
from datetime import UTC, datetime

import polars
import pyarrow.compute as pc
import pytest

import rocketstore
from rocketstore import Message, StoreConfig

T0 = 1_700_000_000_000
CONDITIONS = [
    {"topic": "A"},
    {"topic": ["A", "B"]},
    {"tag": "t0 || t1"},
    {"tag": ["t0", "t2"], "topic": "A"},
    {"key": "k3"},
    {"key": ["k3", "k4"], "topic": ["A", "B"], "since": T0 + 5000},
    {"key": "k1", "topic": "A", "tag": "t1"},
    {"key": "k1", "topic": "A", "until": T0 + 20_000, "limit": 1},
    {"since": T0 + 5000, "until": datetime.fromtimestamp(T0 / 1000 + 9, UTC)},
    {"since": "1970-01-21", "until": "2024-01-01"},
    {"limit": 7},
    {"topic": "B", "limit": 3},
    {"limit": 0},
    {"topic": []},
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("conditions") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as writer:
        for n in range(60):
            message = Message("ABC"[n % 3], b"x", keys=[f"k{n % 5}"], tags=f"t{n % 4}")
            writer.put_message(message, store_timestamp=T0 + n * 1000)
    with rocketstore.open(root) as reader:
        yield reader


@pytest.mark.filterwarnings("ignore:.*an empty list:UserWarning")
@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_a_dataset_and_a_frame_have_the_messages_of_the_scan(store, conditions):
    expected = [offset for batch in store.scan(**conditions) for offset in batch.phy_offset.tolist()]
    dataset, frame = store.dataset(**conditions), rocketstore.scan_polars(store.path, **conditions)
    assert dataset.to_table(columns=["phyOffset"])["phyOffset"].to_pylist() == expected
    assert frame.select("phyOffset").collect()["phyOffset"].to_list() == expected
    assert dataset.count_rows() == len(expected)
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == len(expected)


@pytest.mark.filterwarnings("ignore:.*an empty list:UserWarning")
@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_a_filter_chooses_among_the_messages_of_the_dataset(store, conditions):
    rows = store.dataset(**conditions).to_table().to_pylist()
    dataset, frame = store.dataset(**conditions), rocketstore.scan_polars(store.path, **conditions)
    filters = [
        (pc.field("topic") == "A", polars.col("topic") == "A", lambda row: row["topic"] == "A"),
        (pc.field("tags") == "t1", polars.col("tags") == "t1", lambda row: row["tags"] == "t1"),
        (pc.field("queueOffset") > 2, polars.col("queueOffset") > 2, lambda row: row["queueOffset"] > 2),
    ]
    for of_arrow, of_polars, is_wanted in filters:
        expected = [row["phyOffset"] for row in rows if is_wanted(row)]
        assert dataset.to_table(filter=of_arrow)["phyOffset"].to_pylist() == expected
        assert frame.filter(of_polars).collect()["phyOffset"].to_list() == expected


@pytest.mark.parametrize(
    ("conditions", "error"),
    [
        ({"topic": 5}, TypeError),
        ({"tag": [b"t"]}, TypeError),
        ({"since": "soon"}, ValueError),
        ({"limit": -1}, ValueError),
    ],
)
def test_wrong_conditions_are_refused_at_once(store, conditions, error):
    for call in (store.dataset, lambda **given: rocketstore.scan_polars(store.path, **given)):
        with pytest.raises(error, match=next(iter(conditions))):
            call(**conditions)
