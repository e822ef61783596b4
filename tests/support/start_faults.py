"""Faults in the small files that a broker opens when it starts, and in their places.

A row of FAULTS is a function that changes a store, and the kind of the finding that names it; None if verify has
nothing to say. interop/test_broker_start.py holds each row against a whole broker. OPTIONS are properties of a broker
that a row needs, by the beginning of its name; every broker has the defaults else.
"""

import os
import shutil

OPTIONS = {"light queues": {"enable_lmq": True}, "ext": {"enable_consume_queue_ext": True}}
QUEUE = "TopicTest/1"
WHEEL_SIZE = 38_707_200  # bytes
COMPACTED_LOG, COMPACTED_UNITS = "compaction/compactionLog/T/0", "compaction/compactionCq/T/0"
COMPACTED_UNITS_SIZE = 10_485_746  # bytes: compactionCqMappedFileSize, in units of 46 bytes
COMPACTED_LOG_SIZE = 10 * COMPACTED_UNITS_SIZE  # compactionMappedFileSize, in files of units
LOOP = object()


def place(root, name, data):
    """Put bytes, a directory (None) or a link to itself in the place of whatever is there."""
    path = root / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        path.mkdir()
    elif data is LOOP:
        path.symlink_to(path)
    else:
        path.write_bytes(data)


def put(**files):
    """Return a fault that puts things in places, given as (name, data)."""

    def plant(root):
        for name, data in files["places"]:
            place(root, name, data)

    return plant


def one(name, data):
    return put(places=[(name, data)])


def config_pair(name, data, bak):
    return put(places=[(f"config/{name}", data), (f"config/{name}.bak", bak)])


def dangling(name):
    return lambda root: ((root / name).unlink(missing_ok=True), (root / name).symlink_to("/nowhere/file"))


def zeros(name, size, *, beside=None):
    """Return a fault that makes a file of zeros, and an empty directory ``beside`` it."""

    def plant(root):
        if beside:
            (root / beside).mkdir(parents=True)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
        os.truncate(root / name, size)

    return plant


def wheel(size):
    return zeros("timerwheel", size)


FIRST = f"{0:020}"
SECOND = f"{100 << 20:020}"
FAULTS = {"nothing": (lambda root: None, None)}
# ---- files where directories should be, and the other way round
for name in ("commitlog", "consumequeue", "index"):
    FAULTS[f"a file named {name}"] = one(name, b"x"), "directory-unreadable"
for name in ("batchconsumequeue", "consumequeue_ext"):
    FAULTS[f"a file named {name}"] = one(name, b"x"), "directory-unreadable"
for name in ("TopicTest", QUEUE):
    FAULTS[f"a file named consumequeue/{name}"] = one(f"consumequeue/{name}", b"x"), "queue-no-directory"
for name in ("timerlog", "rocksdbstore", "compaction", "kvStore", "transaction"):
    FAULTS[f"a file named {name}"] = one(name, b"x"), None
for name, kind in {
    "lock": "lock-no-file",
    "checkpoint": "checkpoint-damaged",
    "abort": "abort-no-file",
    "abort.bak": "abort-no-file",
    "timerwheel": "timer-damaged",
    "config/timercheck": "timer-damaged",
}.items():
    FAULTS[f"a directory named {name}"] = one(name, None), kind
    if name != "abort.bak":  # which is not written unless abort is there: and then it is made by the start itself
        FAULTS[f"a link to itself named {name}"] = one(name, LOOP), kind
