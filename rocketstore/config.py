"""StoreConfig: how a store is laid out, written and recovered. It can be read from a broker's properties file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self, TypeVar

from rocketstore.broker_file import BrokerFile, read_properties, warn_once
from rocketstore.compat import DEFAULT_COMPAT, OLDEST, TAKEN_SINCE, Compat, parse_release
from rocketstore.disk.rocksdb.linked_files import REMOTE_COPY_LIMIT
from rocketstore.disk.storage import expand_home, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.java_text import parse_boolean, parse_int, trim
from rocketstore.kernels.hosts import parse_host
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX
from rocketstore.root_places import RootPlaces
from rocketstore.text_values import parse_integer

DEFAULT_HASH_SLOT_NUM = 5_000_000
DEFAULT_INDEX_NUM = 20_000_000
DEFAULT_SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 30,
    "mapped_file_size_consume_queue": 300_000 * 20,
    "mapper_file_size_batch_consume_queue": 300_000 * 46,
    "mapped_file_size_consume_queue_ext": 48 << 20,
    "max_hash_slot_num": DEFAULT_HASH_SLOT_NUM,
    "max_index_num": DEFAULT_INDEX_NUM,
}
# The sizes that ``StoreConfig.small()`` gives to a new store.
SMALL_SIZES = DEFAULT_SIZES | {
    "mapped_file_size_commit_log": 1 << 20,
    "max_hash_slot_num": 100_000,
    "max_index_num": 400_000,
}
LEAST = dict.fromkeys([*DEFAULT_SIZES, "default_topic_queue_nums", "flush_interval_commit_log"], 1) | dict.fromkeys(
    ["remote_copy_limit", "file_reserved_time", "flush_commit_log_least_pages", "flush_commit_log_thorough_interval"], 0
)
LEAST_EXT_FILE = 24  # bytes: one unit, and the mark that no other unit follows
KINDS: dict[str, Any] = {"int": Integral, "bool": bool, "str": str, "Mapping[str, str]": Mapping}
TEXT_PATTERNS = {
    "flush_disk_type": "ASYNC_FLUSH|SYNC_FLUSH",
    "message_delay_level": "[0-9]{1,9}[smhd]( [0-9]{1,9}[smhd]){0,63}",
}
# Fields that RocketMQ lacks.
OUR_OWN = (
    "allocate_file_ahead",
    "preallocate",
    "small_if_new",
    "store_host",
    "write_elsewhere",
    "allow_unreadable",
    "remote_copy_limit",
    "compat",
    "other",
)


def camel_case(name: str) -> str:
    """Return RocketMQ's name of a field: ``check_crc_on_recover`` is checkCRCOnRecover."""
    first, *rest = name.split("_")
    return first + "".join("CRC" if word == "crc" else word.capitalize() for word in rest)


def config_text(names: Iterable[str], values: Mapping[str, int] | None = None) -> str:
    """Return the argument ``config`` with these settings as Python code; N stands for an unknown value."""
    known = values or {}
    settings = (f"{name}={known.get(name, 'N')}" for name in names)
    return f"config=StoreConfig({', '.join(settings)})"


