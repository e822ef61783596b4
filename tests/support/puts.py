"""Stores that tests write, small enough to be compared whole with the reference's."""

from pathlib import Path

from reference.java import parse_number
from reference.message_store import Placed, StoreModel
from support.profiles import SEVERAL_FILES

import rocketstore
from rocketstore import Message, StoreConfig

PARTS = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext")
BEGIN = 1_700_000_000_000
TRANSACTIONS = NOT, PREPARED, COMMIT, ROLLBACK = 0, 0x4, 0x8, 0xC
INNER_BATCH, NEED_UNWRAP = 0x80, 0x40


def config_of(**options):
    return StoreConfig(**{**SEVERAL_FILES, **options})


def open_store(root, **options):
    return rocketstore.open(root, "a", config=config_of(**options))


def model_of(config, **options):
    """The reference of a store with this configuration."""
    return StoreModel(
        file_size=config.mapped_file_size_commit_log,
        cq_file_size=config.mapped_file_size_consume_queue,
        batch_cq_file_size=config.mapper_file_size_batch_consume_queue,
        ext_file_size=config.mapped_file_size_consume_queue_ext,
        hash_slot_num=config.max_hash_slot_num,
        index_num=config.max_index_num,
        release=tuple(parse_number(part, 32) for part in config.compat.split(".")),
        max_message_size=config.max_message_size,
        append_prop_crc=config.enabled_append_prop_crc,
        enable_lmq=config.enable_lmq,
        enable_multi_dispatch=config.enable_multi_dispatch,
        enable_ext=config.enable_consume_queue_ext,
        **options,
    )


