"""What a broker keeps beside its messages: config/*.json, each with the state before it in a .bak file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple, Self

from rocketstore.config import camel_case
from rocketstore.disk.create import create_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.files.mapped_file import make_directory, sync, sync_path
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.storage import local_path, to_path

__all__ = ["BrokerConfig", "ConfigProblem", "SubscriptionGroupConfig", "TopicConfig", "check", "extend_topics"]
__all__ += ["read_topics", "repair", "replace_file"]

TOPICS, TOPIC_TABLE = "topics.json", "topicConfigTable"
QUEUE_TYPE, SIMPLE = "queue.type", "SimpleCQ"
MAX_SIZE = 256 << 20
MISSING = "is missing"
TRIES, PAUSE = 3, 0.01  # seconds: a broker may be writing
LONG_FIELDS = ("broker_id", "which_broker_when_consume_slowly")
# A string, closed or not; or an integer in the place of a name, which fastjson writes without quotes.
INTEGER_KEY = re.compile(r'"(?:[^"\\]++|\\.)*+"?|([{,][ \t\r\n]*+)(-?[0-9]++)(?=[ \t\r\n]*+:)', re.DOTALL)
Decoder = Callable[[dict[str, Any]], Any]


class ConfigProblem(NamedTuple):
    """A file of the configuration and what is wrong with it."""

    path: Path
    what: str


@dataclass(frozen=True)
class TopicConfig:
    """A topic of topics.json; ``perm`` is 4 to read plus 2 to write. Source: TopicConfig."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SubscriptionGroupConfig:
    """A consumer group of subscriptionGroup.json. Source: SubscriptionGroupConfig."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"}, hash=False)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] = field(default_factory=list, hash=False)
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class BrokerConfig:
    """The configuration of a broker; a part whose file and .bak are both missing or damaged is empty.

    ``topics``, ``subscription_groups``: by name. ``consumer_offsets``: the queue offset to be consumed next, by group,
    topic and queue id. ``delay_offsets``: the one to be delivered next, by delay level; level 1 is queue 0 of
    SCHEDULE_TOPIC_XXXX. ``others``: by file name, the other files as parsed JSON. ``problems``: what is wrong.

    Source: ConfigManager.load.
    """

    topics: dict[str, TopicConfig]
    subscription_groups: dict[str, SubscriptionGroupConfig]
    consumer_offsets: dict[str, dict[str, dict[int, int]]]
    delay_offsets: dict[int, int]
    others: dict[str, dict[str, Any]]
    problems: list[ConfigProblem]

    @classmethod
    def open(cls, store_path_root_dir: str | os.PathLike[str]) -> Self:
        """Read the ``config`` of a store; without one all is empty. Raises FileNotFoundError without a store."""
        parts: dict[str, Any] = {}
        problems = []
        for path, decode in _files(store_path_root_dir):
            main, bak = _read_both(path, decode)
            parts[path.name] = main.value or bak.value or {}
            if bak.value is not None:
                problems.append(ConfigProblem(path, f"{main.what}; {_bak(path).name} is used"))
            elif main.value is None and (main.what, bak.what) != (MISSING, MISSING):
                problems += [ConfigProblem(path, main.what), ConfigProblem(_bak(path), bak.what)]
        return cls(*[parts.pop(name) for name in TYPED_FILES] + [parts, problems])

    def next_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Give (group, topic, queue id, queue offset to be consumed next), sorted."""
        for group, topics in sorted(self.consumer_offsets.items()):
            for topic, offsets in sorted(topics.items()):
                yield from ((group, topic, queue_id, offset) for queue_id, offset in sorted(offsets.items()))


def read_topics(store_path_root_dir: str | os.PathLike[str], *, must_be_good: bool = False) -> dict[str, TopicConfig]:
    """Read topics.json as ``BrokerConfig.open`` does, and no other file: consumers' offsets may be very many.

    Parameters: must_be_good: raise StoreError where only bad files are there, which otherwise are no topics.
    """
    path = to_path(store_path_root_dir) / "config" / TOPICS
    main, bak = _read_both(path, TYPED_FILES[TOPICS])
    if must_be_good:
        _require_good(path, main, bak)
    return main.value or bak.value or {}


