"""Stores to rebuild: logs of every kind of record, and what a broker makes of each, by the reference."""

import dataclasses
import datetime
import json
import shutil
from pathlib import Path

from reference.commit_log import CommitLog, build_record, make_commit_log, read_files
from reference.index_file import IndexFile
from reference.record import COMMIT, INNER_BATCH, PREPARED, ROLLBACK, SCHEDULE_TOPIC
from reference.recovery import Broker
from support.profiles import SEVERAL_FILES
from support.puts import files_under, model_of

from rocketstore import StoreConfig, rebuild
from rocketstore.config import camel_case
from rocketstore.recovery.plan import plan_recovery
from rocketstore.recovery.store_files import open_store_files
from rocketstore.survey.survey import survey_store

QUEUE_PARTS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
CONFIG = StoreConfig(**SEVERAL_FILES)
FILE = SEVERAL_FILES["mapped_file_size_commit_log"]
START = 1_700_000_000_000
KINDS = {}


def kind(function):
    """A function of a random.Random to records, as make_commit_log takes them."""
    KINDS[function.__name__] = function
    return function


def fields(rng, i, **more):
    """A record as an ordinary message leaves it."""
    given = {
        "topic": rng.choice(("TopicTest", "Orders")),
        "queue_id": rng.randrange(2),
        "body": rng.randbytes(rng.randrange(200)),
        "store_timestamp": START + 700 * i,
        "properties": {
            "KEYS": " ".join(f"k{rng.randrange(30)}" for _ in range(rng.randint(1, 3))),
            "TAGS": rng.choice(("A", "B||C", "标签")),
            "UNIQ_KEY": f"{i:032X}",
        },
    }
    return given | more


@kind
def plain(rng):
    return [fields(rng, i) for i in range(90)]


@kind
def transactions(rng):
    return [fields(rng, i, sys_flag=rng.choice((0, PREPARED, COMMIT, ROLLBACK))) for i in range(60)]


@kind
def delayed(rng):
    levels = ("1", "5", "18", "99", "0", "-3", "+2", "٣")
    return [
        fields(rng, i, topic=SCHEDULE_TOPIC, properties={"DELAY": rng.choice(levels), "TAGS": "A", "KEYS": "k"})
        for i in range(40)
    ]


@kind
def hosts_and_topics(rng):
    """IPv6 in either place, and topics that only the second format holds."""
    hosts = ("127.0.0.1:1", "[fe80::abcd]:65535")
    topics = ("T", "a" * 127, "b" * 200, "é" * 60)
    return [
        fields(rng, i, topic=rng.choice(topics), born_host=rng.choice(hosts), store_host=rng.choice(hosts))
        for i in range(50)
    ]


@kind
def late_queues(rng):
    """As after the first files of the log expired: queues that begin at any offset."""
    first = {(topic, i): rng.choice((1, 9, 10, 11, 33, 1000)) for topic in ("TopicTest", "Orders") for i in range(2)}
    made = []
    for i in range(60):
        row = fields(rng, i)
        queue = row["topic"], row["queue_id"]
        made.append(row | {"queue_offset": first[queue]})
        first[queue] += 1
    return made


@kind
def wild_queue_offsets(rng):
    """Gaps, offsets that are taken, and again and again where a file of units is just full."""
    made, last = [], 0
    for i in range(70):
        last = rng.choice((last + 1, last + 1, last + 1, last + 5, max(last - 1, 0), 3, 0))
        made.append(fields(rng, i, topic="T", queue_id=0, body=b"", queue_offset=last))
    return made


@kind
def trailing_empty_queue_file(rng):
    rows = [fields(rng, i, topic="T", queue_id=0, body=b"x", queue_offset=i) for i in range(10)]
    return [*rows, *(fields(rng, i, topic="T", queue_id=0, queue_offset=5) for i in (10, 11))]


@kind
def no_keys(rng):
    return [fields(rng, i, properties={"a": "b"} if i % 2 else {}) for i in range(50)]


@kind
def rolled_back_only(rng):
    return [fields(rng, i, sys_flag=ROLLBACK) for i in range(10)]


@kind
def many_keys(rng):
    """Files of the index begin inside a message's keys."""
    return [fields(rng, i, body=b"", properties={"KEYS": " ".join(f"{i}-{n}" for n in range(14))}) for i in range(12)]


@kind
def keys_that_fill_a_file(rng):
    """The last file of the index has no item: it is made for a message without keys."""
    rows = [fields(rng, i, body=b"", properties={"KEYS": "a b c"}) for i in range(13)]
    return [*rows, fields(rng, 13, properties={})]


@kind
def times_that_fall(rng):
    """And lie where there is no date."""
    times = (START, START - 10**9, 0, -1, 1, 2**63 - 1, -(2**63), 253_402_300_800_000)
    return [fields(rng, i, store_timestamp=rng.choice(times)) for i in range(60)]


