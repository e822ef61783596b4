"""Remote file systems for tests: one that counts and fails, a server of S3; and all that readers say of a store."""

import contextlib
import errno
import os
import random
import urllib.request
import warnings

import numpy as np
import pytest
from support.logs import rows_of
from support.puts import fields_of, message_of, open_store

from rocketstore import CorruptFileError, IndexService, RemotePath, StoreError

pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

from fsspec.implementations.local import LocalFileSystem

T0 = 1_700_000_000_000
BUCKET = "store-bucket"
BLOCK, SPAN, HEAD, MOST = 4096, 1024, 64, 512  # small enough that records and reads are cut everywhere


class CountedFileSystem(LocalFileSystem):
    """Local files as if they were far away: reads and lists are counted, and may fail.

    Attributes: reads: (name, begin, end) of each; lists: the directories that were listed; fails: called with each.
    """

    protocol = "counted"
    cachable = False

    def __init__(self, **options):
        super().__init__(**options)
        self.reads, self.lists = [], []
        self.fails = lambda name, begin, end: None

    def cat_file(self, path, start=None, end=None, **options):
        name = os.path.basename(path)  # noqa: PTH119
        self.reads.append((name, start, end))
        self.fails(name, start, end)
        return super().cat_file(path, start, end, **options)

    def ls(self, path, detail=False, **options):
        self.lists.append(path)
        return super().ls(path, detail, **options)

    @property
    def bytes_read(self):
        return sum(end - begin for _, begin, end in self.reads)


class TimelessFileSystem(CountedFileSystem):
    """Lists files as HTTP and FTP do."""

    protocol = "timeless"

    def ls(self, path, detail=False, **options):
        found = super().ls(path, detail, **options)
        return [{name: entry[name] for name in ("name", "size", "type")} for entry in found] if detail else found


def counted(root):
    """The path of a store on a CountedFileSystem of its own."""
    return RemotePath(CountedFileSystem(), str(root))


def small_blocks(monkeypatch):
    monkeypatch.setattr("rocketstore.disk.remote.blocks.BLOCK", BLOCK)
    for name, value in {"BLOCK": BLOCK, "HEAD": HEAD, "MOST": MOST}.items():
        monkeypatch.setattr(f"rocketstore.disk.remote.remote_file_run.{name}", value)
    monkeypatch.setattr("rocketstore.log.record_reader.SPAN", SPAN)


def made_store(root, n=60):
    """A store that rocketstore wrote: bodies of all lengths, a whole index file and one that is not full."""
    with open_store(root, mapped_file_size_commit_log=16384) as store:
        for i in range(n):
            properties = {"KEYS": f"key-{i} all", "TAGS": f"Tag{'AB'[i % 2]}", "UNIQ_KEY": f"ID{i:05}"}
            fields = fields_of(f"T{i % 3}", bytes(i * 40), queue_id=i % 2, properties=properties)
            store.put_message(message_of(fields), store_timestamp=T0 + 1000 * i)
    return root