FAULTS["a directory named as an index file"] = one("index/20231114221320000", None), "foreign-file-fatal"
FAULTS["a directory of letters in the index"] = one("index/abc", None), "foreign-file"
FAULTS["an abort that leads nowhere"] = dangling("abort"), "abort-no-file"
FAULTS["a lock that leads nowhere"] = dangling("lock"), "lock-no-file"
# ---- timers
FAULTS["a timer wheel as long as RocketMQ makes it"] = wheel(WHEEL_SIZE), None
FAULTS["an empty timer wheel"] = wheel(0), None
FAULTS["a shorter timer wheel"] = wheel(WHEEL_SIZE - 1), "timer-damaged"
FAULTS["a longer timer wheel"] = wheel(WHEEL_SIZE + 1), "timer-damaged"
FAULTS["a shorter timer checkpoint"] = one("config/timercheck", b"xxx"), None
FAULTS["noise in the timer checkpoint"] = one("config/timercheck", b"\x7f" * 4096), None
FAULTS["a stray file in the timer log"] = one("timerlog/notes.txt", b"x"), "timer-damaged"
FAULTS["an empty stray file in the timer log"] = one("timerlog/notes.txt", b""), None
FAULTS["a directory in the timer log"] = one("timerlog/more", None), None
FAULTS["a short timer log"] = one(f"timerlog/{FIRST}", b"x" * 100), "timer-damaged"
FAULTS["an empty last file of the timer log"] = one(f"timerlog/{FIRST}", b""), None
FAULTS["an empty first file of the timer log"] = (
    put(places=[(f"timerlog/{FIRST}", b""), (f"timerlog/{SECOND}", b"x" * 52)]),
    "timer-damaged",
)
# ---- compaction
FAULTS["compacted queue of letters"] = one("compaction/compactionLog/T/abc", None), "compaction-queue-name"
FAULTS["compacted queue beyond an int"] = one("compaction/compactionLog/T/3000000000", None), "compaction-queue-name"
FAULTS["a file beside compacted queues"] = one("compaction/compactionLog/T/abc", b"x"), None
FAULTS["a file beside compacted topics"] = one("compaction/compactionLog/T", b"x"), None
FAULTS["a stray file in a compacted log"] = (
    put(places=[("compaction/compactionLog/T/0/notes", b"x"), ("compaction/compactionCq/T/0", None)]),
    None,
)
FAULTS["a short file of a compacted log without units"] = (
    put(places=[(f"{COMPACTED_LOG}/{FIRST}", b"x"), (COMPACTED_UNITS, None)]),
    "compaction-file-size",
)
FAULTS["a file of a compacted log without units"] = (
    zeros(f"{COMPACTED_LOG}/{FIRST}", COMPACTED_LOG_SIZE, beside=COMPACTED_UNITS),
    "compaction-file-missing",
)
FAULTS["a file of compacted units without log"] = (
    zeros(f"{COMPACTED_UNITS}/{FIRST}", COMPACTED_UNITS_SIZE, beside=COMPACTED_LOG),
    "compaction-file-missing",
)
FAULTS["a short file of compacted units without log"] = (
    put(places=[(f"{COMPACTED_UNITS}/{FIRST}", b"x"), (COMPACTED_LOG, None)]),
    "compaction-file-size",
)
FAULTS["a file of a compacted log, and no directory of units"] = (
    zeros(f"{COMPACTED_LOG}/{FIRST}", COMPACTED_LOG_SIZE),
    "compaction-queue-missing",
)
FAULTS["a damaged position of compaction"] = one("compaction/position-checkpoint", b"{{{"), None
# ---- ext files
FAULTS["ext: a stray file"] = one("consumequeue_ext/TopicTest/0/notes", b"x"), "ext-foreign-file-fatal"
FAULTS["ext: an empty stray file"] = one("consumequeue_ext/TopicTest/0/notes", b""), "ext-foreign-file-empty"
FAULTS["ext: a directory"] = one("consumequeue_ext/TopicTest/0/more", None), "foreign-file"
FAULTS["ext: an empty file"] = one(f"consumequeue_ext/TopicTest/0/{256 * 99:020}", b""), "ext-file-empty"
FAULTS["ext: a short file"] = one(f"consumequeue_ext/TopicTest/0/{FIRST}", b"x"), "ext-file-size"
FAULTS["off, ext: a stray file"] = one("consumequeue_ext/TopicTest/0/notes", b"x"), None
FAULTS["off, ext: a short file"] = one(f"consumequeue_ext/TopicTest/0/{FIRST}", b"x"), None
# ---- config
MUST_LOAD = (
    "topics",
    "subscriptionGroup",
    "consumerOffset",
    "consumerFilter",
    "consumerOrderInfo",
    "topicQueueMapping",
    "delayOffset",
)
for name in (*(f"{name}.json" for name in MUST_LOAD), "timermetrics"):
    kind = "timer-damaged" if name == "timermetrics" else "config-bak-damaged"
    FAULTS[f"damaged {name} and .bak"] = config_pair(name, b"{{{", b"{{{"), kind
    FAULTS[f"damaged {name} and a .bak that is a directory"] = config_pair(name, b"{{{", None), kind
    FAULTS[f"damaged {name} and an empty .bak"] = config_pair(name, b"{{{", b""), "config-damaged"
    FAULTS[f"damaged .bak and no {name}"] = one(f"config/{name}.bak", b"{{{"), kind
