"""Seeded descriptions of stores for RocketMQ to write: options, and messages one after the other.

A message is a dict as StoreWriter.java takes it; a store is (options, messages).
"""

import base64
import zlib

from support.releases import numbers_of

from interop import cases

START = cases.START
TOPICS = ("TopicTest", "OrderTopic", "pay-events_01")
BATCH_TOPIC = "BatchQueueTopic"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
TAGS = ("TagA", "TagB", "TagC", "TagA || TagB", "标签")
COMPRESSED, PREPARED, COMMIT, ROLLBACK = 0x1, 0x4, 0x8, 0xC
# Small enough that a few hundred messages roll every kind of file.
SMALL = {
    "mappedFileSizeCommitLog": 128 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 20,
    "mapperFileSizeBatchConsumeQueue": 46 * 20,
    "mappedFileSizeConsumeQueueExt": 2048,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
    "maxMessageSize": 64 * 1024,
    "enableCompaction": False,
    "cleanFileForciblyEnable": False,
    "diskMaxUsedSpaceRatio": 99,
    "fileReservedTime": 24 * 3650,
    "flushDiskType": "ASYNC_FLUSH",
}
# RocketMQ keeps the store times it is given, so that they can lie hours apart.
OWN_CLOCK = {"duplicationEnable": True}


def options(*, crash=False, batch_topics=(), **config):
    """Return the options of a store of small files; config: more properties of MessageStoreConfig."""
    return {"config": {**SMALL, **config}, "batchTopics": list(batch_topics), "crash": crash}


def base64_of(data):
    return base64.b64encode(data).decode()


