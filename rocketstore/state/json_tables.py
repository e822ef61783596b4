"""JsonTables: a broker's tables in the files config/*.json, each with the state before it in a .bak file."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple

from rocketstore.config import camel_case
from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.held_directory import HeldDirectory, exists
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.state.broker_tables import ConfigProblem, TableContents
from rocketstore.state.config_checks import OTHER_FILES
from rocketstore.state.config_json import parse_json
from rocketstore.state.config_values import (
    LMQ_OFFSETS,
    OFFSETS,
    TOPIC_TABLE,
    TOPICS,
    TYPED_FILES,
    Decoder,
    TopicConfig,
    decode_bean,
    decode_lmq_offset_table,
    decode_pull_offsets,
    decode_topics,
    decode_version,
)

QUEUE_TYPE, SIMPLE = "queue.type", "SimpleCQ"
MAX_SIZE = 256 << 20
MISSING = "is missing"
TRIES, PAUSE = 3, 0.01  # seconds: a broker may be writing
LIVE_SECONDS = 1.0  # after its last change a broker may still be writing the file
NO_FILE = f"is no regular file of at most {MAX_SIZE} bytes"


@dataclass(frozen=True)
class JsonTables:
    """The files of a broker's configuration. Nothing is kept open, and every call reads the files again.

    Attributes: directory: ``config`` of a store. replaced: the names of files that the broker does not use, because it
    has these tables in RocksDB: they are not read, and their tables are empty. offsets_file: the file of the consumers'
    offsets; None for the one that was changed last. Source: ConfigManager.
    """

    directory: StorePath
    replaced: Collection[str] = ()
    offsets_file: str | None = None

    def read_topics(self, *, must_be_good: bool = False) -> dict[str, TopicConfig]:
        """Read topics.json alone, as ``read_all`` does. The file of consumer offsets may be very large.

        Parameters: must_be_good: raise StoreError if all existing files are bad. Otherwise the result is then empty.
        """
        if TOPICS in self.replaced:
            return {}
        path = self.directory / TOPICS
        main, bak = _read_both(path, decode_topics)
        if must_be_good:
            _require_good(path, main, bak)
        return main.value or bak.value or {}

    def read_declared_topics(self) -> set[str]:
        """Return the topics in topics.json itself. Its .bak may have topics that were deleted, and may lack new ones.

        The result is empty if the file is missing or damaged.
        """
        if TOPICS in self.replaced:
            return set()
        main, _ = _read_both(self.directory / TOPICS, decode_topics)
        return {*(main.value or ())}

    def read_pull_offsets(self) -> dict[str, dict[str, dict[int, int]]]:
        """Read the pull offsets by group, topic and queue id. Empty if they are unknown."""
        if OFFSETS in self.replaced:
            return {}
        main, bak = _read_both(self.directory / OFFSETS, decode_pull_offsets)
        return main.value or bak.value or {}

    def read_all(self) -> TableContents:
        """Read all files. If the directory is missing, all tables are empty.

        Raises: FileNotFoundError if the store, which is the directory above, is missing. Source: ConfigManager.load.
        """
        parts: dict[str, Any] = {}
        problems = []
        for path, decode in self._files():
            if path.name in self.replaced:
                parts[path.name] = {}
                continue
            main, bak = _read_both(path, decode)
            parts[path.name] = main.value or bak.value or {}
            if bak.value is not None:
                problems.append(ConfigProblem(path, f"{main.what}; {_bak(path).name} is used"))
            elif main.value is None and (main.what, bak.what) != (MISSING, MISSING):
                problems += [ConfigProblem(path, main.what), ConfigProblem(_bak(path), bak.what)]
        offsets_file = self.offsets_file or self._find_newest_offsets()
        topics, groups, offsets, delay_offsets = (parts.pop(name) for name in TYPED_FILES)
        if offsets_file == LMQ_OFFSETS:
            offsets = decode_lmq_offset_table(parts[LMQ_OFFSETS])
        return TableContents(topics, groups, offsets, delay_offsets, parts, problems, offsets_file)

    def _find_newest_offsets(self) -> str:
        """Return the name of the file of consumers' offsets that was changed last, or whose .bak was."""
        changed = {
            path.name: max(_change_time(path), _change_time(_bak(path)))
            for path in (self.directory / OFFSETS, self.directory / LMQ_OFFSETS)
        }
        return max(changed, key=changed.__getitem__)

    def _files(self) -> list[tuple[StorePath, Decoder]]:
        if not self.directory.parent.is_dir():
            self.directory.parent.stat()
        return [(self.directory / name, decode) for name, decode in (TYPED_FILES | OTHER_FILES).items()]

    # ---- check and repair ----------------------------------------------------------------------------------

    def check(self) -> list[ConfigProblem]:
        """Read every file, each .bak too, and return the problems. Raises: as ``read_all``.

        A bad .bak is a problem even if its file is good, although a broker reads the .bak only if the file is bad.
        """
        problems = self.read_all().problems
        told = {problem.path for problem in problems}
        for path, decode in self._files():
            bak = _read_again(_bak(path), decode)
            if bak.what not in ("", MISSING) and told.isdisjoint((path, _bak(path))):
                problems.append(ConfigProblem(_bak(path), bak.what))
        return problems

    def repair(self, dry_run: bool = False) -> list[ConfigProblem]:
        """Copy each good .bak to its file, if the file is missing or cannot be decoded. No broker may be running.

        The bad file is kept as ``NAME.bad-<milliseconds>``. A file that the disk cannot read is left alone: it may be
        good.

        Parameters: dry_run: change nothing. Returns: the problems, and for each the repair that was, or would be, made.
        Raises: as ``read_all``; OSError.
        """
        done = []
        for file, decode in self._files():
            path = local_path(file)
            main, bak = _read_both(path, decode)
            if bak.data is None or bak.value is None or (main.data is None and main.what != MISSING):
                continue
            kept = _bad(path) if main.what != MISSING else None
            if not dry_run:
                replace_file(path, bak.data, like=_bak(path), kept=kept)
            what = f"{main.what}; made from {_bak(path).name}"
            done.append(ConfigProblem(path, f"{what}, the bad file is {kept.name}" if kept else what))
        return done

    # ---- write ---------------------------------------------------------------------------------------------

    def extend_topics(
        self,
        topics: Mapping[str, int],
        queue_types: Mapping[str, str] | None = None,
        *,
        held: HeldDirectory | None = None,
    ) -> bool:
        """Make topics.json, or extend it, so that a broker serves these topics. The caller holds the store's lock.

        Missing topics are added, topics with fewer queues get more, and everything else stays. The previous file
        becomes the .bak. If the previous file is bad and the .bak is good, the bad file is kept as
        ``NAME.bad-<milliseconds>``.

        Parameters: topics: numbers of queues. queue_types: the type, "SimpleCQ" or "BatchCQ", of topics that need one.
        held: the store's root, below which the files are made; None to use their paths.
        Returns: whether anything changed.
        Raises: ValueError if a topic exists with another type of queue; StoreError if all existing files are bad;
        OSError.
        Source: TopicConfigManager.encode, ConfigManager.persist.
        """
        path = local_path(self.directory) / TOPICS
        main, bak = _read_both(path, _topics_root)
        root = _good_root(path, main, bak)
        old = root.get(TOPIC_TABLE) or {}
        table = dict(old)
        for topic, queue_nums in topics.items():
            table[topic] = _with_queues(topic, table.get(topic), queue_nums, (queue_types or {}).get(topic))
        if table == old:
            return False
        data = _pretty({**root, "dataVersion": _next_version(root["dataVersion"]), TOPIC_TABLE: table})
        if held is not None:
            held.require_in_place()  # the files were read by their paths
        make_directory(path.parent, held)
        is_bad = main.data is not None and main.value is None
        if main.data is not None and not is_bad:
            replace_file(_bak(path), main.data, like=path, held=held)
        like = next((file for file in (path, _bak(path)) if exists(file, held)), None)
        replace_file(path, data, like=like, kept=_bad(path) if is_bad else None, held=held)
        return True


