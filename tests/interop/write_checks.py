"""The same messages put by RocketMQ and by rocketstore, and the files of both compared byte for byte."""

import base64
import contextlib
from typing import NamedTuple

import pytest
from reference.record import parse_record
from support.broker_tables import extend_topics
from support.releases import numbers_of

import rocketstore
from interop.checks import first_difference
from rocketstore import Message, PutMessageError, StoreCheckpoint, StoreConfig
from rocketstore.messages.message_id import make_msg_id

# Names in MessageStoreConfig, and ours.
CONFIG = {
    "mappedFileSizeCommitLog": "mapped_file_size_commit_log",
    "mappedFileSizeConsumeQueue": "mapped_file_size_consume_queue",
    "mapperFileSizeBatchConsumeQueue": "mapper_file_size_batch_consume_queue",
    "mappedFileSizeConsumeQueueExt": "mapped_file_size_consume_queue_ext",
    "maxHashSlotNum": "max_hash_slot_num",
    "maxIndexNum": "max_index_num",
    "maxMessageSize": "max_message_size",
    "enableConsumeQueueExt": "enable_consume_queue_ext",
    "enableLmq": "enable_lmq",
    "enableMultiDispatch": "enable_multi_dispatch",
    "enabledAppendPropCRC": "enabled_append_prop_crc",
    "forceVerifyPropCRC": "force_verify_prop_crc",
    "flushDiskType": "flush_disk_type",
}
QUEUES = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
UNIT_SIZES = {"consumequeue": 20, "batchconsumequeue": 46}
# What a store sets itself when a message is put: given here with another value, for its place among the others.
SET_BY_STORE = ("INNER_BASE", "INNER_MULTI_QUEUE_OFFSET")
BLANK = 0xCBD43194
RECORD_FIELDS = (
    (4, "size"),
    (8, "magic"),
    (12, "bodyCrc"),
    (16, "queueId"),
    (20, "flag"),
    (28, "queueOffset"),
    (36, "phyOffset"),
    (40, "sysFlag"),
    (48, "bornTimestamp"),
    (56, "bornHost"),
)


class Put(NamedTuple):
    """What a put was answered, in Java's words."""

    status: str
    offset: int | None = None
    size: int | None = None
    queue_offset: int | None = None
    msg_id: str | None = None


def java_put(result):
    """What Java answered. To a batch that is too large it throws; a message that is refused has nothing else."""
    if result["status"] != "PUT_OK":
        return Put("MESSAGE_ILLEGAL" if result["status"] == "EXCEPTION" else result["status"])
    return Put("PUT_OK", result["wroteOffset"], result["wroteBytes"], result["logicsOffset"], result["msgId"])


# ---- what to put -----------------------------------------------------------------------------------------


class Stored:
    """What RocketMQ stored of messages: store times where it has a clock of its own, the order of properties."""

    def __init__(self, root):
        self.log = log_bytes(root)

    def records(self, result):
        """Return (Record, its bytes of properties) of what a put appended; one for each message of a batch."""
        at, end, found = result["wroteOffset"], result["wroteOffset"] + result["wroteBytes"], []
        while at < end:
            parsed = parse_record(self.log, at)
            assert parsed.success, at
            found.append(
                (parsed.record, self.log[at + parsed.size - parsed.record.properties_length : at + parsed.size])
            )
            at += parsed.size
        return found


def log_bytes(root):
    """All of a commit log that begins at 0."""
    files = sorted((root / "commitlog").iterdir())
    assert int(files[0].name) == 0
    return b"".join(path.read_bytes() for path in files)


def names_of(properties):
    """The names in the bytes of a record's properties, in their order."""
    return [item.split(b"\1")[0].decode() for item in properties.split(b"\2") if item]


def in_order(given, names):
    """Properties in the order of names, which Java's HashMap gave them."""
    wanted = {**given, **dict.fromkeys(SET_BY_STORE, "0")}
    return {name: wanted[name] for name in [*names, *given] if name in wanted}


def message_of(given, record, names):
    """The Message that a description of stores.py stands for. record: what Java made of it, None if it refused."""
    body = b"" if "batch" in given else base64.b64decode(given["body"])
    sys_flag = given.get("sysFlag", 0)
    if "compression" in given:
        body, sys_flag = record.body, record.sys_flag
    message = Message(
        given["topic"],
        body,
        properties=in_order(given["properties"], names),
        queue_id=given["queueId"],
        flag=given["flag"],
        sys_flag=sys_flag,
        born_timestamp=given["bornTimestamp"],
        born_host=given["bornHost"],
    )
    message.store_timestamp = record.store_timestamp if record else given["storeTimestamp"]
    message.store_host = given["storeHost"]
    message.reconsume_times = given.get("reconsumeTimes", 0)
    message.prepared_transaction_offset = given.get("preparedTransactionOffset", 0)
    return message