@kind
def inner_batches(rng):
    made, base = [], 0
    for i in range(50):
        number = rng.choice((1, 2, 7))
        properties = {"INNER_BASE": str(base), "INNER_NUM": str(number), "KEYS": "k", "TAGS": "A"}
        flags = {"sys_flag": INNER_BATCH, "properties": properties} if number > 1 else {}
        made.append(fields(rng, i, topic="Batched", queue_id=0, queue_offset=base, **flags))
        base += number
        made.append(fields(rng, i))
    return made


@kind
def light_queues(rng):
    """And queues that have messages of their own between those of others."""
    made, ends = [], {}

    def next_offset(name, queue_id):
        queue = name, 0 if name.startswith("%LMQ%") else queue_id
        ends[queue] = ends.get(queue, rng.choice((-1, 11))) + 1
        return ends[queue]

    for i in range(60):
        row = fields(rng, i, topic=rng.choice(("TopicTest", "%RETRY%g", "other")))
        if row["topic"] == "other":
            row["queue_offset"] = next_offset("other", row["queue_id"])
        names = rng.sample(("%LMQ%a", "%LMQ%b", "with/slash", "other")[: 3 + (row["topic"] == "TopicTest")], 2)
        if rng.random() < 0.7:
            is_retry = row["topic"] == "%RETRY%g"  # which goes nowhere else
            offsets = [7 if is_retry else next_offset(name, row["queue_id"]) for name in names]
            row["properties"]["INNER_MULTI_DISPATCH"] = ",".join(names)
            row["properties"]["INNER_MULTI_QUEUE_OFFSET"] = ",".join(map(str, offsets))
        made.append(row)
    return made


@kind
def light_queues_of_batches(rng):
    """Of messages in batch queues as well, which take offsets there and have no units."""
    made, base, ends = [], 0, dict.fromkeys(("%LMQ%a", "%LMQ%b"), 0)
    for i in range(60):
        row, number = fields(rng, i), 1
        if rng.random() < 0.5:
            number = rng.choice((1, 2, 7))
            row |= {"topic": "Batched", "queue_id": 0, "queue_offset": base}
        if number > 1:
            row["sys_flag"] = INNER_BATCH
            row["properties"] |= {"INNER_BASE": str(base), "INNER_NUM": str(number)}
        base += number if row["topic"] == "Batched" else 0
        names = rng.sample(sorted(ends), rng.randrange(3))
        if names:
            row["properties"]["INNER_MULTI_DISPATCH"] = ",".join(names)
            row["properties"]["INNER_MULTI_QUEUE_OFFSET"] = ",".join(str(ends[name]) for name in names)
        ends |= {name: ends[name] + 1 for name in names}
        made.append(row)
    return made


# Of records that no broker leaves: a start, which cuts nothing else, may do something about these.
WILD = ("wild_queue_offsets", "trailing_empty_queue_file")
HEAD = 88  # bytes of a record before its body


def records_in_bodies(rng):
    """Whole ones, with the physical offsets of their places, so that only the record around tells what they are."""
    rows, at = [], 0
    for i in range(40):
        row = fields(rng, i, body=b"")
        inner = [build_record("Inner", b"x" * 30, properties={"KEYS": "inner"}) for _ in range(rng.randrange(4))]
        size = len(build_record(**row)) + sum(map(len, inner))
        if at % FILE + size + 8 > FILE:
            at += FILE - at % FILE
        for one in inner:
            place = at + HEAD + len(row["body"])
            row["body"] += one[:28] + place.to_bytes(8, "big") + one[36:]
        rows.append(row)
        at += size
    return rows


LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}
BATCHES = ("Batched",)


def options_of(name):
    """What a kind of record needs to be set."""
    return LIGHT if name.startswith("light_queues") else {}


def batches_of(name):
    """Topics of a kind of record whose queues are of batches."""
    return BATCHES if name.endswith("batches") else ()


def make_log(root, records, *, first_offset=0):
    """A store of a commit log alone, as a clean stop leaves it."""
    make_commit_log(root / "commitlog", FILE, records, first_offset=first_offset)
    return root


def rebuilt_beside(root, config=CONFIG, **options):
    """Return the directory in which rebuild has made the requested parts."""
    out = root.with_name(f"{root.name}-serial")
    shutil.rmtree(out, ignore_errors=True)
    rebuild(root, out=out, config=config, **options)
    return out


def of_batches(root, topics):
    """What a broker has in topics.json: these, by their queue types."""
    table = {name: {"topicName": name, "attributes": {"queue.type": queue_type}} for name, queue_type in topics.items()}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def dispatched(root, config=CONFIG, batch_topics=()):
    """The reference of a store whose queues and index a broker builds of the log that is there.

    Records of earlier lives of a topic have no unit.
    """
    model = model_of(config, batch_topics=batch_topics)
    records = [record for _, record in CommitLog(read_files(Path(root) / "commitlog")).records]
    model.left_out = of_earlier_lives(model, records)
    for record in records:
        model.dispatch(record)
    return model


