"""copy to a bucket of S3, again when the store has grown, and after a call that was ended in the middle."""

import pytest
from support.profiles import SEVERAL_FILES
from support.remote import BUCKET, s3_file_system

import rocketstore
from rocketstore import Message, RemotePath, StoreConfig, StoreError

COUNT = 120
T0 = 1_700_000_000_000


CONFIG = StoreConfig(**SEVERAL_FILES | {"mapped_file_size_consume_queue": 4000, "max_index_num": 1000})


def fill(root, begin, count):
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for number in range(begin, begin + count):
            message = Message(f"T{number % 3}", b"body %d" % number, keys=[f"k{number}"], tags="t", queue_id=0)
            store.put_message(message, store_timestamp=T0 + 1000 * number)


@pytest.fixture(scope="module")
def s3():
    with s3_file_system() as fs:
        yield fs


@pytest.fixture
def root(tmp_path):
    fill(tmp_path / "store", 0, COUNT)
    return tmp_path / "store"


@pytest.fixture
def bucket(s3, request):
    """A function that returns the place of a store, as a process sees it that has not listed it before."""
    return lambda: RemotePath(s3, f"{BUCKET}/{request.node.name}")


def written(report):
    return {part.part: part.written for part in report.parts if part.written}


def names_in(s3, bucket):
    return {name.removeprefix(f"{bucket.path}/") for name in s3.find(bucket.path)}


def test_a_bucket_gets_a_store_that_is_read_and_copied_back(s3, bucket, root, tmp_path):
    rocketstore.copy(root, bucket())
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != "lock"}
    assert names_in(s3, bucket()) == {*files, "rocketstore-copy.json"}
    assert rocketstore.diff(root, bucket()).same
    rocketstore.copy(bucket(), tmp_path / "back")
    assert rocketstore.diff(root, tmp_path / "back").same
    assert rocketstore.verify(tmp_path / "back").ok


def test_a_second_copy_writes_only_what_changed(s3, bucket, root):
    rocketstore.copy(root, bucket())
    assert written(rocketstore.copy(root, bucket())) == {}
    fill(root, COUNT, 1)
    with rocketstore.open(root, "r+") as store:
        store.delete_expired_files(before_phy_offset=2 * CONFIG.mapped_file_size_commit_log)
    report = rocketstore.copy(root, bucket())
    assert (written(report)["commitlog"], written(report)["consumequeue"]) == (1, 1)
    assert f"commitlog/{0:020}" not in names_in(s3, bucket())  # the store has deleted it
    assert rocketstore.diff(root, bucket()).same


def test_a_copy_that_was_ended_in_the_middle_says_so_and_is_completed(s3, bucket, root, tmp_path, monkeypatch):
    rocketstore.copy(root, bucket())
    fill(root, COUNT, 100)
    left, open_file = iter(range(3)), s3.open

    def fails(*args, **options):
        if next(left, None) is None:
            raise ConnectionError("the network is gone")
        return open_file(*args, **options)

    monkeypatch.setattr(s3, "open", fails)
    with pytest.raises(OSError, match="the network is gone"):
        rocketstore.copy(root, bucket())
    monkeypatch.undo()
    with pytest.raises(StoreError, match="is an unfinished copy: repeat the call"):
        rocketstore.copy(bucket(), tmp_path / "back")
    with rocketstore.open(bucket()) as store:
        assert any("is an unfinished copy" in text for text in store.summary().problems)
    rocketstore.copy(root, bucket())
    assert rocketstore.diff(root, bucket()).same