def item_of(given, names):
    """A message of a batch."""
    return Message(
        "", base64.b64decode(given["body"]), properties=in_order(given["properties"], names), flag=given["flag"]
    )


def batch_of(given, stored):
    """The Message and the list of Messages of a client's batch."""
    items, names = [], []
    for item, (_, properties) in zip(given["batch"], stored, strict=True):
        names = names_of(properties)
        items.append(item_of(item, names[: len(item["properties"])]))
    # Releases up to 5.3.3 write the batch's own behind each message's.
    own = names[len(given["batch"][-1]["properties"]) :]
    return message_of(given, stored[0][0], own), items


def inner_batch_of(given, stored):
    """The one Message that a batch is kept as."""
    ((record, properties),) = stored
    items, body = [], record.body
    for item in given["batch"]:
        size, body_size = int.from_bytes(body[:4], "big"), int.from_bytes(body[16:20], "big")
        items.append(item_of(item, names_of(body[22 + body_size : size])))
        body = body[size:]
    given = {**given, "properties": {**given["properties"], "INNER_NUM": str(len(items))}}
    envelope = message_of(given, record, names_of(properties))
    made = Message.batch(given["topic"], items)
    vars(made).update({name: value for name, value in vars(envelope).items() if name not in ("raw_body", "sys_flag")})
    return made


# ---- putting ---------------------------------------------------------------------------------------------


def store_config(options, release):
    config = options["config"]
    return StoreConfig(**{ours: config[name] for name, ours in CONFIG.items() if name in config}, compat=release)


@contextlib.contextmanager
def writing(root, options, release):
    """Open a store for writing, with the topics that its options name."""
    root.mkdir(exist_ok=True)
    if options["batchTopics"]:
        extend_topics(root, dict.fromkeys(options["batchTopics"], 8), dict.fromkeys(options["batchTopics"], "BatchCQ"))
    with rocketstore.open(root, "a", config=store_config(options, release)) as store:
        yield store


def put_all(store, rng, messages, results, stored):
    """Put messages as Java stored them, singly or many in a call; return what each was answered."""
    answers, plain = [], []
    for given, result in zip(messages, results, strict=True):
        if result["status"] != "PUT_OK":
            answers += put_plain(store, rng, plain)
            answers.append(refused_put(store, given))
            continue
        records = stored.records(result)
        if "batch" in given and not given["innerBatch"]:
            answers += put_plain(store, rng, plain)
            batch, items = batch_of(given, records)
            answers.append(batch_put(store.put_batch(batch, items, store_timestamp="given"), batch.store_host))
        elif "batch" in given:
            plain.append(inner_batch_of(given, records))
        else:
            ((record, properties),) = records
            plain.append(message_of(given, record, names_of(properties)))
    return answers + put_plain(store, rng, plain)


def put_plain(store, rng, messages):
    """Put messages by put_message and put_messages; empty the list."""
    answers = []
    while messages:
        count = rng.choice((1, 1, 2, 7, 50))
        some = messages[:count]
        del messages[:count]
        if count == 1:
            put = store.put_message(some[0], store_timestamp="given")
            answers.append(Put("PUT_OK", put.phy_offset, put.size, put.queue_offset, put.msg_id))
            assert (put.queue_id, put.store_timestamp) == (some[0].queue_id, some[0].store_timestamp)
            continue
        puts = store.put_messages(some, store_timestamp="given")
        assert puts.queue_ids.tolist() == [message.queue_id for message in some]
        assert puts.store_timestamps.tolist() == [message.store_timestamp for message in some]
        answers += [
            Put("PUT_OK", *numbers, make_msg_id(message.store_host, numbers[0]))
            for message, *numbers in zip(
                some, puts.phy_offsets.tolist(), puts.sizes.tolist(), puts.queue_offsets.tolist(), strict=True
            )
        ]
    return answers


def refused_put(store, given):
    """The answer to a message that must be refused, and must change nothing."""
    before = store.commit_log.max_phy_offset
    message = message_of(given, None, ())
    put, *more = (store.put_message, message)
    if "batch" in given:
        put, *more = (store.put_batch, message, [item_of(item, ()) for item in given["batch"]])
    with pytest.raises(PutMessageError) as error:
        put(*more, store_timestamp="given")
    assert store.commit_log.max_phy_offset == before
    return Put(error.value.status)