def upload(fs, root, to):
    """Copy a store to where there are no directories: only files."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            fs.pipe_file(f"{to}/{path.relative_to(root)}", path.read_bytes())


@contextlib.contextmanager
def s3_server():
    """Run a server of S3 that has nothing yet; gives its URL."""
    server = pytest.importorskip("moto.server", reason="needs moto[server], from the test group")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        running.start()
    try:
        url = "http://{}:{}".format(*running.get_host_and_port())
        urllib.request.urlopen(f"{url}/moto-api/reset", b"").close()  # all servers of a process have one memory
        yield url
    finally:
        running.stop()
        running._server.server_close()


@contextlib.contextmanager
def s3_file_system():
    """A file system of s3fs on a server of this process, with an empty bucket."""
    s3fs = pytest.importorskip("s3fs", reason="needs s3fs, from the test group")
    with s3_server() as url:
        fs = s3fs.S3FileSystem(key="key", secret="secret", endpoint_url=url, client_kwargs={"region_name": "eu-west-1"})
        fs.mkdir(BUCKET)
        yield fs
        s3fs.S3FileSystem.close_session(fs.loop, fs.s3)
        s3fs.S3FileSystem.clear_instance_cache()


# ---- what readers say --------------------------------------------------------------------------------------


def answers(store, seed=0, *, keys=()):
    """All that the readers say of a store, with nothing in it that names the place."""
    log = store.commit_log
    whole = scanned(log.scan(on_corrupt="skip", verify_crc=True))
    offsets = [row["phy_offset"] for row in whole[0]]
    rng = random.Random(seed)
    shuffled = rng.sample(offsets, len(offsets))
    end = log.max_phy_offset
    bounds = sorted(rng.randrange(end + 2) for _ in range(2))

    def message(at):
        return said(lambda: log.get_message(at).to_dict())

    return {
        "scan": whole,
        "scan by two": scanned(log.scan(on_corrupt="skip", threads=2, columns=["phy_offset", "topic", "body"])),
        "scan raising": said(lambda: scanned(log.scan(batch_size=7))),
        "scan of a part": scanned(log.scan(*bounds, on_corrupt="skip", columns=["phy_offset"], batch_size=3)),
        "range": (log.min_phy_offset, end, log.last_phy_offset, log.mapped_file_size),
        "one by one": [message(at) for at in shuffled[:50]],
        "none": [message(at) for at in [-1, end, end + 1, 1 << 62, *bounds]],
        "together": said(lambda: rows_of([log.get_messages(shuffled)])),
        "with wrong ones": said(lambda: log.find_messages(np.array([*bounds, *shuffled[:9], end]))[1].tolist()),
        "followed": said(lambda: [tuple(request) for request in store.follow(poll=None)]),
        "by time": [said(lambda at=at: store.get_phy_offset_by_time(offset_time(whole[0], at))) for at in (0, 0.5, 1)],
        "queues": {queue: queue_answers(store, *queue) for queue in store.queues()},
        "index": said(lambda: index_answers(store, whole[0], keys)),
        "checkpoint": said(lambda: store.checkpoint._numbers()),
        "config": [value for name, value in vars(store.broker_config).items() if name != "problems"],
        "problems": [(problem.path.name, problem.what) for problem in store.broker_config.problems],
        "lag": list(store.consumer_lag()),
        "state": (store.last_exit_ok, sorted(store.topic_configs)),
        "summary": summary_of(store),
    }


def summary_of(store):
    return {name: value for name, value in store.summary()._asdict().items() if name not in ("problems", "is_locked")}


def scanned(scan):
    rows = rows_of(scan)
    errors = [(part, part.error) for part in scan.skipped]
    return rows, [(part.begin, part.end, error.offset, error.field, error.reason) for part, error in errors]


def said(call):
    """What a call gives, or its error without the place."""
    try:
        return call()
    except CorruptFileError as error:
        return "CorruptFileError", error.offset, error.field, error.reason
    except (StoreError, IndexError, KeyError, ValueError, OSError) as error:
        return type(error).__name__


def offset_time(rows, part):
    times = sorted(row["store_timestamp"] for row in rows) or [0]
    return times[int(part * (len(times) - 1))]


def queue_answers(store, topic, queue_id):
    queue = store.consume_queue(topic, queue_id)
    first = said(lambda: max(queue.min_queue_offset, 0))
    middle = said(lambda: (queue.min_queue_offset + queue.max_queue_offset) // 2)
    time = said(lambda: store.get_message(topic, queue_id, middle, 1).messages[0].store_timestamp)
    time = time if isinstance(time, int) else 0
    read = [said(lambda at=at: message_answers(store, topic, queue_id, at)) for at in (first, middle, 1 << 40)]
    return [
        said(lambda: queue.min_queue_offset),
        said(lambda: queue.max_queue_offset),
        said(lambda: list(queue[:])),
        said(lambda: queue[-1]),
        [said(lambda b=b: queue.get_offset_by_time(time, b)) for b in ("lower", "upper")],
        read,
    ]


def message_answers(store, topic, queue_id, queue_offset):
    found = store.get_message(topic, queue_id, queue_offset, 40, tag="TagA || TagB || tag-1")
    plain = store.get_message(topic, queue_id, queue_offset, 7, limits="broker")
    return [(*each[:4], [message.to_dict() for message in each.messages]) for each in (found, plain)]


def index_answers(store, rows, keys):
    """Headers, and the messages of all keys there are, and of others."""
    index = store.index
    if not isinstance(index, IndexService):
        return index
    pairs = sorted({(row["topic"], key) for row in rows for key in [*row["keys"], row["uniq_key"]] if key})
    topics = sorted({topic for topic, _ in pairs})
    found = {}
    for topic in topics:
        asked = [*[key for name, key in pairs if name == topic][:300], *keys, "no such key"]
        result = store.query_messages(topic, asked)
        found[topic] = result.phy_offsets.tolist(), result.offsets.tolist(), result.complete.tolist(), result.reasons
        found[topic, "messages"] = rows_of([result.messages])
        found[topic, "unverified"] = [index.query_offset(topic, key) for key in asked[:50]]
    tags = sorted({(row["topic"], row["tags"]) for row in rows if row["tags"]})[:10]
    for topic, tag in tags:
        found["tag", topic, tag] = [message.phy_offset for message in store.query_message_by_tag(topic, tag).messages]
    return [file.header for file in index.files], [len(file) for file in index.files], found


def failing(number=errno.EIO):
    def fail(name, begin, end):
        raise OSError(number, os.strerror(number))

    return fail