def message_of(fields):
    """The message of a dict as the reference takes it."""
    own = ("topic", "body", "properties", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host")
    message = Message(**{name: fields[name] for name in own if name in fields})
    for name in fields.keys() - set(own):
        setattr(message, name, fields[name])
    return message


def fields_of(topic="TopicTest", body=b"body", *, queue_id=0, **fields):
    """A message as the reference takes it."""
    defaults = {"born_timestamp": BEGIN, "born_host": "127.0.0.1:1234", "properties": {}}
    return {**defaults, "topic": topic, "body": body, "queue_id": queue_id, **fields}


def files_under(root, *parts):
    """The bytes of all files below these directories, by their paths under the root."""
    root = Path(root)
    paths = [path for part in parts or PARTS for path in (root / part).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def index_files(root):
    """The bytes of the index files, oldest first."""
    return [path.read_bytes() for path in sorted((Path(root) / "index").iterdir())]


def assert_same_files(root, model):
    """Compare a store that was closed, byte for byte."""
    found, expected = files_under(root), model.data_files()
    assert sorted(found) == sorted(expected)
    for path, data in expected.items():
        assert found[path] == data, path
    assert index_files(root) == model.index_files()


def path_of(fd):
    """The path of an open descriptor, on Linux."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def open_paths(directory):
    """The paths under a directory that this process has open, on Linux."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [str(link.readlink()) for link in links if link.is_symlink() and str(directory) in str(link.readlink())]


def placed(result):
    """What a put of one message gave, as the reference has it."""
    return Placed(result.phy_offset, result.size, result.queue_id, result.queue_offset)


class Pair:
    """A store and its reference, which take the same messages and must stay the same bytes."""

    def __init__(self, root, *, batch_topics=(), **options):
        self.root = root
        self.config = config_of(store_host="10.0.0.1:10911", **options)
        self.model = model_of(self.config, batch_topics=batch_topics)
        self.store = rocketstore.open(root, "a", config=self.config)
        for topic in batch_topics:
            self.store.create_topic(topic, 4, queue_type="BatchCQ")
        self.time = BEGIN

    def put(self, fields=None, **more):
        """Put one message; fields or what fields_of takes."""
        fields = fields or fields_of(**more)
        result = self.store.put_message(message_of(fields), store_timestamp=self.time)
        assert placed(result) == self.model.put(with_host(fields, self.config), self.time)
        assert result.store_timestamp == self.time
        return result

    def put_messages(self, rows):
        result = self.store.put_messages([message_of(row) for row in rows], store_timestamp=self.time)
        expected = [self.model.put(with_host(row, self.config), self.time) for row in rows]
        assert [placed(one) for one in result] == expected
        assert result.store_timestamps.tolist() == [self.time] * len(rows)
        return result

    def put_batch(self, batch, rows):
        messages = [message_of(row) for row in rows]
        result = self.store.put_batch(message_of(batch), messages, store_timestamp=self.time)
        assert [placed(one) for one in result] == self.model.put_batch(with_host(batch, self.config), rows, self.time)
        return result

    def close(self):
        """Close the store, and compare all its files."""
        self.store.close()
        assert_same_files(self.root, self.model)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.close()
        else:
            self.store.close()


def with_host(fields, config):
    return {"store_host": config.store_host, **fields}


# ---- random messages ---------------------------------------------------------------------------------------

PLAIN_WORDS = ["k0", "kk", "a", "b-1", "Key", "42"]
ODD_WORDS = ["", " ", "主题", "😀", "a\x01b", "\ud800", "x\udc00y", "\udfff\ud800", "é", "\x00", "T#x", "a b"]
HOSTS = ["127.0.0.1:1234", "255.254.1.0:65535", "10.0.0.7:0"]
V6_HOSTS = ["[::1]:80", "[fe80::abcd]:65535", "[2001:db8::1]:1"]
TOPICS = ["TopicTest", "主题", "%RETRY%group", "a" * 127]
LONG_TOPICS = ["b" * 127, "c" * 128, "d" * 255, "é" * 8 + "e" * 120, "😀" * 30 + "f" * 68]
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def draw_body(rng):
    return rng.randbytes(rng.choice([0, 1, rng.randrange(40), rng.randrange(400)]))


def draw_properties(rng, words=tuple(PLAIN_WORDS)):
    """Properties in any order, with KEYS, TAGS and UNIQ_KEY among them."""
    properties = {rng.choice(words) or "n": rng.choice(words) for _ in range(rng.randrange(4))}
    if rng.random() < 0.7:
        properties["KEYS"] = " ".join(rng.choices(words, k=rng.randrange(4)))
    if rng.random() < 0.5:
        properties["TAGS"] = rng.choice(words)
    if rng.random() < 0.3:
        properties["UNIQ_KEY"] = f"{rng.getrandbits(128):032X}"
    items = list(properties.items())
    rng.shuffle(items)
    return dict(items)


def draw_plain(rng):
    return fields_of(rng.choice(TOPICS[:2]), draw_body(rng), queue_id=rng.randrange(3), properties=draw_properties(rng))


def draw_all_fields(rng):
    """Every field with values from end to end."""
    return {
        **draw_plain(rng),
        "topic": rng.choice(TOPICS),
        "queue_id": rng.choice([0, 1, 7, 2**31 - 1]),
        "flag": rng.choice([0, -1, 2**31 - 1, -(2**31), rng.getrandbits(31)]),
        "sys_flag": rng.choice([0, 0x1, 0x2, 0x301, 0x701, -(2**31), NEED_UNWRAP]),
        "born_timestamp": rng.choice([0, -1, 2**63 - 1, -(2**63), BEGIN]),
        "born_host": rng.choice(HOSTS),
        "store_host": rng.choice(HOSTS),
        "reconsume_times": rng.choice([0, 16, -1, 2**31 - 1]),
        "prepared_transaction_offset": rng.choice([0, -1, 2**63 - 1]),
    }


def draw_long_topic(rng):
    return {**draw_plain(rng), "topic": rng.choice(LONG_TOPICS)}


def draw_ipv6(rng):
    hosts = {"born_host": rng.choice(HOSTS + V6_HOSTS), "store_host": rng.choice(HOSTS + V6_HOSTS)}
    return {**draw_plain(rng), "topic": rng.choice([TOPICS[0], LONG_TOPICS[1]]), **hosts}


def draw_texts(rng):
    properties = draw_properties(rng, tuple(PLAIN_WORDS + ODD_WORDS))
    for name in list(properties):
        if rng.random() < 0.1:
            properties[name] = None
    return {**draw_plain(rng), "properties": properties}


def draw_transaction(rng):
    return {**draw_plain(rng), "sys_flag": rng.choice(TRANSACTIONS) | rng.choice([0, 0x1, 0x2])}


def draw_delay(rng):
    level = rng.choice(["1", "5", "18", "19", "99", "0", "-3", "+2", "007", "٣"])
    return {**draw_plain(rng), "topic": SCHEDULE_TOPIC, "properties": {"DELAY": level, "TAGS": "TagA"}}


def draw_light(rng):
    names = ["%LMQ%a", "%LMQ%b", "%LMQ%主", "plain", "with/slash"]
    properties = draw_properties(rng)
    if rng.random() < 0.7:
        properties["INNER_MULTI_DISPATCH"] = ",".join(rng.sample(names[:3], k=rng.randrange(1, 4)))
    topic = rng.choice(["TopicTest", "%RETRY%g", "%DLQ%g", "rmq_sys_x", SCHEDULE_TOPIC])
    return {**draw_plain(rng), "topic": topic, "properties": properties}


def draw_old_light(rng):
    """What releases before 5.3.2 have in common with later ones."""
    row = draw_light(rng)
    if "INNER_MULTI_DISPATCH" in row["properties"]:
        row |= {"topic": rng.choice(["TopicTest", "%DLQ%g"]), "properties": {**row["properties"], "WAIT": "true"}}
    return row


PROFILES = {
    "plain": (draw_plain, {}),
    "all fields": (draw_all_fields, {}),
    "long topics": (draw_long_topic, {}),
    "ipv6": (draw_ipv6, {}),
    "texts": (draw_texts, {}),
    "crc": (draw_texts, {"enabled_append_prop_crc": True}),
    "transactions": (draw_transaction, {}),
    "delay": (draw_delay, {}),
    "light queues": (draw_light, {"enable_lmq": True, "enable_multi_dispatch": True}),
    "light offsets only": (draw_light, {"enable_lmq": True}),
    "light queues of 5.3.3": (draw_light, {"enable_lmq": True, "enable_multi_dispatch": True, "compat": "5.3.3"}),
    "light queues of 4.9.8": (draw_old_light, {"enable_lmq": True, "enable_multi_dispatch": True, "compat": "4.9.8"}),
    "ext": (draw_plain, {"enable_consume_queue_ext": True}),
    "ext of delay": (draw_delay, {"enable_consume_queue_ext": True}),
    "5.3.3": (draw_texts, {"compat": "5.3.3"}),
    "5.1.4": (draw_texts, {"compat": "5.1.4"}),
    "4.7.0": (draw_plain, {"compat": "4.7.0"}),
    "4.9.1": (draw_transaction, {"compat": "4.9.1"}),
}