def batch_put(puts, store_host):
    """The answer to a client's batch, which RocketMQ gives as that to its first message."""
    ids = [make_msg_id(store_host, offset) for offset in puts.phy_offsets.tolist()]
    return Put("PUT_OK", int(puts.phy_offsets[0]), int(puts.sizes.sum()), int(puts.queue_offsets[0]), ",".join(ids))


# ---- comparing -------------------------------------------------------------------------------------------


def assert_same_stores(ours, java, options, release="5.5.1"):
    """Compare commit logs, consume queues and indexes. Files are compared in their order where the clock names them."""
    assert_same_logs(ours / "commitlog", java / "commitlog", fills_blanks=numbers_of(release) < (4, 9))
    for kind in QUEUES:
        assert_same_queues(ours / kind, java / kind, UNIT_SIZES.get(kind, 1))
    mine, javas = (sorted((root / "index").iterdir()) for root in (ours, java))
    assert len(mine) == len(javas)
    for number, (one, other) in enumerate(zip(mine, javas, strict=True)):
        difference = first_difference(one.read_bytes(), other.read_bytes(), options["config"]["maxHashSlotNum"])
        assert not difference, f"index file {number} of {len(mine)}: {difference}"


def files_of(directory):
    return {str(path.relative_to(directory)): path for path in sorted(directory.rglob("*")) if path.is_file()}


def assert_same_logs(ours, java, *, fills_blanks):
    """Compare files byte for byte. fills_blanks: older releases end a file with whatever was in a buffer."""
    mine, javas = files_of(ours), files_of(java)
    assert list(mine) == list(javas)
    for name, path in mine.items():
        one, other = path.read_bytes(), javas[name].read_bytes()
        if fills_blanks:
            other = with_empty_blank(other)
        assert len(one) == len(other), name
        if one != other:
            raise AssertionError(f"{name}: {log_difference(one, other, int(name))}")


def with_empty_blank(file):
    """A commit log file with nothing but zeros behind the head of its blank."""
    at = 0
    while (size := int.from_bytes(file[at : at + 4], "big")) and int.from_bytes(file[at + 4 : at + 8], "big") != BLANK:
        at += size
    return file[: at + 8] + bytes(len(file) - at - 8)


def log_difference(ours, java, file_from_offset):
    """Say in which record and field two commit log files part."""
    at, start = first_at(ours, java), 0
    while True:
        size = int.from_bytes(java[start : start + 4], "big")
        if size <= 0 or start + size > at:
            break
        start += size
    field = next((name for end, name in RECORD_FIELDS if at - start < end), "behind bornHost")
    return (
        f"byte {at}, {at - start} of the record at {file_from_offset + start}, {field}:\n"
        f"ours {ours[start : start + size][:600]}\njava {java[start : start + size][:600]}"
    )


def first_at(one, other):
    return next(i for i, (mine, theirs) in enumerate(zip(one, other, strict=True)) if mine != theirs)


def assert_same_queues(ours, java, unit_size):
    mine, javas = files_of(ours), files_of(java)
    assert list(mine) == list(javas)
    for name, path in mine.items():
        one, other = path.read_bytes(), javas[name].read_bytes()
        assert len(one) == len(other), name
        if one != other:
            at = first_at(one, other) // unit_size
            unit = slice(at * unit_size, at * unit_size + max(unit_size, 40))
            raise AssertionError(f"{ours.name}/{name}, unit {at}: {one[unit].hex()}, Java has {other[unit].hex()}")


def assert_stopped_alike(ours, java):
    """Compare what else there is when both were shut down: no file that Java would not know, no abort, the lock."""
    unknown = {path.name for path in ours.iterdir()} - {path.name for path in java.iterdir()} - {"config"}
    assert not unknown
    assert not (ours / "abort").exists()
    assert (ours / "lock").read_bytes() == (java / "lock").read_bytes() == b"lock"
    assert_same_checkpoints(ours, java)


def assert_same_checkpoints(ours, java):
    """Compare what no timer of RocketMQ decides."""
    assert len((ours / "checkpoint").read_bytes()) == len((java / "checkpoint").read_bytes()) == 4096
    mine, javas = (StoreCheckpoint.open(root / "checkpoint") for root in (ours, java))
    for name in ("index_msg_timestamp", "master_flushed_offset"):
        assert getattr(mine, name) == getattr(javas, name), name
