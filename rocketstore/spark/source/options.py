"""Parse the options of a read. Unknown, malformed and contradictory options raise an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple, Self

from rocketstore.disk.storage import URI, find_matches, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.messages.arguments import split_tags
from rocketstore.text_values import find_similar, parse_integer, parse_size, parse_time

LATEST, EARLIEST = -1, -2  # the numbers that Spark's Kafka source uses in JSON
TABLES = ("messages", "consumequeue", "index", "offsets")
STYLES = ("rocketmq", "kafka")
MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
ONE_BROKER = "a store belongs to one broker"
TIMES = 'JSON like {"topic": {"0": 1763712000000}}'
LEAST_PARTITION = 1 << 10  # bytes
DURATION = re.compile("([0-9]{1,12}) ?(ms|s|m|h)")
OFFSETS = 'earliest, latest, or JSON like {"topic": {"0": 23}}'
OTHER_WORDS = {
    "topic": "subscribe",
    "topics": "subscribe",
    "tag": "tags",
    "key": "keys",
    "queue": "queueIds",
    "since": "startingTimestamp",
    "until": "endingTimestamp",
}  # the keywords of Python and of the command line
NO_READ_OF_TABLE = (
    "Tables of CREATE TABLE and saveAsTable cannot be read, since Spark does not pass their options to queries: use "
    "CREATE TEMPORARY VIEW name USING rocketstore OPTIONS (path '/data/store')"
)
PRECEDENCE = (
    ("startingTimestamp", "startingOffsets"),
    ("startingTimestamp", "startingOffsetsByTimestamp"),
    ("startingOffsetsByTimestamp", "startingOffsets"),
    ("endingTimestamp", "endingOffsets"),
)  # the first takes precedence over the second, as in Spark's Kafka source
ALIASES = {"includeproperties": "includeheaders"}


class StartingOffsets(NamedTuple):
    """The queue offsets where a read begins or ends.

    Attributes
    ----------
    default : EARLIEST or LATEST, for queues without an offset of their own.
    queues : queue offsets by topic and queue id.
    broker : the name of the broker that the option gives, or None.
    until : a physical offset. Messages there or later are read whatever their queue offsets are, because a queue that
        is created again starts with low queue offsets.
    """

    default: int
    queues: dict[str, dict[int, int]]
    broker: str | None = None
    until: int = LONG_MAX

    def all_offsets(self) -> set[int]:
        return {self.default, *(offset for of_topic in self.queues.values() for offset in of_topic.values())}


# ---- the forms of options --------------------------------------------------------------------------------


def absolute_path(text: str) -> str:
    if not (text.startswith(("/", "file:/")) or URI.match(text)):
        raise ValueError("must be absolute, or a URI: a relative path may be another directory on each machine")
    return text


def several_paths(text: str) -> tuple[str, ...]:
    """Parse a JSON array of paths, as ``load([a, b])`` passes them."""
    found = json.loads(text)
    if not isinstance(found, list) or not found or not all(isinstance(path, str) for path in found):
        raise ValueError('must be JSON like ["/data/a", "/data/b"]')
    return tuple(map(absolute_path, found))


def split_path(text: str) -> tuple[str, ...] | None:
    """Return the paths of several stores: of a pattern, or of a text with commas. None for the path of one store.

    The path of an existing directory is one store, whatever its name is.
    """
    parts = tuple(part.strip() for part in text.split(","))
    if len(parts) > 1 and not to_path(text).exists():
        return tuple(map(absolute_path, parts))
    return None if find_matches(to_path(text)) is None else (text,)


def choice(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for value in values:
            if text.lower() == value.lower():
                return value
        raise ValueError(f"must be one of {', '.join(values)}")

    return parse


def boolean(text: str) -> bool:
    return choice("true", "false")(text) == "true"


def number(text: str) -> int:
    value = parse_integer(text.strip())
    if not LONG_MIN <= value <= LONG_MAX:
        raise ValueError("must be an integer of 64 bits")
    return value


def positive(text: str) -> int:
    if number(text) < 1:
        raise ValueError("must be at least 1")
    return int(text)


def byte_size(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise ValueError("must be a number of bytes, at least 1")
    return size


def partition_size(text: str) -> int:
    size = byte_size(text)
    if size < LEAST_PARTITION:
        raise ValueError("must be at least 1k: a number without a unit is a number of bytes")
    return size


def point_in_time(text: str) -> int:
    return parse_time(text.strip())


def duration(text: str) -> int:
    """Parse a duration, as milliseconds: a number and a unit."""
    match = DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("must be a number with a unit, such as 30s, 15m or 2h")
    return int(match[1]) * {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}[match[2]]


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise ValueError("must be names separated by commas, each name once")
    return found


def words(text: str) -> tuple[str, ...]:
    found = tuple(word for word in text.split(" ") if word)
    if not found:
        raise ValueError("must be keys separated by spaces, as in the property KEYS")
    return found


def tags(text: str) -> str | None:
    wanted = split_tags(text.strip())
    if wanted is None:
        return None
    if not wanted:
        raise ValueError("names no tag: must be tags separated by ||, or *")
    return text


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


def queue_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{value!r} is not a queue id")
    return value


def like(example: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of JSON that raises ValueError with an example if the JSON has another form."""

    def parse_json(text: str) -> Any:
        try:
            return parse(text)
        except (json.JSONDecodeError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"must be {example}") from None

    return parse_json


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises: ValueError for a repeated name, of which ``json`` would use the last silently."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"has a repeated name: {', '.join(name for name, _ in pairs)}")
    return found