def check(store_path_root_dir: str | os.PathLike[str]) -> list[ConfigProblem]:
    """Read every file of a store's configuration and give what is wrong with it. Raises FileNotFoundError.

    Also a .bak that is not used as long as its file is good.
    """
    problems = BrokerConfig.open(store_path_root_dir).problems
    told = {problem.path for problem in problems}
    for path, decode in _files(store_path_root_dir):
        bak = _read_again(_bak(path), decode)
        if bak.what not in ("", MISSING) and told.isdisjoint((path, _bak(path))):
            problems.append(ConfigProblem(_bak(path), bak.what))
    return problems


def repair(store_path_root_dir: str | os.PathLike[str], dry_run: bool = False) -> list[ConfigProblem]:
    """Make each file that is missing or cannot be decoded from its .bak, if that is good; no broker may be running.

    The bad file is kept as ``NAME.bad-<milliseconds>``. One that cannot be read at all is left alone: it may be good.
    Parameters: dry_run: change nothing. Returns: what was wrong and was, or would be, done about it. Raises: OSError.
    """
    done = []
    for path, decode in _files(local_path(store_path_root_dir)):
        main, bak = _read_both(path, decode)
        if bak.data is None or bak.value is None or (main.data is None and main.what != MISSING):
            continue
        kept = _bad(path) if main.what != MISSING else None
        if not dry_run:
            replace_file(path, bak.data, like=_bak(path), kept=kept)
        what = f"{main.what}; made from {_bak(path).name}"
        done.append(ConfigProblem(path, f"{what}, the bad file is {kept.name}" if kept else what))
    return done


def extend_topics(
    store_path_root_dir: str | os.PathLike[str],
    topics: Mapping[str, int],
    queue_types: Mapping[str, str] | None = None,
) -> bool:
    """Make topics.json, or extend it, for a broker to serve these topics; whoever calls has the store's lock.

    Topics that are missing are added, those with fewer queues get more, and all else stays. The file of before is then
    the .bak; a bad one, where the .bak is good, is kept as ``NAME.bad-<milliseconds>``.
    Parameters: topics: numbers of queues. queue_types: "SimpleCQ" or "BatchCQ", for topics that are to be of one.
    Returns: whether anything changed.
    Raises: ValueError if a topic is there with another type of queue; StoreError if only bad files are there; OSError.
    Source: TopicConfigManager.encode, ConfigManager.persist.
    """
    path = Path(store_path_root_dir, "config", TOPICS)
    main, bak = _read_both(path, _topics_root)
    root = _good_root(path, main, bak)
    old = root.get(TOPIC_TABLE) or {}
    table = dict(old)
    for topic, queue_nums in topics.items():
        table[topic] = _with_queues(topic, table.get(topic), queue_nums, (queue_types or {}).get(topic))
    if table == old:
        return False
    data = _pretty({**root, "dataVersion": _next_version(root["dataVersion"]), TOPIC_TABLE: table})
    make_directory(path.parent)
    is_bad = main.data is not None and main.value is None
    if main.data is not None and not is_bad:
        replace_file(_bak(path), main.data, like=path)
    like = next(filter(Path.exists, (path, _bak(path))), None)
    replace_file(path, data, like=like, kept=_bad(path) if is_bad else None)
    return True


def _good_root(path: Path, main: _Read, bak: _Read) -> dict[str, Any]:
    if main.what == bak.what == MISSING:
        return {"dataVersion": {"counter": 0, "stateVersion": 0}}
    _require_good(path, main, bak)
    root: dict[str, Any] = bak.value if main.value is None else main.value
    return root


def _require_good(path: Path, main: _Read, bak: _Read) -> None:
    """Raise StoreError if a file is there and none is good. One that cannot be read may be better than its .bak."""
    if main.value is not None or main.what == bak.what == MISSING:
        return
    if bak.value is None or (main.data is None and main.what != MISSING):
        raise StoreError(f"{path} {main.what}, {_bak(path).name} {bak.what or 'is good'}: repair or remove them first")