FAULTS["damaged .bak and no topics.json"] = (
    lambda root: ((root / "config/topics.json").unlink(), place(root, "config/topics.json.bak", b"{{{")),
    "config-bak-damaged",
)
for name in ("messageRequestMode.json", "transactionMetrics"):
    FAULTS[f"damaged {name} and .bak"] = config_pair(name, b"{{{", b"{{{"), "config-damaged"
FAULTS["light queues: damaged offsets"] = config_pair("lmqConsumerOffset.json", b"{{{", b"{{{"), "config-bak-damaged"
FAULTS["light queues: damaged other offsets"] = config_pair("consumerOffset.json", b"{{{", b"{{{"), "config-not-read"
FAULTS["a file named config"] = one("config", b"x"), "config-damaged"
# ---- values in files of config, twice there
VALUES = {
    "consumerFilter.json": {
        '{"filterDataByTopic":%s}': (
            ("null", True),
            ("5", False),
            ("[1]", False),
            ('{"a":null}', False),
            ('{"a":5}', False),
            ('{"a":{}}', True),
            ('{"a":{"groupFilterData":null}}', False),
            ('{"a":{"groupFilterData":{"g":null}}}', False),
            ('{"a":{"groupFilterData":{"g":{}}}}', True),
            ('{"a":{"groupFilterData":{"g":{"expression":5}}}}', True),
            ('{"a":{"groupFilterData":{"g":{"bornTime":"x"}}}}', False),
            ('{"a":{"groupFilterData":{"g":{"bloomFilterData":5}}}}', False),
        ),
        '{"dataVersion":%s}': (("5", True),),
    },
    "consumerOrderInfo.json": {
        '{"table":%s}': (
            ("null", False),
            ("5", False),
            ('{"a":null}', False),
            ('{"a":{}}', True),
            ('{"a":{"0":null}}', False),
            ('{"a":{"0":5}}', False),
            ('{"a":{"0":{}}}', True),
            ('{"a":{"0":{"o":["x"]}}}', False),
            ('{"a":{"0":{"l":"x"}}}', False),
            ('{"a":{"x":{}}}', False),
            ('{"a":{"0":{"o":[1],"oc":5}}}', False),
            ('{"a@b":{"0":{"o":[1],"l":1}}}', True),
        ),
    },
    "topicQueueMapping.json": {
        '{"topicQueueMappingInfoMap":%s}': (
            ("null", False),
            ("5", False),
            ('{"a":null}', False),
            ('{"a":5}', False),
            ('{"a":{}}', True),
            ('{"a":{"hostedQueues":null}}', True),
            ('{"a":{"hostedQueues":5}}', False),
            ('{"a":{"hostedQueues":{"x":[]}}}', False),
            ('{"a":{"currIdMap":5}}', False),
            ('{"a":{"totalQueues":"x"}}', False),
            ('{"a":{"dirty":"x"}}', False),
            ('{"a":{"topic":5}}', True),
        ),
        '{"dataVersion":%s}': (("null", False), ("5", False), ('{"counter":"x"}', False)),
    },
    "timermetrics": {
        '{"timingCount":%s}': (
            ("null", False),
            ("5", False),
            ('{"a":null}', False),
            ('{"a":5}', False),
            ('{"a":{}}', True),
            ('{"a":{"count":null}}', True),
            ('{"a":{"count":"x"}}', False),
            ('{"a":{"timeStamp":"x"}}', False),
        ),
        '{"dataVersion":%s}': (("null", False), ("5", False)),
    },
}
for name, templates in VALUES.items():
    for template, rows in templates.items():
        for value, is_read in rows:
            data = (template % value).encode()
            kind = "timer-damaged" if name == "timermetrics" else "config-bak-damaged"
            FAULTS[f"{name}: {data.decode()}"] = config_pair(name, data, data), None if is_read else kind


def options_of(name):
    """Return fields of StoreConfig for the broker of a row."""
    return next((options for start, options in OPTIONS.items() if name.startswith(start)), {})


def base_of(name):
    return "ext" if "ext: " in name else "plain"