def of_earlier_lives(model, records):
    """Topic, queue id and physical offset of records whose queue offset is not below that of a later record.

    A later record that alone does not fit does not count, and neither does the one behind it.
    """
    found, queues = set(), {}
    for record in records:
        for queue, offset in model.queue_offsets(record):
            if offset >= 0 and record.phy_offset not in [row[0] for row in queues.get(queue, ())[-1:]]:
                count = record.batch_size if queue == (record.topic, record.queue_id) else 1
                queues.setdefault(queue, []).append((record.phy_offset, offset, count))
    for queue, rows in queues.items():
        lowest = None
        for i in range(len(rows) - 1, -1, -1):
            place, offset, count = rows[i]
            if lowest is not None and offset >= lowest:
                found.add((*queue, place))
            before = [row[1] for row in rows[max(i - 2, 0) : i]]
            begins = bool(before) and offset <= before[-1] and not (len(before) == 2 and before[0] < offset < before[1])
            if begins and i + 1 < len(rows):
                begins = rows[i + 1][1] <= before[-1] or rows[i + 1][1] in (offset + 1, offset + count)
            elif begins:
                begins = offset == 0 or offset >= before[0]
            if begins:
                lowest = offset if lowest is None else min(lowest, offset)
    return found


def queue_files(model):
    return {path: data for path, data in model.data_files().items() if not path.startswith("commitlog")}


def index_names(model, zone=datetime.UTC):
    """The store time of each file's first item, kept increasing; of one without, where the one before it ended."""
    names = []
    for file in model.index.files:
        time = max(file.begin_timestamp or file.end_timestamp, 0)
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            milliseconds=min(time, 253_370_764_799_000 + time % 1000)
        )
        name = moment.astimezone(zone).strftime("%Y%m%d%H%M%S%f")[:17]
        if names and name <= names[-1]:
            last = datetime.datetime.strptime(names[-1] + "000", "%Y%m%d%H%M%S%f")
            name = (last + datetime.timedelta(milliseconds=1)).strftime("%Y%m%d%H%M%S%f")[:17]
        names.append(name)
    return names


def assert_rebuilt(root, model, *, names=None, consume_queue=True, index=True):
    """The queues, file for file, and the index are what the reference has."""
    if consume_queue:
        found, expected = files_under(root, *QUEUE_PARTS), queue_files(model)
        assert sorted(found) == sorted(expected)
        for path, data in expected.items():
            assert found[path] == data, path
    if index:
        paths = sorted((Path(root) / "index").iterdir())
        assert [path.read_bytes() for path in paths] == model.index_files()
        if names is not None:
            assert [path.name for path in paths] == names


def assert_survives(root, config=CONFIG, batch_topics=()):
    """Recovery finds nothing to do, and a broker's next start, also after a crash, keeps it all."""
    assert not (root / "abort").exists()
    assert not (root / "rocketstore-rebuild").exists()
    # What has no unit at the end, as a transaction that is not committed, is dispatched again.
    store = open_store_files(survey_store(root), config)
    assert all(step.what == "dispatch" for step in plan_recovery(store, thorough=False).steps)
    for was_killed in (False, True):
        copy = shutil.copytree(root, root.with_name(f"{root.name}-started-{was_killed}"))
        if was_killed:
            (copy / "abort").touch()
        broker = Broker(copy, broker_config(config), config.compat, batch_topics)
        assert broker.restart()
        # Dispatch after a crash makes new ext units, which the report does not count.
        parts = QUEUE_PARTS[:2] if was_killed else QUEUE_PARTS
        assert files_under(copy, *parts) == files_under(root, *parts)
        assert {path.name for path in (copy / "index").iterdir()} >= {path.name for path in (root / "index").iterdir()}
        items, more = index_items(root), index_items(copy)
        # After a crash, or if it has no unit, a broker puts the keys of the last message again.
        assert more[: len(items)] == items
        assert {offset for _, offset in more[len(items) :]} <= {offset for _, offset in items[-1:]}
        shutil.rmtree(copy)


def broker_config(config):
    names = {camel_case(field.name): getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: value for name, value in names.items() if value is not None}


def index_items(root):
    """(key hash, physical offset) of all items, in their order."""
    sizes = SEVERAL_FILES["max_hash_slot_num"], SEVERAL_FILES["max_index_num"]
    files = [IndexFile(*sizes, data=path.read_bytes()) for path in sorted((Path(root) / "index").iterdir())]
    return [file.item(ordinal)[:2] for file in files for ordinal in range(1, file.index_count)]