def _with_queues(topic: str, members: Any, queue_nums: int, queue_type: str | None) -> dict[str, Any]:
    """Give a topic of topics.json at least so many queues, and make it if ``members`` is None."""
    if not 1 <= queue_nums < 2**31 or queue_type not in (None, SIMPLE, "BatchCQ"):
        raise ValueError(f"{queue_nums} queues of type {queue_type} for topic {short(topic)}: cannot be")
    if members is None:
        attributes = {QUEUE_TYPE: queue_type} if queue_type else {}
        bean = vars(TopicConfig(topic, queue_nums, queue_nums, attributes=attributes))
        return {camel_case(name): bean[name] for name in sorted(bean)}
    old = _bean(TopicConfig, topic, members)
    if queue_type not in (None, old_type := old.attributes.get(QUEUE_TYPE, SIMPLE)):
        raise ValueError(f"topic {short(topic)} has queues of type {old_type}, which cannot become {queue_type}")
    numbers = {"readQueueNums": old.read_queue_nums, "writeQueueNums": old.write_queue_nums}
    return {**members, **{name: queue_nums for name, number in numbers.items() if number < queue_nums}}


def _next_version(version: dict[str, Any]) -> dict[str, Any]:
    """Source: DataVersion.nextVersion, whose AtomicLong wraps."""
    counter = version.get("counter", 0)
    counter = LONG_MIN if counter == LONG_MAX else counter + 1
    return {**version, "counter": counter, "timestamp": time.time_ns() // 1_000_000}


def _pretty(root: dict[str, Any]) -> bytes:
    """Write JSON as fastjson does."""
    return json.dumps(root, ensure_ascii=False, indent="\t", separators=(",", ":")).encode()


class _Read(NamedTuple):
    value: Any = None  # None if the file is not good
    what: str = ""  # is wrong with it
    data: bytes | None = None  # None if it could not be read


def _bak(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def _bad(path: Path) -> Path:
    return path.with_name(f"{path.name}.bad-{time.time_ns() // 1_000_000}")


def _files(store_path_root_dir: str | os.PathLike[str]) -> list[tuple[Path, Decoder]]:
    root = to_path(store_path_root_dir)
    if not root.is_dir():
        root.stat()
    return [(root / "config" / name, decode) for name, decode in (TYPED_FILES | OTHER_FILES).items()]


def _read_both(path: Path, decode: Decoder) -> tuple[_Read, _Read]:
    """Read a file and, if it is not good, its .bak: again and again, since a broker may be writing."""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        main, bak = _read(path, decode), _Read()
        if main.value is not None:
            break
        bak = _read(_bak(path), decode)
        if main.what == bak.what == MISSING:
            break
    return main, bak


def _read_again(path: Path, decode: Decoder) -> _Read:
    """Read one file, again and again if it is not good."""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        found = _read(path, decode)
        if found.what in ("", MISSING):
            break
    return found


def _read(path: Path, decode: Decoder) -> _Read:
    data = None
    try:
        data = read_small_file(path, MAX_SIZE)
        return _Read(decode(parse_json(data)), "", data)
    except FileNotFoundError:
        return _Read(None, MISSING)
    except (CorruptFileError, IsADirectoryError):
        return _Read(None, f"is no regular file of at most {MAX_SIZE} bytes")
    except OSError as error:
        return _Read(None, f"cannot be read: {error.strerror}")
    except RecursionError:
        return _Read(None, "cannot be decoded: it is nested too deeply", data)
    except ValueError as error:
        return _Read(None, f"cannot be decoded: {error}" if data else "is empty", data)


def replace_file(path: Path, data: bytes, *, like: Path | None = None, kept: Path | None = None) -> None:
    """Put ``data`` in the place of a file: after a crash either is there, and whole.

    Parameters: like: the file whose mode and owner it gets. kept: another name that the file of before keeps.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    temporary.unlink(missing_ok=True)  # what a process that was killed has left
    with os.fdopen(create_file(temporary), "wb") as file:
        try:
            if like:
                status = like.stat()
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
            file.write(data)
            file.flush()
            sync(file.fileno())
            if kept:
                kept.hardlink_to(path)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)  # Ctrl-C may come when it has its name
            raise
    sync_path(path.parent)


def parse_json(data: bytes) -> dict[str, Any]:
    """Parse an object as fastjson writes it. Raises: ValueError, also for names given twice and NaN; RecursionError."""
    text = data.decode("utf-8")
    text = INTEGER_KEY.sub(lambda found: f'{found[1]}"{found[2]}"' if found[2] else found[0], text)
    root = json.loads(text, object_pairs_hook=_members, parse_int=_number, parse_float=_number, parse_constant=_number)
    if "\\u" in text:
        json.dumps(root, ensure_ascii=False).encode("utf-8")  # refuses half a surrogate pair
    return _object(root, "the file")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(f"a name is there twice: {short(sorted(name for name, _ in pairs))}")
    return members


def _number(text: str) -> int | float:
    value = int(text) if len(text) <= 20 and text.lstrip("-").isdigit() else float(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{short(text)} is no number that fits a long")
    return value


def _object(value: Any, what: str) -> dict[str, Any]:
    """Give a JSON object; null is an empty one."""
    if not isinstance(value, dict | None):
        raise ValueError(f"{what} must be an object, not {short(value)}")
    return value or {}


def _beans(table: str, kind: type[TopicConfig | SubscriptionGroupConfig]) -> Decoder:
    """Give the decoder of a file whose member ``table`` has beans by name."""
    return lambda root: {name: _bean(kind, name, value) for name, value in _object(root.get(table), table).items()}


def _bean(kind: type[Any], name: str, value: Any) -> Any:
    members = _object(value, short(name))
    bean = dict(vars(kind(name)))
    for key, default in bean.items():
        given = members.get(camel_case(key))
        if given is None:
            continue
        too_long = type(given) is int and key not in LONG_FIELDS and not -(2**31) <= given < 2**31
        no_text = key == "attributes" and isinstance(given, dict) and set(map(type, given.values())) - {str}
        if type(given) is not type(default) or too_long or no_text:
            raise ValueError(f"{camel_case(key)} of {short(name)} must not be {short(given)}")
        bean[key] = given
    return kind(**bean)


def _consumer_offsets(root: dict[str, Any]) -> dict[str, dict[str, dict[int, int]]]:
    groups: dict[str, dict[str, dict[int, int]]] = {}
    for key, offsets in _object(root.get("offsetTable"), "offsetTable").items():
        topic, _, group = key.partition("@")
        groups.setdefault(group, {})[topic] = _offsets(offsets, key)
    return groups


def _offsets(value: Any, what: str) -> dict[int, int]:
    members = _object(value, short(what))
    for key, offset in members.items():
        if not re.fullmatch("0|-?[1-9][0-9]{0,9}", key) or type(offset) is not int:
            raise ValueError(f"{short(what)} must not have {short(key)}: {short(offset)}")
    return {int(key): offset for key, offset in members.items()}


def _topics_root(root: dict[str, Any]) -> dict[str, Any]:
    """Give topics.json as it is, if it is good. The version is not looked at by those who only read."""
    TYPED_FILES[TOPICS](root)
    version = _object(root.get("dataVersion"), "dataVersion")
    if type(version.get("counter", 0)) is not int:
        raise ValueError(f"counter of dataVersion must not be {short(version['counter'])}")
    return {**root, "dataVersion": version}


TYPED_FILES: dict[str, Decoder] = {
    TOPICS: _beans(TOPIC_TABLE, TopicConfig),
    "subscriptionGroup.json": _beans("subscriptionGroupTable", SubscriptionGroupConfig),
    "consumerOffset.json": _consumer_offsets,
    "delayOffset.json": lambda root: _offsets(root.get("offsetTable"), "offsetTable"),
}
OTHER_FILES: dict[str, Decoder] = {
    **dict.fromkeys(["lmqConsumerOffset.json", "consumerFilter.json", "consumerOrderInfo.json"], dict),
    **dict.fromkeys(["messageRequestMode.json", "topicQueueMapping.json", "timermetrics", "transactionMetrics"], dict),
}