@dataclass(frozen=True)
class StoreConfig:
    """How a store is laid out, written and recovered. Defaults are those of RocketMQ 5.5.1.

    Sizes of files are bytes. None stands for the size that the files show.

    Parameters
    ----------
    mapped_file_size_consume_queue : it is rounded up to whole units.
    mapper_file_size_batch_consume_queue : it is not rounded up. A writer needs a multiple of 46.
    flush_interval_commit_log, flush_commit_log_thorough_interval : milliseconds.
    flush_commit_log_least_pages : pages of 4 KiB.
    default_topic_queue_nums : queues of a new topic. A producer gets as many.
    file_reserved_time : hours.
    allocate_file_ahead : make the log's next file before it is needed.
    preallocate : reserve the disk space of a new file of the log or the index at once. False: in steps of 1 to 64 MiB
        ahead of what is written, except in tmpfs. The length of the files is the same.
    small_if_new : a new store gets the sizes of ``StoreConfig.small()``, unless other sizes are given. A store that has
        files keeps its own sizes.
    store_host : "address:port" that records name as their broker.
    store_path_commit_log : None for ``commitlog`` under the root. Several directories are separated by commas.
    tiered_store_file_path : the directory, or the URI, of tiered storage. ``tiered=True`` of ``rocketstore.open`` reads
        it.
    write_elsewhere : writers also change directories that belong to another store, and take the lock of that store.
    remote_copy_limit : bytes of a RocksDB on a remote file system that are copied to a temporary directory to read it.
    allow_unreadable : write also if the store has records that the release ``compat`` cannot read.
    message_delay_level, enable_consume_queue_ext, enable_multi_dispatch, enable_lmq : RocketMQ's default also stands
        for the value that the store's units show, unless this is the configuration of a broker's properties file.
    enable_lmq : give messages offsets in the light queues that INNER_MULTI_DISPATCH names.
    enable_multi_dispatch : build these light queues.
    compat : the release to write as.
    other : the other properties of a broker's file.

    Raises
    ------
    ValueError : a value is impossible in RocketMQ. TypeError : a value has another type.

    Notes
    -----
    If ``compat`` is a release that does not have some properties of the broker's file, these fields are set to their
    defaults, with a warning: the broker ignores these properties.

    Releases before 4.9.3 know no light queues. Releases from 4.9.3 to 5.3.1 give offsets by other rules than later
    ones. If ``compat`` is one of them, a message for light queues is accepted only if all rules agree on it. Both
    options must be set. Its topic must have no batch queues, and must not be one of %RETRY%, rmq_sys_ or the schedule.
    Each name must be there only once and begin with %LMQ%.

    Source: MessageStoreConfig.

    Examples:
    >>> config = StoreConfig(flush_disk_type="SYNC_FLUSH", max_index_num=400_000)
    >>> config.flush_disk_type, config.max_index_num
    ('SYNC_FLUSH', 400000)
    """

    mapped_file_size_commit_log: int | None = None
    mapped_file_size_consume_queue: int | None = None
    mapper_file_size_batch_consume_queue: int | None = None
    mapped_file_size_consume_queue_ext: int | None = None
    max_hash_slot_num: int | None = None
    max_index_num: int | None = None
    max_msgs_num_batch: int = 64
    enable_consume_queue_ext: bool = False
    enable_multi_dispatch: bool = False
    enable_lmq: bool = False
    enabled_append_prop_crc: bool = False
    force_verify_prop_crc: bool = False
    check_crc_on_recover: bool = True
    message_index_enable: bool = True
    message_index_safe: bool = False
    commit_log_recover_max_num: int = 10
    duplication_enable: bool = False
    max_message_size: int = 4 << 20
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    default_topic_queue_nums: int = 4
    file_reserved_time: int = 72
    allocate_file_ahead: bool = True
    preallocate: bool = False
    small_if_new: bool = False
    store_host: str = "127.0.0.1:10911"
    store_path_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    tiered_store_file_path: str | None = None
    write_elsewhere: bool = False
    allow_unreadable: bool = False
    remote_copy_limit: int = REMOTE_COPY_LIMIT
    compat: str = DEFAULT_COMPAT
    other: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for entry in fields(self):
            name, value, kind = entry.name, getattr(self, entry.name), str(entry.type).removesuffix(" | None")
            if value is None and kind != entry.type:
                continue
            if not isinstance(value, KINDS[kind]) or isinstance(value, bool) != (kind == "bool"):
                raise TypeError(f"{name}={value!r}: must be {entry.type}")
            if kind == "int":
                value = int(value)  # arithmetic with an integer of NumPy could overflow
                value = -(-value // 20) * 20 if name == "mapped_file_size_consume_queue" else value
                least, most = LEAST.get(name, INT_MIN), LONG_MAX if name in OUR_OWN else INT_MAX
                if not least <= value <= most:
                    raise ValueError(f"{name}={value}: must be {least} to {most}")
                object.__setattr__(self, name, value)
            if name in TEXT_PATTERNS and not re.fullmatch(TEXT_PATTERNS[name], value):
                raise ValueError(f"{name}={value!r}: must match {TEXT_PATTERNS[name]}")
        try:
            if self.store_host != StoreConfig.store_host:  # parse_host imports much, and the default is valid
                parse_host(self.store_host)
        except ValueError as error:
            raise ValueError(f"store_host: {error}") from None
        self._remove_later_properties(parse_release(self.compat))

    def _remove_later_properties(self, release: tuple[int, ...]) -> None:
        """Set properties of the broker's file that came after a release to their defaults: the broker ignores them."""
        if not isinstance(self.other, BrokerFile):
            return
        for name, since in TAKEN_SINCE.items():
            value, default = getattr(self, name), getattr(type(self), name)
            # A length of batch queues stays: without batches it has no effect.
            if release < since and value != default and name not in DEFAULT_SIZES:
                warn_once(f"{name}={value!r} has no effect: {_later(name, self.compat)}")
                object.__setattr__(self, name, default)

    @classmethod
    def small(cls) -> Self:
        """Return the configuration of a small store, for a program or a test. A new store takes less than 1 MB.

        These sizes are for a new store. Log files have 1 MiB, so a message, with its topic and properties, must be
        smaller. No log file is made ahead. An index file has room for 400,000 items. A store that has files is opened
        with its own sizes. Only a size that you replace by another must be the size of the store.

        Examples:
        >>> import dataclasses
        >>> config = dataclasses.replace(StoreConfig.small(), mapped_file_size_commit_log=8 << 20)  # messages of 4 MiB
        >>> config.mapped_file_size_commit_log, config.max_index_num
        (8388608, 400000)
        """
        return cls(**SMALL_SIZES, allocate_file_ahead=False, small_if_new=True)

    @property
    def new_store_sizes(self) -> Mapping[str, int]:
        """The sizes that a new store gets where none is given."""
        return SMALL_SIZES if self.small_if_new else DEFAULT_SIZES

    def without_new_store_sizes(self) -> Self:
        """Return these settings without the sizes of ``StoreConfig.small()``, if they are only for a new store."""
        names = [name for name, size in SMALL_SIZES.items() if self.small_if_new and getattr(self, name) == size]
        unknown: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **unknown) if names else self

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str], *, compat: str = DEFAULT_COMPAT) -> Self:
        """Read a broker's properties file as a broker of a release does.

        A size that the file leaves out is RocketMQ's default, which the broker uses. A line that the broker ignores has
        no effect: a value that the broker cannot parse, a property that came after the release, an old spelling. If the
        broker accepts a value that rocketstore cannot use, only the calls that need the value raise an error. Each of
        these lines is logged as a warning.

        Parameters: compat: the release of the broker. Raises: OSError; ValueError naming path, line and key for a
        malformed escape, with which the broker does not start; ValueError for an unknown release.
        Source: Properties.load, MixAll.properties2Object.
        """
        path = expand_home(path)
        release, file = parse_release(compat), BrokerFile(path)
        values: dict[str, Any] = dict(DEFAULT_SIZES)
        for key, (text, line) in read_properties(path).items():
            name, where = FIELD_NAMES.get(key), f"{path}, line {line}: {key}={text!r:.80}"
            if name is None or TAKEN_SINCE.get(name, OLDEST) > release:
                file[key] = text
                reason = _similar_name(key) if name is None else _later(name, compat)
                if reason:
                    warn_once(f"{where} has no effect: {reason}")
                continue
            value, problem = _value_of(name, text, trims=Compat.of(compat).trims_texts)
            if problem:
                warn_once(f"{where}: {problem}")
            if value is None:
                continue
            values[name], problem = cls._usable(name, value)
            if problem:
                problem = f"{where}: RocketMQ takes this value, rocketstore cannot use it: {problem}"
                file.unusable[name] = values[name], problem
                warn_once(problem)
        return cls(**values, compat=compat, other=file)

    @classmethod
    def _usable(cls, name: str, value: Any) -> tuple[Any, str]:
        """Return the value to use for a value that the broker accepts, and why that value is unusable, or ""."""
        try:
            cls(**{name: value})
        except ValueError as error:
            return getattr(cls, name), str(error)  # a size of None means the size that the files show
        problem = size_problem(name, value)
        return value, f"{name}={value}: {problem}" if problem else ""

    @property
    def is_of_broker_file(self) -> bool:
        """Whether the settings are those of a broker's properties file, whose missing lines stand for defaults."""
        return isinstance(self.other, BrokerFile)

    def require_usable(self, *names: str) -> None:
        """Raise ValueError if the broker's file has values of these fields that rocketstore cannot use."""
        unusable = self.other.unusable if isinstance(self.other, BrokerFile) else {}
        for name in names:
            value, problem = unusable.get(name, (None, ""))
            if problem and getattr(self, name) == value:  # otherwise a caller corrected the value
                raise ValueError(problem)

    def commit_log_paths(
        self, store_path_root_dir: str | os.PathLike[str] | StorePath, *, writable: bool = False
    ) -> list[StorePath]:
        """Return the directories of the commit log, read-only ones last or not at all.

        If storePathRootDir of the broker's file is another directory, the store was moved. Then a path below
        storePathRootDir is replaced by the same path below the store, if that is a directory.

        Raises: ValueError if ``writable`` leaves none. Source: CommitLog, MultiPathMappedFileQueue.
        """
        root = to_path(store_path_root_dir)
        text = trim(self.store_path_commit_log or "")
        is_multi_path = "," in text and Compat.of(self.compat).has_multi_path
        given = list(dict.fromkeys(filter(None, text.split(",")))) if is_multi_path else [text] * bool(text)
        read_only = trim(self.read_only_commit_log_store_paths or "").split(",") if is_multi_path else []
        names = [*given, *(name for name in read_only if name and name not in given)]
        if writable and names and read_only:
            excluded = set(map(Path, filter(None, read_only)))
            names = [name for name in names if Path(name) not in excluded]
            if not names:
                raise ValueError(
                    f"read_only_commit_log_store_paths={self.read_only_commit_log_store_paths!r}: all directories of "
                    "the commit log are among them: leave one to write to"
                )
        return [self._moved(to_path(name), root) for name in names] or [RootPlaces(root).default_log]

    def without_dledger(self) -> Self:
        """Return these settings for a store whose log has plain files."""
        other = copy(self.other) if isinstance(self.other, BrokerFile) else dict(self.other)
        other["enableDLegerCommitLog"] = "false"
        return replace(self, other=other)

    def dledger_log_paths(self, store_path_root_dir: str | os.PathLike[str] | StorePath) -> list[StorePath]:
        """Return the directories of DLedger's log that the broker's file names; none if it names no directory.

        Source: DLedgerCommitLog, MultiPathMmapFileList.
        """
        root = to_path(store_path_root_dir)
        text = trim(self.other.get("storePathDLedgerCommitLog", ""))
        read_only = trim(self.read_only_commit_log_store_paths or "") if "," in text else ""
        names = dict.fromkeys(filter(None, f"{text},{read_only}".split(",")))
        return [self._moved(to_path(name), root) for name in names]

    def _moved(self, path: StorePath, root: StorePath) -> StorePath:
        """Return the place of a directory that the broker's file names, also if the store was moved."""
        file = self.other
        if (
            not isinstance(file, BrokerFile)
            or not isinstance(path, Path)
            or is_same_directory(file.store_path_root_dir, root)
        ):
            return path
        old_root = file.store_path_root_dir
        if path == old_root or not path.is_relative_to(old_root):
            return path
        moved = root / str(path.relative_to(old_root))
        if not moved.is_dir():
            return path
        warn_once(f"{file.path} is of a store at {old_root}, not at {root}: {moved} is used instead of {path}")
        return moved