class Messages:
    """Makes messages from a random.Random, with unique keys as a client makes them."""

    def __init__(self, rng):
        self.rng = rng
        self.prefix = f"{rng.randrange(2**80):020X}"
        self.serial = 0
        self.clock = START

    def message(self, topic="RichTopic", queue_id=0, *, body=None, properties=None, **fields):
        """A message with hosts and times; properties get a UNIQ_KEY unless they have one, None removes it."""
        self.clock += self.rng.choice((0, 1, 1, 40, 999, 5000, 120_000))
        given = {"UNIQ_KEY": self.uniq_key(), "WAIT": "true", **(properties or {})}
        return {
            "topic": topic,
            "queueId": queue_id,
            "flag": self.rng.choice((0, 0, 1, -1, 2**31 - 1)),
            "bornTimestamp": START - self.rng.randrange(10**6),
            "bornHost": f"10.0.{self.rng.randrange(256)}.7:{self.rng.randrange(65536)}",
            "storeHost": "127.0.0.1:10911",
            "storeTimestamp": self.clock,
            "body": base64_of(self.rng.randbytes(64) if body is None else body),
            "properties": {name: value for name, value in given.items() if value is not None},
            **fields,
        }

    def uniq_key(self):
        self.serial += 1
        return f"{self.prefix}{self.serial // 3:08X}{self.serial % 65536:04X}"

    def basic(self):
        """An ordinary message: some keys of five hundred, one of a few tags, up to 1.5 KiB."""
        rng, properties = self.rng, {}
        if rng.random() < 0.8:
            properties["KEYS"] = " ".join(f"order-{rng.randrange(500)}" for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.9:
            properties["TAGS"] = rng.choice(TAGS)
        if rng.random() < 0.3:
            properties["region"] = f"r{rng.randrange(5)}"
        topic = rng.choice(TOPICS)
        return self.message(topic, rng.randrange(3), body=rng.randbytes(rng.randint(1, 1500)), properties=properties)

    def item(self):
        """One message of a batch."""
        properties = {"KEYS": f"batch-{self.serial}", "TAGS": self.rng.choice(TAGS), "UNIQ_KEY": self.uniq_key()}
        return {
            "body": base64_of(self.rng.randbytes(self.rng.randint(0, 100))),
            "flag": self.serial,
            "properties": properties,
        }

    def batch(self, topic="BatchTopic", *, inner=False):
        """A client's batch; inner: kept as one record, for topics with queues of type BatchCQ."""
        items = [self.item() for _ in range(self.rng.randint(1, 7))]
        made = self.message(topic, self.rng.randrange(2), properties={"TAGS": "TagA"}, batch=items, innerBatch=inner)
        del made["body"]
        return made

    def batch_of(self, size):
        """A client's batch that has so many bytes before it is taken apart."""
        made = self.batch()
        made["batch"] = [self.item() for _ in range(2)]
        first, last = made["batch"]
        overhead = sum(22 + text_size(item["properties"]) for item in made["batch"])
        first["body"] = base64_of(self.rng.randbytes(size - overhead - 10))
        last["body"] = base64_of(self.rng.randbytes(10))
        return made

    def lmq(self, topic=None, count=None):
        """A message for some light queues, of one to three by itself, as well as its own."""
        count = count or self.rng.randint(1, 3)
        queues = self.rng.sample([f"%LMQ%light{i}" for i in range(6)], count)
        made = self.basic()
        made["topic"] = topic or self.rng.choice((made["topic"], made["topic"], "%DLQ%group"))
        made["properties"]["INNER_MULTI_DISPATCH"] = ",".join(queues)
        return made

    def corners(self):
        """Rare values of each field and property."""
        m, rng = self.message, self.rng
        packed = zlib.compress(b"abcdefgh" * 500)
        return [
            m(properties={"KEYS": "订单😀 café 𐍈", "TAGS": "标签"}),
            m(properties={"KEYS": "lone\ud83dsurrogate end\ude00", "TAGS": "\udc00"}),
            m(properties={"KEYS": "  two  spaces   between  "}),
            m(properties={"KEYS": " ", "TAGS": "TagA"}),
            m(properties={"KEYS": "Aa BB AaAa BBBB AaBB", "TAGS": "TagA||TagB"}, sysFlag=0x2),
            m(properties={"UNIQ_KEY": None, "WAIT": None}),
            m(properties={"UNIQ_KEY": None, "WAIT": None, "TAGS": "only tags"}),
            m(properties={"long": "v" * 20_000, "TAGS": "TagA"}),
            m(properties={f"name{i}": f"value {i}" for i in range(300)}),
            m(propertiesText="KEYS\1a\2KEYS\1b c\2TAGS\1\2empty\1\2\1nameless\2x\1\1\1\2last\1no end"),
            m(body=b""),
            m(body=rng.randbytes(30_000)),
            m(body=packed, sysFlag=COMPRESSED),
            m(body=packed[:-5], sysFlag=COMPRESSED),
            m(body=b"neither", sysFlag=COMPRESSED | 0x500),
            m(bornHost="[2001:db8::1]:54321"),
            m(storeHost="[2001:db8::2]:10911"),
            m(bornHost="[fe80::abcd]:1", storeHost="[::1]:65535"),
            m(bornHost="0.0.0.0:0", storeHost="255.255.255.255:65535"),
            m(bornTimestamp=0),
            m(bornTimestamp=-1),
            m(bornTimestamp=cases.LONG_MAX),
            m(reconsumeTimes=7, flag=-(2**31)),
            m(queue_id=2**31 - 1),
            m(sysFlag=PREPARED, properties={"TRAN_MSG": "true", "PGROUP": "g", "KEYS": "tx"}),
            m(sysFlag=COMMIT, preparedTransactionOffset=2**40 + 1, properties={"KEYS": "tx"}),
            m(sysFlag=ROLLBACK, preparedTransactionOffset=77, properties={"KEYS": "tx"}),
            m(HALF_TOPIC, properties={"REAL_TOPIC": "RichTopic", "REAL_QID": "0", "TRAN_MSG": "true"}),
            *(
                m(
                    DELAY_TOPIC,
                    3,
                    properties={"DELAY": level, "TAGS": "TagA", "REAL_TOPIC": "RichTopic", "REAL_QID": "1"},
                )
                for level in ("4", "18", "99", "0", "-1", "+2", "٣")
            ),
            m("%RETRY%组", properties={"ORIGIN_MESSAGE_ID": "7F", "RETRY_TOPIC": "RichTopic"}),
            m("主题", properties={"TAGS": "TagA"}),
            m("a" * 127, properties={"TAGS": "TagA"}),
            m("L" * 200, properties={"TAGS": "TagA"}),
        ]


# ---- profiles --------------------------------------------------------------------------------------------


def basic(messages, release):
    """Ordinary messages in a few topics."""
    return OWN_CLOCK, [messages.basic() for _ in range(200)]


def rich(messages, release):
    """The corners, in any order, among ordinary messages."""
    made = messages.corners() + [messages.basic() for _ in range(60)]
    if numbers_of(release) < (4, 9, 1):  # which splits properties otherwise
        made = [message for message in made if "propertiesText" not in message]
    if numbers_of(release) >= (5,):
        made += [messages.message(body=b"abcdefgh" * 400, compression=name) for name in ("ZLIB", "LZ4", "ZSTD")]
    messages.rng.shuffle(made)
    return OWN_CLOCK, made


def batch(messages, release):
    """Clients' batches, from 5.0 on kept whole too, among ordinary messages. Real times: a batch gets its own."""
    makers = [messages.basic, messages.batch]
    if numbers_of(release) >= (5,):
        makers.append(lambda: messages.batch(BATCH_TOPIC, inner=True))
    return {}, [messages.rng.choice(makers)() for _ in range(120)]


def lmq(messages, release):
    """Messages for light queues."""
    made = [messages.rng.choice((messages.basic, messages.lmq))() for _ in range(120)]
    return {"enableLmq": True, "enableMultiDispatch": True}, made


def lmq_batch(messages, release):
    """Light queues whose first messages are those of a batch queue, which have no units there."""
    config, made = lmq(messages, release)
    return config, [messages.lmq(BATCH_TOPIC, 6) for _ in range(3)] + made


def crc(messages, release):
    """Messages with the CRC of the record as the last property; to be read with forceVerifyPropCRC."""
    made = messages.corners() + [messages.basic() for _ in range(80)]
    return {"enabledAppendPropCRC": True, "forceVerifyPropCRC": True, **OWN_CLOCK}, made


def cqext(messages, release):
    """Consume queues whose units lead to a ConsumeQueueExt."""
    config, made = basic(messages, release)
    return {"enableConsumeQueueExt": True, **config}, made


PROFILES = {profile.__name__: profile for profile in (basic, rich, batch, lmq, lmq_batch, crc, cqext)}
# What a release has no name for is left out: 5.0 began BatchCQ, 5.2 the CRC property, 4.9.3 light queues.
OF_RELEASES = {
    "5.5.1": ("basic", "rich", "batch", "lmq", "crc", "cqext"),
    "5.3.3": ("basic", "rich", "batch", "lmq", "crc", "cqext"),
    "4.9.8": ("basic", "rich", "batch", "lmq", "cqext"),
    "4.6.0": ("basic", "rich", "batch", "cqext"),
}
# Of queues that begin with fillers RocketMQ learns the minimum only as it runs, so these are not for reading.
WITH_FILLERS = [(release, "lmq_batch") for release in ("5.5.1", "5.3.3")]
STORES = [(release, name, crash) for release, names in OF_RELEASES.items() for name in names for crash in (False, True)]


def name_of(store):
    release, profile, crash = store
    return f"{release}-{profile}-{'crash' if crash else 'clean'}"


def make(profile, rng, release, **given):
    """Return (options, messages) of a profile; given: crash, and properties of MessageStoreConfig."""
    config, messages = PROFILES[profile](Messages(rng), release)
    batch_topics = [BATCH_TOPIC] if profile in ("batch", "lmq_batch") and numbers_of(release) >= (5,) else ()
    return options(batch_topics=batch_topics, **{**config, **given}), messages


# ---- limits ----------------------------------------------------------------------------------------------


def text_size(properties):
    """Bytes of properties as they are stored."""
    return sum(len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items())


def with_properties(messages, size, **given):
    """A message with so many bytes of properties."""
    made = messages.message(**given)
    made["properties"]["long"] = ""
    made["properties"]["long"] = "v" * (size - text_size(made["properties"]))
    return made


def with_size(messages, size, **given):
    """A message whose record has so many bytes."""
    made = messages.message(**given)
    overhead = 91 + len(made["topic"]) + text_size(made["properties"])
    return {**made, "body": base64_of(messages.rng.randbytes(size - overhead))}


def limits(rng):
    """Messages at what a store takes and one beyond. RocketMQ's own clock."""
    messages = Messages(rng)
    m, most = messages.message, SMALL["maxMessageSize"]
    largest, larger = rng.randbytes(most), rng.randbytes(most + 1)
    made = [
        with_properties(messages, 32767),
        with_properties(messages, 32768),
        m(body=largest),
        m(body=larger),
        with_properties(messages, 32767, body=largest),
        with_properties(messages, 32768, body=larger),
        with_properties(messages, 32767, body=largest, topic="t" * 32767),  # more than 64 KiB besides the body
        m(properties={"INNER_NUM": "2"}),
        m(sysFlag=0xC0),
        m(sysFlag=0xC0, properties={"INNER_NUM": "2"}),
        {**messages.batch(), "sysFlag": PREPARED},
        {**messages.batch(), "sysFlag": COMMIT},
        messages.batch_of(most),
        messages.batch_of(most + 1),
    ]
    delayed = messages.batch()
    delayed["properties"]["DELAY"] = "3"
    made += [delayed, messages.batch(), m()]
    return options(), made


def crc_limits(rng):
    """The same where a record has a CRC property too, of 20 bytes."""
    messages = Messages(rng)
    made = [with_properties(messages, size) for size in (32747, 32748, 32767)]
    return options(enabledAppendPropCRC=True, forceVerifyPropCRC=True), [*made, messages.message()]


def lmq_limits(rng):
    """The same for messages for light queues, whose whole record is limited."""
    messages, most = Messages(rng), SMALL["maxMessageSize"]
    light = {"properties": {"INNER_MULTI_DISPATCH": "%LMQ%light,%LMQ%other"}}
    offsets = text_size({"INNER_MULTI_QUEUE_OFFSET": "0,0"})
    made = [
        with_size(messages, most - offsets, **light),
        with_size(messages, most - offsets + 1, **light),
        messages.message(body=messages.rng.randbytes(most + 1), **light),
        with_properties(messages, 32767 - offsets, **light),
        with_properties(messages, 32768 - offsets, **light),
        with_size(messages, most + 1),
    ]
    return options(enableLmq=True, enableMultiDispatch=True), [*made, messages.message(**light)]


def lmq_of_batches(rng):
    """Messages for light queues, where those of batch queues leave gaps: what a restart gives out again."""
    messages = Messages(rng)
    makers = messages.basic, messages.lmq, messages.lmq, lambda: messages.lmq(BATCH_TOPIC)
    made = [rng.choice(makers)() for _ in range(120)]
    return options(batch_topics=[BATCH_TOPIC], enableLmq=True, enableMultiDispatch=True), made


def lmq_of_old(rng, **config):
    """Messages that 4.9 gave offsets in more queues, and later releases did not."""
    messages = Messages(rng)
    made = [rng.choice((messages.basic, messages.lmq))() for _ in range(60)]
    for message in made:
        message["topic"] = rng.choice((message["topic"], "%RETRY%group", "rmq_sys_x"))
        if "INNER_MULTI_DISPATCH" in message["properties"]:
            message["properties"]["INNER_MULTI_DISPATCH"] += rng.choice(("", ",plain"))
    return options(enableMultiDispatch=True, **config), made


def too_large(rng):
    """A record that just fits a file, and larger ones, which RocketMQ says it has and has not."""
    messages, file_size = Messages(rng), SMALL["mappedFileSizeCommitLog"]
    made = [with_size(messages, file_size + more) for more in (-8, -7, 0, 100)]
    return options(maxMessageSize=2 * file_size), [messages.message(), *made, messages.message()]