@partial(like, 'JSON like {"topic": [0, 1]}')
def assignment(text: str) -> dict[str, frozenset[int]]:
    given = json.loads(text, object_pairs_hook=each_once)
    return {topic: frozenset(map(queue_id, ids)) for topic, ids in given.items()}


@partial(like, OFFSETS)
def offsets(text: str) -> StartingOffsets:
    """Parse "earliest", "latest", {"topic": {"queue id": offset}} or {"topic": {"broker": {"queue id": offset}}}."""
    if text.lower() in ("earliest", "latest"):
        return StartingOffsets(EARLIEST if text.lower() == "earliest" else LATEST, {})
    queues: dict[str, dict[int, int]] = {}
    brokers: dict[str, None] = {}
    for topic, of_topic in json.loads(text, object_pairs_hook=each_once).items():
        named = [name for name, inner in of_topic.items() if isinstance(inner, dict)]
        if named and len(of_topic) > 1:
            raise ValueError(f"topic {topic!r} has {', '.join(of_topic)}: {ONE_BROKER}")
        brokers |= dict.fromkeys(named)
        numbers = of_topic[named[0]] if named else of_topic
        queues[topic] = {queue_id(number(name)): offset for name, offset in numbers.items()}
        if len(queues[topic]) < len(numbers):
            raise ValueError(f"topic {topic!r} has a queue twice: {', '.join(numbers)}")
        for offset in queues[topic].values():
            if isinstance(offset, bool) or not isinstance(offset, int) or not EARLIEST <= offset < 2**63:
                raise ValueError(f"{offset!r} is not a queue offset, nor -2 for earliest or -1 for latest")
    if len(brokers) > 1:
        raise ValueError(f"names brokers {', '.join(brokers)}: {ONE_BROKER}")
    return StartingOffsets(EARLIEST, queues, next(iter(brokers), None))


@partial(like, TIMES)
def times_of_queues(text: str) -> dict[str, dict[int, int]]:
    """Parse {"topic": {"queue id": time}}. A time is epoch milliseconds, or a text for ``point_in_time``."""
    times: dict[str, dict[int, int]] = {}
    for topic, of_topic in json.loads(text, object_pairs_hook=each_once).items():
        times[topic] = {queue_id(number(name)): point_in_time(str(when)) for name, when in of_topic.items()}
        if len(times[topic]) < len(of_topic):
            raise ValueError(f"topic {topic!r} has a queue twice: {', '.join(of_topic)}")
    return times