@dataclass(frozen=True, eq=False, repr=False)
class SizedConfig(StoreConfig):
    """A StoreConfig whose sizes are all known. ``survey.sizes`` makes it, where it finds the sizes of a store.

    It equals the StoreConfig with the same settings, and looks like it.
    """

    mapped_file_size_commit_log: int = DEFAULT_SIZES["mapped_file_size_commit_log"]
    mapped_file_size_consume_queue: int = DEFAULT_SIZES["mapped_file_size_consume_queue"]
    mapper_file_size_batch_consume_queue: int = DEFAULT_SIZES["mapper_file_size_batch_consume_queue"]
    mapped_file_size_consume_queue_ext: int = DEFAULT_SIZES["mapped_file_size_consume_queue_ext"]
    max_hash_slot_num: int = DEFAULT_SIZES["max_hash_slot_num"]
    max_index_num: int = DEFAULT_SIZES["max_index_num"]

    def as_store_config(self, **changes: Any) -> StoreConfig:
        """Return these settings as a StoreConfig, with other values for some of them: a size may be None again."""
        return StoreConfig(**{entry.name: getattr(self, entry.name) for entry in fields(self)} | changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoreConfig):
            return NotImplemented
        return all(getattr(self, entry.name) == getattr(other, entry.name) for entry in fields(self))

    __hash__ = StoreConfig.__hash__

    def __repr__(self) -> str:
        return repr(self.as_store_config())


