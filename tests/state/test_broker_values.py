"""Values of a broker's file that rocketstore cannot use: an error in the calls that need them, and in no other."""

import pytest

import rocketstore
from rocketstore import Message, StoreConfig, rebuild, recover

SIZES = "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=97\nmaxIndexNum=400\n"


@pytest.fixture
def conf(tmp_path):
    def read(text):
        path = tmp_path / "broker.conf"
        path.write_text(SIZES + text)
        return StoreConfig.from_broker_conf(path)

    return read


@pytest.fixture
def root(tmp_path, conf):
    with rocketstore.open(tmp_path / "store", "a", config=conf("")) as store:
        store.put_message(Message("T", b"body"))
    return tmp_path / "store"


def contents(root):
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("line", ["flushIntervalCommitLog=0", "flushCommitLogLeastPages=-1", "messageDelayLevel=1s,5s"])
def test_opening_for_writing_refuses_what_it_needs_and_changes_nothing(root, conf, line):
    before = contents(root)
    with pytest.raises(ValueError, match=rf"broker.conf, line 5: {line.partition('=')[0]}="):
        rocketstore.open(root, "a", config=conf(line))
    assert contents(root) == before


def test_recover_and_rebuild_need_no_times_of_flushing(root, conf):
    config = conf("flushIntervalCommitLog=0\nflushCommitLogLeastPages=-1\nfileReservedTime=-1")
    recover(root, config=config)
    assert rebuild(root, config=config).queues == 1


def test_recover_and_rebuild_need_the_delay_levels(root, conf):
    before = contents(root)
    for call in (recover, rebuild):
        with pytest.raises(ValueError, match=r"line 5: messageDelayLevel='1s,5s'"):
            call(root, config=conf("messageDelayLevel=1s,5s"))
    assert contents(root) == before


def test_the_time_that_files_are_kept_is_needed_for_their_deletion_alone(root, conf):
    with rocketstore.open(root, "a", config=conf("fileReservedTime=-1")) as store:
        with pytest.raises(ValueError, match=r"line 5: fileReservedTime='-1'"):
            store.delete_expired_files()
        store.delete_expired_files(hours=1)


def test_the_size_for_batches_is_needed_for_a_topic_of_batches_alone(root, conf):
    with rocketstore.open(root, "a", config=conf("mapperFileSizeBatchConsumeQueue=1000")) as store:
        store.put_message(Message("T", b"body"))
        with pytest.raises(ValueError, match=r"line 5: mapperFileSizeBatchConsumeQueue='1000'"):
            store.create_topic("B", queue_type="BatchCQ")
        assert "B" not in store.topic_configs


def test_an_index_geometry_that_cannot_be_used_is_needed_for_an_index_alone(root, conf):
    config = conf("maxIndexNum=0\nmessageIndexEnable=false")
    assert rebuild(root, config=config).index_files == 0
    with rocketstore.open(root, config=config) as store:
        assert store.get_message("T", 0, 0).messages[0].body == b"body"
