"""Seeded records of a commit log, right and wrong, for both sides to parse."""

from reference.commit_log import SCHEDULE_TOPIC, blank, build_record

from interop import cases

NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "DUP_INFO", "INNER_NUM", "INNER_BASE", "__CRC32#", "WAIT", "键", "x")
NUMBERS = (
    "0",
    "1",
    "18",
    "19",
    "99",
    "-1",
    "+2",
    "-0",
    "",
    "+",
    " 1",
    "1_0",
    "٣",
    "٣4",
    "\U0001d7d8",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "00000000000000000000000000007",
    "1.5",
    "0x1",
    "abc",
)
DUPS = ("a_b", "a_b__", "a__b", "_", "", "a_", "_b", "__", "ab", "a_b_c", "键_值")
TOPICS = ("TopicTest", "主题", "%RETRY%组", "T😀", "", "a" * 127, "L" * 128, "L" * 200, "%LMQ%x", SCHEDULE_TOPIC)
SYS_FLAGS = (0, 0, 0x1, 0x2, 0x4, 0x8, 0xC, 0x40, 0x80, 0xC0, 0x101, 0x201, 0x301, 0x701, -1, -0x31)
HOSTS = ("127.0.0.1:10911", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80", "[2001:db8::ff00:42:8329]:1")
# Encodings of surrogates, too long ones, cut ones, and bytes that UTF-8 has not.
BAD_UTF8 = (
    b"\xed\xa0\x80",
    b"\xed\xa0",
    b"\xed\xb0\x80\xed",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x80\x80",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5",
    b"\xff",
    b"\x80",
    b"\xe4\xb8A",
    b"\xf0\x80\x80\x80",
    b"\xc2\x01\x02",
)


def record(rng):
    """One record and what may follow it: nine of ten have one thing wrong or odd, or none."""
    fields = record_fields(rng)
    if rng.random() < 0.3:
        fields |= rng.choice(
            (
                {"body_length": rng.choice((-1, 0, 1, 5, 2**31 - 1, -(2**31), rng.randint(0, 300)))},
                {"topic_length": rng.choice((-1, 0, 1, 127, -128, 200, rng.randint(0, 50)))},
                {"properties_length": rng.choice((-1, 0, 1, 32767, -32768, rng.randint(0, 200)))},
                {"total_size": rng.choice((-1, 0, 1, 4, 8, 90, 91, 92, 2**31 - 1, -(2**31), rng.randint(0, 400)))},
                {"body_crc": rng.choice((0, -1, rng.getrandbits(32)))},
                {"magic": rng.choice((0, -1, 0xDAA320A7, 0xDAA320AB, 0xCBD43194, rng.getrandbits(32)))},
                {"host_flags": False},
            )
        )
    data = build_record(**fields)
    kind = rng.random()
    if kind < 0.1:
        data = data[: rng.randrange(len(data))]
    elif kind < 0.3:
        data = flipped(rng, data)
    elif kind < 0.33:
        data = rng.choice((blank(8), blank(200), b"\0" * rng.randint(0, 200), rng.randbytes(rng.randint(0, 200))))
    return data + rng.choice((b"", b"", b"\0" * 8, rng.randbytes(rng.randint(1, 50))))


def flipped(rng, data):
    """A few bytes changed; the lengths near the end are hit more often than by chance alone."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.choice((rng.randrange(len(data)), rng.randrange(min(100, len(data)))))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def record_fields(rng):
    long = lambda: rng.choice((0, 1, -1, cases.LONG_MAX, cases.LONG_MIN, rng.randrange(2**42)))  # noqa: E731
    return {
        "topic": topic(rng),
        "body": rng.choice((b"", b"body", rng.randbytes(rng.randint(1, 200)))),
        "properties": property_string(rng),
        "queue_id": rng.choice((0, 1, 2**31 - 1, -1)),
        "flag": rng.choice((0, -1, rng.getrandbits(32))),
        "queue_offset": long(),
        "sys_flag": rng.choice(SYS_FLAGS),
        "born_timestamp": long(),
        "born_host": rng.choice(HOSTS),
        "store_timestamp": long(),
        "store_host": rng.choice(HOSTS),
        "reconsume_times": rng.choice((0, 3, -1)),
        "prepared_transaction_offset": long(),
        "append_prop_crc": rng.random() < 0.3,
    }


def topic(rng):
    kind = rng.random()
    if kind < 0.25:
        return SCHEDULE_TOPIC
    if kind < 0.35:
        return rng.choice((b"T", "题".encode())) + rng.choice(BAD_UTF8) + b"x"
    return rng.choice(TOPICS)


def property_string(rng):
    """Properties as bytes: names that RocketMQ looks at with values right and wrong, or bytes at random."""
    if rng.random() < 0.1:
        return bytes(rng.choices(b"\1\2abKEYS\xe4\xb8\xad\xff", k=rng.randint(0, 40)))
    items = []
    for name in rng.choices(NAMES, k=rng.choice((0, 1, 2, 3, 5, 12))):
        item = name.encode() + rng.choice((b"\1",) * 8 + (b"", b"\1\1")) + value(rng, name)
        items.append(item + rng.choice((b"\2",) * 8 + (b"", b"\2\2")))
    return b"".join(items)[:32_000]


def value(rng, name):
    if name in ("DELAY", "INNER_NUM", "INNER_BASE", "__CRC32#"):
        text = rng.choice(NUMBERS)
    elif name == "DUP_INFO":
        text = rng.choice(DUPS)
    else:
        text = rng.choice(("TagA", "a b  c ", " ", "", "a||b", None))
        text = cases.key(rng) if text is None else text
    encoded = text.encode("utf-8", "surrogatepass" if rng.random() < 0.2 else "replace")
    return encoded + (rng.choice(BAD_UTF8) if rng.random() < 0.05 else b"")


def texts(rng, count):
    """Bytes that are nearly UTF-8."""
    made = []
    for _ in range(count):
        parts = [
            rng.choice(
                (
                    cases.key(rng).encode("utf-8", "surrogatepass"),
                    rng.choice(BAD_UTF8),
                    rng.randbytes(3),
                    b"k\1v\2",
                    b"\1",
                    b"\2",
                )
            )
            for _ in range(rng.randint(0, 6))
        ]
        made.append(b"".join(parts))
    return made


def records(rng, count):
    return [record(rng) for _ in range(count)]