def _good_root(path: Path, main: _Read, bak: _Read) -> dict[str, Any]:
    if main.what == bak.what == MISSING:
        return {"dataVersion": {"counter": 0, "stateVersion": 0}}
    _require_good(path, main, bak)
    root: dict[str, Any] = bak.value if main.value is None else main.value
    return root


def _require_good(path: StorePath, main: _Read, bak: _Read) -> None:
    """Raise StoreError if all existing files are bad. A file that the disk cannot read may be newer than its .bak."""
    if main.value is not None or main.what == bak.what == MISSING:
        return
    if bak.value is None or (main.data is None and main.what != MISSING):
        raise StoreError(f"{path} {main.what}, {_bak(path).name} {bak.what or 'is good'}: repair or remove them first")


def _with_queues(topic: str, members: Any, queue_nums: int, queue_type: str | None) -> dict[str, Any]:
    """Return the members of a topic with at least ``queue_nums`` queues. Parameters: members: None for a new topic."""
    if not 1 <= queue_nums < 2**31 or queue_type not in (None, SIMPLE, "BatchCQ"):
        raise ValueError(f"{queue_nums} queues of type {queue_type} for topic {short(topic)}: cannot be")
    if members is None:
        attributes = {QUEUE_TYPE: queue_type} if queue_type else {}
        bean = vars(TopicConfig(topic, queue_nums, queue_nums, attributes=attributes))
        return {camel_case(name): bean[name] for name in sorted(bean)}
    old = decode_bean(TopicConfig, topic, members)
    if queue_type not in (None, old_type := old.attributes.get(QUEUE_TYPE, SIMPLE)):
        raise ValueError(f"topic {short(topic)} has queues of type {old_type}, which cannot become {queue_type}")
    numbers = {"readQueueNums": old.read_queue_nums, "writeQueueNums": old.write_queue_nums}
    return {**members, **{name: queue_nums for name, number in numbers.items() if number < queue_nums}}


