"""Seeded input of the interop tests: keys, times, rows, dispatch requests and queries on them."""

from rocketstore.text_values import wrong_unit

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)
START = 1_700_000_000_000
SLOTS = (1, 7, 97)
TOPICS = ("TopicTest", "主题", "%RETRY%组", "T😀", "T#", "T\udc00", "")
# "Aa" and "BB" have one hash, so all of these do.
COLLIDING = [a + b + c for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB")]
ODD_KEYS = [
    "",
    "polygenelubricants",
    "\ud800",
    "\udfff\ud800",
    "\ud83d\ude00",
    "😀",
    "键",
    "a\tb",
    "two\nlines",
    "\0",
    "\uffff",
    "ß",
    "T#TagA",
    "#",
    "ÿ" * 40,
    "é😀" * 20,
    "x" * 300,
    *COLLIDING,
]
ALPHABETS = ("abcdefgh01234567", "éñüß¿ÿ", "键主题消息队列", "😀🚀𐍈🀄", "\ud800\udbff\udc00\udfff", "aé键😀\udc00")
TAGS = (None, None, "", "TagA", "TagB", "标签", "a||b", "\ud801")
SYS_FLAGS = (0, 0, 0, 0x1, 0x4, 0x8, 0xC, 0x8 | 0x30, 0xC | 0x1)


def geometry(rng):
    """Return (hash_slot_num, index_num): one slot to nearly a hundred, one item a file to four hundred."""
    return rng.choice(SLOTS), rng.choice((2, 3, 4, 9, 33, 100, 399, 400, rng.randint(2, 400)))


def row_count(rng, index_num):
    """Return how many rows fill about four files, and at most 1,200."""
    return min(rng.randint(3 * index_num, 5 * index_num) + 5, 1200)


def request_count(index_num):
    """Return how many messages, of three keys or so each, roll a few times."""
    return min(2 * index_num + 10, 600)


def key(rng):
    """Return a key without its topic; every third is an odd one."""
    if rng.random() < 0.3:
        return rng.choice(ODD_KEYS)
    alphabet = rng.choice(ALPHABETS)
    return "".join(rng.choices(alphabet, k=rng.randint(1, 24)))


def index_keys(rng, count):
    """Return whole index keys; a third as many as rows, so that chains get long."""
    keys = [f"{rng.choice(TOPICS)}#{key(rng)}" for _ in range(count // 3 + 1)]
    return keys + rng.sample(ODD_KEYS, 4) + [f"TopicTest#{text}" for text in COLLIDING]


def timestamps(rng, count):
    """Return store times that rise, fall, stay, are zero or negative, lie far apart, or do all of these."""
    steps = {
        "rise": lambda: rng.randint(0, 3000),
        "fall": lambda: -rng.randint(0, 3000),
        "stay": lambda: 0,
        "minutes": lambda: rng.randint(-120_000, 600_000),
        "far": lambda: rng.choice((-1, 1)) * rng.randint(0, 2**43),
    }
    first = rng.choice((START, START, 0, 1, 999, -5000, -START))
    step = steps[rng.choice(list(steps))]
    times, now = [], first
    odd = rng.choice((0, 0, 0.05))
    for _ in range(count):
        strange = rng.random() < odd
        times.append(rng.choice((0, -1, 1, LONG_MAX, LONG_MIN, 2**31 * 1000)) if strange else now)
        now = max(min(now + step(), 2**60), -(2**60))
    return times


def rows(rng, count):
    """Return (index_key, phy_offset, store_timestamp) of each put."""
    keys = index_keys(rng, count)
    offsets = [rng.randint(0, 2**62) if rng.random() < 0.02 else 1200 * i for i in range(count)]
    return list(zip(rng.choices(keys, k=count), offsets, timestamps(rng, count), strict=True))


def requests(rng, count):
    """Return (topic, uniq_key, keys, tags, phy_offset, store_timestamp, sys_flag) of each message."""
    pool = [key(rng) for _ in range(count // 3 + 1)] + COLLIDING
    phy_offset, made = rng.choice((0, 0, 5000)), []
    for store_timestamp in timestamps(rng, count):
        uniq_key = rng.choice((None, "", *rng.sample(pool, 4)))
        words = rng.choices(["", *pool], k=rng.randint(0, 4))
        keys = rng.choice((None, "", " ", " ".join(words), "  ".join(words) + " "))
        made.append(
            (rng.choice(TOPICS), uniq_key, keys, rng.choice(TAGS), phy_offset, store_timestamp, rng.choice(SYS_FLAGS))
        )
        # A message dispatched again, and one that came before: indexed twice, and not at all.
        phy_offset = max(phy_offset + rng.choice((100, 100, 1200, 1200, 0, -600)), 0)
    return made


def time_range(rng, times):
    """Return (begin, end): everything, bounds on and beside the times put, and empty ranges."""

    def near():
        time = rng.choice(times) + rng.choice((0, 0, 1, -1, 999, -999, 1000, 60_000, -60_000))
        time = max(min(time, LONG_MAX), LONG_MIN)
        return time if wrong_unit(time) is None else START  # rocketstore refuses what looks like another unit

    kind = rng.random()
    if kind < 0.3:
        return 0, LONG_MAX
    if kind < 0.4:
        return LONG_MIN, LONG_MAX
    if kind < 0.5:
        return near(), LONG_MAX
    if kind < 0.6:
        return rng.choice((0, LONG_MIN)), near()
    if kind < 0.95:
        return tuple(sorted((near(), near())))
    return near(), near()


def file_queries(rng, put, count=1000):
    """Return (index_key, max_num, begin, end): hits, hash collisions and misses on the rows put."""
    keys = [index_key for index_key, _, _ in put]
    times = [store_timestamp for _, _, store_timestamp in put]
    made = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.6:
            wanted = rng.choice(keys)
        elif kind < 0.8:
            wanted = "TopicTest#" + rng.choice(COLLIDING)
        else:
            wanted = f"{rng.choice(TOPICS)}#{key(rng)}"
        made.append((wanted, rng.choice((32, 32, 64, 1, 2, 0, 5000)), *time_range(rng, times)))
    return made


def service_queries(rng, built, index_types, count=1000):
    """Return (topic, key, max_num, begin, end, index_type): keys, unique keys and tags of messages."""
    times = [request[5] for request in built]
    made = []
    for _ in range(count):
        topic, uniq_key, keys, tags, *_ = rng.choice(built)
        known = [word for word in (uniq_key, tags, *(keys or "").split(" ")) if word is not None]
        wanted = rng.choice(known) if rng.random() < 0.7 else rng.choice((key(rng), "T#TagA", *COLLIDING))
        made.append(
            (topic, wanted, rng.choice((64, 32, 1, 2, 0, 65, 5000)), *time_range(rng, times), rng.choice(index_types))
        )
    return made
