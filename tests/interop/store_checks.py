"""What tests of whole stores compare: RocketMQ's reading of a directory, in the words of rocketstore."""

import base64
import hashlib
import ipaddress

from support.releases import numbers_of

from interop.cases import LONG_MAX, time_range
from rocketstore import BatchConsumeQueue, CommitLog, ConsumeQueue, CorruptFileError, MessageStore, StoreConfig

ALL_RECORDS = {"op": "records", "checkCrc": True, "checkDup": False, "readBody": True}
# Fields of a Message and of Java's MessageExt.
FIELDS = {
    "topic": "topic",
    "queue_id": "queueId",
    "queue_offset": "queueOffset",
    "phy_offset": "commitLogOffset",
    "size": "storeSize",
    "flag": "flag",
    "sys_flag": "sysFlag",
    "born_timestamp": "bornTimestamp",
    "born_host": "bornHost",
    "store_timestamp": "storeTimestamp",
    "store_host": "storeHost",
    "reconsume_times": "reconsumeTimes",
    "prepared_transaction_offset": "preparedTransactionOffset",
    "body_crc": "bodyCrc",
    "msg_id": "msgId",
    "properties": "properties",
    "raw_body": "body",
}
FROM_PROPERTIES = ("keys", "tags", "uniq_key")
KINDS = {"SimpleCQ": (ConsumeQueue, "consumequeue"), "BatchCQ": (BatchConsumeQueue, "batchconsumequeue")}
UNIT = {"queue_offset": "queueOffset", "phy_offset": "pos", "size": "size", "tags_code": "tagsCode"}
BATCH_UNIT = {**UNIT, "batch_num": "batchNum", "compacted_offset": "compactedOffset"}
ROLLBACK = 0xC
COLUMNS = (*FIELDS, *FROM_PROPERTIES, "tags_code")


def expected_message(java):
    """A message as Java decoded it, as a dict by our names."""
    fields = {name: java[javas] for name, javas in FIELDS.items()}
    properties = fields["properties"] = fields["properties"] or {}
    fields["raw_body"] = base64.b64decode(fields["raw_body"])
    fields["born_host"], fields["store_host"] = map(short_host, (fields["born_host"], fields["store_host"]))
    fields["keys"] = [key for key in properties.get("KEYS", "").split(" ") if key]
    fields["tags"], fields["uniq_key"] = properties.get("TAGS"), properties.get("UNIQ_KEY")
    return fields


def short_host(text):
    """Java writes IPv6 addresses without "::"."""
    address, _, port = text.rpartition(":")
    ip = ipaddress.ip_address(address.strip("[]"))
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


def java_records(store, **flags):
    """Every record that RocketMQ reads, in the order of the log, as rows of dispatch and message."""
    (rows,) = store.java.read_store(store.root, store.options, [{**ALL_RECORDS, **flags}], load=False)
    return [row for row in rows if row.get("message")]


def expected_rows(records):
    """The same as dicts by our names, with the tags code."""
    return [{**expected_message(row["message"]), "tags_code": row["dispatch"]["tagsCode"]} for row in records]


def fields_of(message, names):
    return {name: getattr(message, name) for name in names}


def body_of(message):
    """The body, None if it does not decompress."""
    try:
        return message.body
    except CorruptFileError:
        return None


def plain_body(java):
    return None if java["plainBody"] is None else base64.b64decode(java["plainBody"])


def fingerprint(root):
    """Names, bytes and modification times of all files, to see that reading changes none."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return [(path, hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) for path in files]


# ---- commit log ------------------------------------------------------------------------------------------


def open_log(store):
    verify_prop_crc = store.options["config"].get("forceVerifyPropCRC", False)
    return CommitLog.open(store.root / "commitlog", force_verify_prop_crc=verify_prop_crc)


def rows(scan):
    return [fields_of(message, COLUMNS) for batch in scan for message in batch]


def check_scan(store, **given):
    expected = expected_rows(java_records(store))
    assert len(expected) >= sum(result["status"] == "PUT_OK" for result in store.results)
    with open_log(store) as log:
        found = rows(log.scan(columns=COLUMNS, verify_crc=True, **given))
    assert [row["phy_offset"] for row in found] == [row["phy_offset"] for row in expected]
    for one, other in zip(found, expected, strict=True):
        assert one == other


# ---- queues ----------------------------------------------------------------------------------------------


def java_queues(store, root=None, *, load=False):
    """RocketMQ's queues that have units, as it reads them in the files or after a recovery."""
    (queues,) = store.java.read_store(root or store.root, store.options, [{"op": "queues"}], load=load)
    return [queue for queue in queues if queue["units"]]


def open_queue(root, queue, **given):
    kind, directory = KINDS[queue["type"]]
    return kind.open(root / directory / queue["topic"] / str(queue["queueId"]), **given)


def as_java(unit, names):
    return {javas: getattr(unit, name) for name, javas in names.items()}