def _next_version(version: dict[str, Any]) -> dict[str, Any]:
    """Source: DataVersion.nextVersion, whose AtomicLong wraps."""
    counter = decode_version(version)
    counter = LONG_MIN if counter == LONG_MAX else counter + 1
    return {**version, "counter": counter, "timestamp": time.time_ns() // 1_000_000}


def _pretty(root: dict[str, Any]) -> bytes:
    """Write JSON as fastjson does."""
    return json.dumps(root, ensure_ascii=False, indent="\t", separators=(",", ":"), allow_nan=False).encode()


class _Read(NamedTuple):
    value: Any = None  # None if the file is bad
    what: str = ""  # the problem of a bad file
    data: bytes | None = None  # None if the disk cannot read the file


def _bak(path: AnyPath) -> AnyPath:
    return path.with_name(f"{path.name}.bak")


def _bad(path: Path) -> Path:
    return path.with_name(f"{path.name}.bad-{time.time_ns() // 1_000_000}")


def _read_both(path: StorePath, decode: Decoder) -> tuple[_Read, _Read]:
    """Read a file and, if it is bad, its .bak. Repeat the reads for some time, since a broker may be writing."""
    main, bak, tries = _Read(), _Read(), 0
    while True:
        main = _read(path, decode, main)
        bak = _Read() if main.value is not None else _read(_bak(path), decode, bak)
        tries += 1
        is_final = main.value is not None or main.what == NO_FILE or main.what == bak.what == MISSING
        if is_final or (tries >= TRIES and not _is_being_written(path)):
            return main, bak
        time.sleep(PAUSE)


def _read_again(path: StorePath, decode: Decoder) -> _Read:
    """Read one file. Repeat the read for some time while the file is bad."""
    found, tries = _Read(), 0
    while True:
        found = _read(path, decode, found)
        tries += 1
        if found.what in ("", MISSING, NO_FILE) or (tries >= TRIES and not _is_being_written(path)):
            return found
        time.sleep(PAUSE)


def _is_being_written(path: StorePath) -> bool:
    """Return whether a broker may be writing a file now. A file like that is read again before it is called broken.

    A broker empties a file and then writes it, first the .bak and then the file. So a file that was changed a moment
    ago may be incomplete.

    Source: MixAll.string2File.
    """
    last = max(_change_time(path), _change_time(_bak(path)), _change_time(path.parent))
    return abs(time.time() - last) < LIVE_SECONDS


def _change_time(path: StorePath) -> float:
    """Return when a file was changed last, seconds since the epoch; 0 if the file cannot be found."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _read(path: StorePath, decode: Decoder, before: _Read) -> _Read:
    """Read a file. Parameters: before: the result of the last read, which is returned if the bytes are the same."""
    data = None
    try:
        data = read_small_file(path, MAX_SIZE)
        if data == before.data:
            return before
        return _Read(decode(_parse_root(data)), "", data)
    except FileNotFoundError:
        return _Read(None, MISSING)
    except (CorruptFileError, IsADirectoryError):
        return _Read(None, NO_FILE)
    except OSError as error:
        return _Read(None, f"cannot be read: {error.strerror}")
    except RecursionError:
        return _Read(None, "cannot be decoded: it is nested too deeply", data)
    except ValueError as error:
        return _Read(None, f"cannot be decoded: {error}" if data else "is empty", data)


def _parse_root(data: bytes) -> dict[str, Any]:
    """Parse a configuration file. JSON null becomes an empty object. Raises: ValueError, RecursionError."""
    root = parse_json(data)
    if not isinstance(root, dict | None):
        raise ValueError(f"an object was expected, not {short(root)}")
    return root or {}


def _topics_root(root: dict[str, Any]) -> dict[str, Any]:
    """Return the parsed topics.json with a dataVersion. Raises: ValueError if the broker would refuse the file."""
    decode_topics(root)
    return {**root, "dataVersion": root.get("dataVersion", {})}


def batch_topics(topics: Mapping[str, TopicConfig]) -> set[str]:
    """Return the topics that have batch queues. Source: QueueTypeUtils.getCQType."""
    return {name for name, topic in topics.items() if topic.attributes.get("queue.type") == "BatchCQ"}