def ending(text: str) -> StartingOffsets:
    found: StartingOffsets = offsets(text)
    return found if text.lower() == "earliest" else found._replace(default=LATEST)


def hint(name: str) -> str:
    """Return a question that names the option which an unknown one probably means; an empty string without one."""
    meant = OTHER_WORDS.get(name.lower()) or find_similar(name, NAMES.values())
    return f"did you mean {meant}? " if meant else ""


# ---- options ---------------------------------------------------------------------------------------------


def option(parse: Callable[[str], Any], default: Any = None) -> Any:
    return field(default=default, metadata={"parse": parse})


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of a read, by their names in snake_case. An option that was not given is None or its default."""

    path: str | StorePath = field(metadata={"parse": absolute_path})
    table: str = option(choice(*TABLES), "messages")
    assign: dict[str, frozenset[int]] | None = option(assignment)
    subscribe: frozenset[str] | None = option(lambda text: frozenset(names(text)))
    subscribe_pattern: str | None = option(pattern)
    queue_ids: frozenset[int] | None = option(lambda text: frozenset(queue_id(number(name)) for name in names(text)))
    tags: str | None = option(tags)
    keys: tuple[str, ...] | None = option(words)
    starting_offsets: StartingOffsets | None = option(offsets)
    ending_offsets: StartingOffsets | None = option(ending)
    starting_offsets_by_timestamp: dict[str, dict[int, int]] | None = option(times_of_queues)
    starting_timestamp: int | None = option(point_in_time)
    ending_timestamp: int | None = option(point_in_time)
    exact_times: bool = option(boolean, False)
    starting_phy_offset: int | None = option(number)
    ending_phy_offset: int | None = option(number)
    columns: tuple[str, ...] | None = option(names)
    include_headers: bool = option(boolean, False)
    schema_style: str = option(choice(*STYLES), "rocketmq")
    min_partitions: int = option(positive, 1)
    max_partition_bytes: int = option(partition_size, 1 << 30)
    batch_size: int = option(positive, 16384)
    max_batch_bytes: int = option(byte_size, 16 << 20)
    max_offsets_per_trigger: int | None = option(positive)
    max_bytes_per_trigger: int | None = option(byte_size)
    max_files_per_trigger: int | None = option(positive)
    min_offsets_per_trigger: int | None = option(positive)
    max_trigger_delay: int = option(duration, 900_000)
    fail_on_data_loss: bool = option(boolean, True)
    mode: str = option(choice(*MODES), "FAILFAST")
    verify_crc: bool | None = option(boolean)
    containers: bool = option(boolean, False)
    leftovers: bool = option(boolean, False)
    tiered: bool = option(boolean, False)
    tier: str | None = option(absolute_path)
    compacted: bool = option(boolean, False)
    broker_name: str | None = option(str)
    pushdown: bool = option(boolean, False)
    plan: str = option(choice("auto", "scan"), "auto")
    max_hash_slot_num: int | None = option(positive)
    max_index_num: int | None = option(positive)
    paths: tuple[str, ...] | None = option(several_paths)

    @classmethod
    def parse(cls, options: Mapping[str, str | None], *, streaming: bool | None = None) -> Self:
        """Parse the options that Spark passes. Their names have any case.

        Parameters: streaming: whether the read is a stream; None if that is not known yet.
        Raises: ValueError that names the option that is unknown, malformed, or contradicts another option.
        """
        if "provider" in options:  # an option that CREATE TABLE adds
            raise ValueError(NO_READ_OF_TABLE)
        given = {}
        for name, text in options.items():
            known = NAMES.get(ALIASES.get(name.lower(), name.lower()))
            if known is None:
                raise ValueError(f"option {name!r} is unknown: {hint(name)}the options are {', '.join(NAMES.values())}")
            if text is None:  # option(name, None) means that the option is not given
                continue
            try:
                given[known] = FIELDS[known].metadata["parse"](text)
            except ValueError as error:
                shown = known if name.lower() == known.lower() else name
                raise ValueError(f"option {shown}={text!r}: {error}") from None
        given = with_paths(given)
        if "path" not in given:
            raise ValueError(
                f"option path: give the directory of a store, as in load('/data/store'). {NO_READ_OF_TABLE}"
            )
        for better, name in PRECEDENCE:
            if better in given:
                given.pop(name, None)
        check(given, streaming)
        self = cls(**{FIELDS[name].name: value for name, value in given.items()})
        self._check_offsets("startingOffsets", self.starting_offsets)
        self._check_offsets("endingOffsets", self.ending_offsets)
        self._check_queues("startingOffsetsByTimestamp", self.starting_offsets_by_timestamp or {})
        return self

    @property
    def reads_tier(self) -> bool:
        """Whether messages that are only in tiered storage are read too."""
        return self.tiered or self.tier is not None

    def _check_offsets(self, name: str, offsets: StartingOffsets | None) -> None:
        self._check_queues(name, {} if offsets is None else offsets.queues)

    def _check_queues(self, name: str, queues: Mapping[str, Mapping[int, int]]) -> None:
        for topic, id in ((topic, id) for topic, ids in queues.items() for id in ids):
            if not self.wants(topic, id):
                raise ValueError(f"option {name}: queue {id} of {topic!r} is not among the selected queues")

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics to read, if the options name each of them; otherwise None."""
        return self.subscribe if self.assign is None else frozenset(self.assign)

    @property
    def wanted_queue_ids(self) -> frozenset[int] | None:
        """The ids of the queues to read; None for all. With ``assign``, not every topic has every id."""
        return self.queue_ids if self.assign is None else frozenset().union(*self.assign.values())

    def wants(self, topic: str, queue_id: int) -> bool:
        """Return whether a queue is selected."""
        if self.assign is not None:
            return queue_id in self.assign.get(topic, ())
        return self.wants_topic(topic) and (self.queue_ids is None or queue_id in self.queue_ids)

    def wants_topic(self, topic: str) -> bool:
        """Return whether queues of a topic may be selected."""
        if self.topics is not None and topic not in self.topics:
            return False
        return self.subscribe_pattern is None or re.fullmatch(self.subscribe_pattern, topic) is not None