def check_queues(store):
    queues = java_queues(store)
    assert queues
    for queue in queues:
        names = UNIT if queue["type"] == "SimpleCQ" else BATCH_UNIT
        expected = [{javas: unit[javas] for javas in names.values()} for unit in queue["units"]]
        with open_queue(store.root, queue) as ours:
            assert (ours.topic, ours.queue_id) == (queue["topic"], queue["queueId"])
            assert ours.max_queue_offset == queue["max"]
            assert [as_java(unit, names) for unit in ours[0:]] == expected
            for unit in expected:
                assert as_java(ours[unit["queueOffset"]], names) == unit


# ---- store -----------------------------------------------------------------------------------------------


def open_store(store):
    config = store.options["config"]
    return MessageStore.open(
        store.root,
        config=StoreConfig(
            max_hash_slot_num=config["maxHashSlotNum"],
            max_index_num=config["maxIndexNum"],
            force_verify_prop_crc=config.get("forceVerifyPropCRC", False),
            compat=store.java.release,
        ),
    )


def get_requests(rng, queues, count):
    """Reads from every kind of place of every queue, and of one that there is not."""
    made = [{"op": "get_message", "topic": "NoSuchTopic", "queueId": 0, "offset": 0, "maxNum": 32}]
    for _ in range(count):
        queue = rng.choice(queues)
        offset = rng.choice((0, -1, queue["max"], queue["max"] + 1, queue["max"] + 99, rng.randint(0, queue["max"])))
        tags = rng.choice((None, None, "*", "TagA", "TagA||TagB", "TagC || 标签", "none"))
        made.append(
            {
                "op": "get_message",
                "topic": queue["topic"],
                "queueId": queue["queueId"],
                "offset": offset,
                "maxNum": rng.choice((0, 1, 2, 7, 32, 64, 1000)),
                "tags": tags,
            }
        )
    return made


def check_reads(store, rng, count):
    queues = [queue for queue in java_queues(store, load=True) if queue["units"]]
    requests = get_requests(rng, queues, count)
    answers = store.java.read_store(store.root, store.options, requests)
    with open_store(store) as ours:
        for request, answer in zip(requests[1:], answers[1:], strict=True):
            found = ours.get_message(
                request["topic"],
                request["queueId"],
                request["offset"],
                request["maxNum"],
                tag=request["tags"],
                limits="broker",
            )
            assert found.status == answer["status"], (request, answer, found)
            if (
                numbers_of(store.java.release) < (4, 9)
                and answer["status"] == "OFFSET_OVERFLOW_BADLY"
                and answer["minOffset"] == 0
            ):
                answer["nextBeginOffset"] = answer["maxOffset"]  # which went back to the minimum if that was 0
            assert found.next_begin_offset == answer["nextBeginOffset"], (request, answer, found)
            assert (found.min_offset, found.max_offset) == (answer["minOffset"], answer["maxOffset"]), request
            assert [message.phy_offset for message in found.messages] == answer["phyOffsets"], (request, answer)


def is_indexed(row):
    return row["sys_flag"] & ROLLBACK != ROLLBACK


def keys_of(row):
    return {*row["keys"], row["uniq_key"]} - {None}


def key_queries(rng, expected, count):
    """(topic, key, begin, end): keys that are there, of another topic, or nowhere."""
    indexed = [row for row in expected if is_indexed(row) and keys_of(row)]
    times = [row["store_timestamp"] for row in expected]
    made = []
    for _ in range(count):
        row = rng.choice(indexed)
        key = rng.choice((*sorted(keys_of(row)), *sorted(keys_of(row)), "Aa", "none"))
        topic = rng.choice((row["topic"], row["topic"], row["topic"], "TopicTest"))
        made.append((topic, key, *(time_range(rng, times) if rng.random() < 0.5 else (0, LONG_MAX))))
    return made


def matches(row, topic, key, begin, end):
    return row["topic"] == topic and key in keys_of(row) and is_indexed(row) and begin <= row["store_timestamp"] < end


def check_keys(store, rng, count):
    expected = expected_rows(java_records(store))
    queries = key_queries(rng, expected, count)
    requests = [
        {"op": "query_message", "topic": topic, "key": key, "maxNum": 32, "begin": begin, "end": end}
        for topic, key, begin, end in queries
    ]
    answers = store.java.read_store(store.root, store.options, requests)
    with open_store(store) as ours:
        for (topic, key, begin, end), answer in zip(queries, answers, strict=True):
            unverified = ours.index.query_offset(topic, key, 32, begin, end).phy_offsets
            assert sorted(unverified) == answer["phyOffsets"]
            found = ours.query_message(topic, key, 32, begin, end)
            wanted = [row["phy_offset"] for row in reversed(expected) if matches(row, topic, key, begin, end)]
            assert [message.phy_offset for message in found.messages] == wanted[:32], (topic, key, begin, end)
            assert found.complete == (len(wanted) <= 32), found.reasons