AnyConfig = TypeVar("AnyConfig", bound=StoreConfig)

FIELD_NAMES = {camel_case(entry.name): entry.name for entry in fields(StoreConfig) if entry.name not in OUR_OWN}


def require_config(config: object) -> None:
    """Raise TypeError for a configuration of another type."""
    if not isinstance(config, StoreConfig | None):
        raise TypeError(f"config={config!r}: a StoreConfig was expected")


def parse_value(text: str, default: object) -> int | bool | str:
    """Return a text as a value of the type of ``default``: int, bool or str. Raises: ValueError."""
    if not isinstance(default, int):
        return text.strip(" \t\n\r\f")
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} must be true or false")
        return text.lower() == "true"
    try:
        return parse_integer(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None


def is_same_directory(one: Path, other: StorePath) -> bool:
    """Return whether two paths lead to one directory, which may be missing. A remote directory is never a local one."""
    if not isinstance(other, Path):
        return False
    try:
        return one.samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def size_problem(name: str, value: object) -> str:
    """Return what a file size must be so that queues can be written; "" if they can."""
    if name == "mapper_file_size_batch_consume_queue" and isinstance(value, int) and value % 46:
        return "must be a multiple of 46, or no file is ever full and writing stops"
    if name == "mapped_file_size_consume_queue_ext" and isinstance(value, int) and value < LEAST_EXT_FILE:
        return f"must be {LEAST_EXT_FILE} at least: no unit fits into a file"
    return ""


def _value_of(name: str, text: str, *, trims: bool) -> tuple[int | bool | str | None, str]:
    """Parse a property as the broker does.

    Parameters: name: of the field. trims: whether the release removes blanks around a text.
    Returns: the value, None if the broker ignores the line; and the text of a warning, or "".
    """
    default = DEFAULT_SIZES.get(name, getattr(StoreConfig, name))
    if isinstance(default, bool):
        is_known = text.lower() in ("true", "false")
        return parse_boolean(text), "" if is_known else "is neither true nor false: RocketMQ takes it as false"
    if isinstance(default, int):
        number = parse_int(text)
        return number, "" if number is not None else f"is no int, so RocketMQ ignores the line and takes {default}"
    text = trim(text) if trims else text
    if name == "flush_disk_type" and not re.fullmatch(TEXT_PATTERNS[name], text):
        return None, f"is none of {TEXT_PATTERNS[name].replace('|', ', ')}, so RocketMQ ignores the line"
    return text.rstrip(" ") if name == "message_delay_level" else text, ""  # String.split ignores blanks at the end


def _later(name: str, compat: str) -> str:
    return f"RocketMQ {compat} ignores {camel_case(name)}, which came with {'.'.join(map(str, TAKEN_SINCE[name]))}"


def _similar_name(key: str) -> str:
    """Return advice if the name of a property nearly equals a name that RocketMQ knows, else ""."""
    known = SIMILAR_NAMES.get(_normalized(key))
    return f"RocketMQ ignores this name, the property is {known}" if known else ""


def _normalized(key: str) -> str:
    return re.sub("map(ed|per)file", "mappedfile", key.lower())


SIMILAR_NAMES = {_normalized(name): name for name in FIELD_NAMES}
