"""A sample by a hash: the same messages each time, of each queue about the share, and read by the queues alone."""

import numpy as np
import pytest
from support.cli import rows, run

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.text_values import parse_share


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A stopped store with 20,000 messages of 3 topics with 4 queues each, bodies of 300 bytes."""
    root = tmp_path_factory.mktemp("sample") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages(Message(f"T{n % 3}", b"x" * 300, keys=[f"k{n}"], tags=f"t{n % 2}") for n in range(20_000))
    return root


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def test_a_sample_has_about_its_share_of_each_queue(store):
    sample = store.sample("10%", columns=["topic", "queue_id", "queue_offset"])
    assert 1800 < len(sample) < 2200
    for topic in ("T0", "T1", "T2"):
        ids = sample.queue_id[[name == topic for name in sample.topic]]
        assert all(100 < count < 240 for count in np.bincount(ids, minlength=4))


@pytest.mark.parametrize("options", [{}, {"topic": "T1"}, {"topic": ["T0", "T2"], "tag": "t1"}, {"queue_ids": [2]}])
@pytest.mark.parametrize("share", [0.01, "5%"])
def test_a_sample_is_the_same_by_the_queues_and_by_the_whole_log(share, options, store):
    by_queues = store.scan(sample=share, **options)
    assert "records to which the queues lead" in by_queues.explain()
    found = by_queues.to_arrow()
    assert found.equals(store.scan(sample=share, plan="scan", **options).to_arrow())
    assert 0 < found.num_rows < store.scan(**options).count() / 10


def test_a_smaller_sample_is_a_part_of_a_larger_one(store):
    small, large = ({*store.sample(share).phy_offset.tolist()} for share in (0.02, 0.1))
    assert small < large
    assert len(store.sample(1.0, columns="size")) == 20_000


def test_limits_and_topics_work_with_a_sample(store):
    everything = store["T1"].sample("5%").keys.to_pylist()
    assert store["T1"].head(7, sample="5%").keys.to_pylist() == everything[:7]
    assert store["T1"].tail(7, sample="5%").keys.to_pylist() == everything[-7:]
    assert store.scan(topic="T1", sample="5%", limit=3).to_arrow()["keys"].to_pylist() == everything[:3]


def test_a_store_of_inner_batches_has_the_same_sample_either_way(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        for n in range(50):
            store.put_message(Message.batch("B", [Message("B", bytes(100), keys=[f"{n}-{i}"]) for i in range(3)]))
            store.put_messages([Message("P", bytes(1000))] * 10)
    with rocketstore.open(tmp_path) as store:
        sample = store.scan(sample=0.03)
        assert sample.to_arrow().equals(store.scan(sample=0.03, plan="scan").to_arrow())


def test_commands_take_a_sample(root, tmp_path):
    with rocketstore.open(root) as store:
        expected = store.sample("1%").keys.to_pylist()
    assert [row["keys"] for row in rows(run("cat", root, "--sample", "1%"))] == expected
    result = run("export", root, tmp_path / "out.jsonl", "--sample", "1%")
    assert result.stderr == f"{tmp_path / 'out.jsonl'}: {len(expected)} messages\n"
    (count,) = rows(run("count", root, "--by", "tag", "--sample", "1%", "--limit", "1"))
    assert 0 < count["messages"] < 200


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5", 0.5), ("100%", 1), (0.25, 0.25), (" 2.5 % ", 0.025)])
def test_shares_are_written_as_numbers_or_percent(text, share):
    assert parse_share(text) == share


@pytest.mark.parametrize("text", ["0", "101%", "-1", "x", "", "nan", 2])
def test_other_shares_are_refused(text, store):
    with pytest.raises(ValueError, match="must be a part of all, such as 1%"):
        store.scan(sample=text)