# ---- which options may be combined -----------------------------------------------------------------------

# config.camel_case is not used here: it would write verifyCRC, as RocketMQ does.
FIELDS = {re.sub("_(.)", lambda match: match[1].upper(), entry.name): entry for entry in fields(ReadOptions)}
NAMES = {name.lower(): name for name in FIELDS}
OF_ALL_TABLES = {"path", "paths", "table", "columns", "batchSize"}
OF_QUEUES = {"assign", "subscribe", "subscribePattern", "queueIds"}
OF_INDEX = {"maxHashSlotNum", "maxIndexNum"}
OF_TIER = {"tiered", "tier"}
OF_OTHER_LOGS = {*OF_TIER, "compacted"}
OF_LOG = {"startingPhyOffset", "endingPhyOffset"}
OF_TABLES = {
    "messages": FIELDS.keys() - OF_INDEX,
    "consumequeue": OF_ALL_TABLES | OF_QUEUES | OF_TIER | {"leftovers"},
    "index": OF_ALL_TABLES | OF_INDEX,
    "offsets": OF_ALL_TABLES | OF_QUEUES | OF_OTHER_LOGS | {"leftovers"},
}
OF_STREAMS = {"maxOffsetsPerTrigger", "maxBytesPerTrigger", "maxFilesPerTrigger"}
OF_STREAMS |= {"minOffsetsPerTrigger", "maxTriggerDelay"}
OF_ONE_STORE = {"brokerName", "tier", "startingPhyOffset", "endingPhyOffset"}
OF_BATCHES = {"endingOffsets", "endingTimestamp", "endingPhyOffset", "plan"}
EXCLUSIVE = (
    ("assign", "subscribe", "subscribePattern"),
    ("assign", "queueIds"),
    ("columns", "includeHeaders"),
)


