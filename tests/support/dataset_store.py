"""A store with odd texts, null tags, several files and index files, and random filters of its messages."""

import datetime
import operator
import random

from support.puts import BEGIN, ODD_WORDS, PLAIN_WORDS, draw_properties, open_store

from rocketstore import Message

TOPICS = ["TopicTest", "主题", "Orders"]
WORDS = tuple(PLAIN_WORDS + [word for word in ODD_WORDS if word.isprintable() and word])
TAGS = ["paid", "sent", "a|b", " x", "", "*"]


def write(root, seed, rows=400):
    """Write the messages, with the store times of a clock that goes back at times, and return them."""
    rng = random.Random(seed)
    with open_store(root) as store:
        for i in range(rows):
            properties = draw_properties(rng, WORDS)
            if rng.random() < 0.6:
                properties["TAGS"] = rng.choice(TAGS)
            message = Message(
                rng.choice(TOPICS),
                rng.randbytes(rng.randrange(60)),
                properties=properties,
                queue_id=rng.randrange(4),
                uniq_key=f"U{i:05d}",
            )
            store.put_message(message, store_timestamp=BEGIN + 1000 * i - rng.choice([0, 0, 0, 5000]))


def time_at(milliseconds):
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)


def draw_values(rng, table, name):
    """Return some values of a column, of which one may be strange."""
    values = [table[name][rng.randrange(len(table))].as_py() for _ in range(rng.randrange(1, 4))]
    values = [value for value in values if value is not None]
    return values or [{"topic": "no such topic", "tags": "paid"}.get(name, 0)]


OPERATORS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
OPERATORS |= {">=": operator.ge}


class Filters:
    """Make filters of a library whose expressions have Python's operators.

    Parameters: column: a function that returns the expression of a column. is_in: the name of its method for a list.
    """

    both = staticmethod(operator.and_)
    either = staticmethod(operator.or_)
    negation = staticmethod(operator.invert)

    def __init__(self, column, is_in):
        self.column, self.is_in = column, is_in

    def compare(self, name, sign, value):
        return OPERATORS[sign](self.column(name), value)

    def one_of(self, name, values):
        return getattr(self.column(name), self.is_in)(values)

    def is_null(self, name):
        return self.column(name).is_null()


COMPARED = ["topic", "tags", "uniqKey", "queueId", "phyOffset", "queueOffset", "storeTimestamp", "size", "bornHost"]


def draw_filter(rng, table, make, depth=0):
    """Return a random filter.

    Parameters: make: has the methods column, compare, one_of, both, either, negation and is_null of one library.
    """
    if depth < 3 and rng.random() < 0.6:
        first, second = (draw_filter(rng, table, make, depth + 1) for _ in range(2))
        return rng.choice([make.both, make.both, make.either])(first, second)
    if rng.random() < 0.1:
        return make.negation(draw_filter(rng, table, make, depth + 1))
    name = rng.choice(COMPARED)
    values = draw_values(rng, table, name)
    kind = rng.randrange(6)
    if kind == 0 and name != "storeTimestamp":  # some releases of polars refuse a list of times
        return make.one_of(name, values)
    if kind == 1:
        return make.is_null(name)
    return make.compare(name, rng.choice(["==", "==", "==", "<", "<=", ">", ">=", "!="]), values[0])


def spied(monkeypatch, log):
    """Record the calls of a log's methods that read messages: the name of the method, and its arguments."""
    calls = []

    def spy(name, method):
        def call(*args, **options):
            calls.append((name, {"columns": (), **options}))
            return method(*args, **options)

        monkeypatch.setattr(log, name, call)

    for name in ("scan", "find_messages"):
        spy(name, getattr(log, name))
    return calls