def check(given: dict[str, Any], streaming: bool | None) -> None:
    """Raise ValueError if options contradict one another, the table, or the kind of query."""
    table = given.get("table", "messages")
    for group in EXCLUSIVE:
        if len(both := [name for name in group if name in given]) > 1:
            raise ValueError(f"options {' and '.join(both)}: give only one of them")
    allowed = OF_TABLES[table]
    if others := sorted(given.keys() - allowed):
        raise ValueError(f"option {others[0]}: table {table} has only the options {', '.join(sorted(allowed))}")
    check_broker(given)
    check_other_logs(given, streaming)
    check_paths(given, streaming)
    if len(half := OF_INDEX & given.keys()) == 1:
        raise ValueError(f"option {half.pop()}: give both maxHashSlotNum and maxIndexNum, or none")
    if streaming is None:
        return
    if streaming and table != "messages":
        raise ValueError(f"option table={table!r}: only messages can be streamed")
    if wrong := sorted(given.keys() & (OF_BATCHES if streaming else OF_STREAMS)):
        reason = "only batch queries have it, a stream has no end" if streaming else "only streams have it"
        raise ValueError(f"option {wrong[0]}: {reason}")
    for name, never, what in (("startingOffsets", LATEST, "latest"), ("endingOffsets", EARLIEST, "earliest")):
        if not streaming and name in given and never in given[name].all_offsets():
            raise ValueError(f"option {name}: with {what} ({never}) a batch query would read nothing")


def with_paths(given: dict[str, Any]) -> dict[str, Any]:
    """Return options with ``paths`` if ``path`` names several stores, and with ``path`` if ``paths`` is given."""
    if "paths" in given:
        if "path" in given:
            raise ValueError("options path, paths: give only one of them")
        return {"path": ",".join(given["paths"])} | given
    several = split_path(given["path"]) if "path" in given else None
    return given if several is None else given | {"paths": several}


def check_paths(given: dict[str, Any], streaming: bool | None) -> None:
    """Raise ValueError if several stores are given with options of one store, or for a stream."""
    if "paths" not in given:
        return
    if streaming:
        raise ValueError("option path: a stream reads one store: begin a stream for each, and combine them by union")
    named = [name for name in ("startingOffsets", "endingOffsets") if name in given and given[name].queues]
    if wrong := sorted([*(OF_ONE_STORE & given.keys()), *named]):
        raise ValueError(f"option {wrong[0]}: is of one store: give one path")


def check_other_logs(given: dict[str, Any], streaming: bool | None) -> None:
    """Raise ValueError if options of tiered storage or compaction are given for a part of the log, or for a stream."""
    others = sorted(name for name in OF_OTHER_LOGS if given.get(name))
    if not others:
        return
    if streaming:
        raise ValueError(f"option {others[0]}: a stream reads only the log: read the older messages by a batch query")
    if places := sorted(OF_LOG & given.keys()):
        reason = "messages outside of the log have no physical offset"
        raise ValueError(f"options {places[0]} and {others[0]}: give only one of them: {reason}")


def check_broker(given: dict[str, Any]) -> None:
    """Raise ValueError if options name more than one broker."""
    names: dict[str, str | None] = {"brokerName": given.get("brokerName")}
    names |= {name: given[name].broker for name in ("startingOffsets", "endingOffsets") if name in given}
    brokers = {name: broker for name, broker in names.items() if broker is not None}
    if len(set(brokers.values())) > 1:
        raise ValueError(f"options {' and '.join(brokers)}: brokers {', '.join(brokers.values())}: {ONE_BROKER}")
