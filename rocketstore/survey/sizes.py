"""The sizes of the files of a store. No file states them, so they are found in several places and never guessed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rocketstore.broker_file import BrokerFile
from rocketstore.config import DEFAULT_SIZES, SizedConfig, StoreConfig, config_text, size_problem
from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.mapped_file_queue import MappedFileQueue
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import scandir, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, SettingError, StoreError
from rocketstore.index.geometry import IndexGeometry, geometry_of, other_geometry, require_items
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_header import unpack_header
from rocketstore.kernels.layout import INDEX_ITEM, INDEX_SLOT
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_directories import queue_directories
from rocketstore.survey.formats import has_dledger_log
from rocketstore.survey.places import StorePlaces

LOG, SLOTS, ITEMS = "mapped_file_size_commit_log", "max_hash_slot_num", "max_index_num"
PLAIN, BATCH, EXT = (kind.size_name for kind in (ConsumeQueue, BatchConsumeQueue, ConsumeQueueExt))
PARTS_BELOW = 4  # names between the root of a store and a file of the store: consumequeue/TOPIC/0/00000000000000000000
MAX_HINTS, MAX_SEARCHED = 3, 1000  # stores that a hint names; directories among which it looks for stores
QUEUES = {kind.size_name: kind for kind in (*QUEUE_KINDS, ConsumeQueueExt)}
PATHS = ("store_path_commit_log", "read_only_commit_log_store_paths")
# The settings in rocketstore.json: every setting that the bytes of a store depend on.
SAVED: dict[str, type] = {
    **dict.fromkeys(DEFAULT_SIZES, int),
    **dict.fromkeys((*PATHS, "message_delay_level", "store_host", "compat"), str),
    **dict.fromkeys(("enable_consume_queue_ext", "enable_multi_dispatch", "enable_lmq"), bool),
    **dict.fromkeys(("enabled_append_prop_crc", "message_index_enable", "allocate_file_ahead"), bool),
}


def require_store(root: StorePath, config: StoreConfig) -> None:
    """Raise StoreError if a directory is not the root of a store, OSError if it is no directory.

    The error names the stores that a user probably means.
    """
    require_directory(root)
    if not has_store(root, config):
        reason = "no store is here, neither commitlog nor consumequeue nor index"
        raise StoreError(f"{root}: {reason}{hint_at_store(root)}")


def require_directory(root: StorePath) -> None:
    """Raise OSError if a path is no directory. The error names the store in which a file is."""
    try:
        with scandir(root):
            pass
    except NotADirectoryError as error:
        reason = f"{os.strerror(errno.ENOTDIR)}{hint_at_store(root)}"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(root)) from error


def require_new_place(root: Path, config: StoreConfig) -> None:
    """Raise StoreError if a new store would be made among other stores, or among files of a store. Raises: OSError."""
    require_directory(root)
    if has_store(root, config):
        return
    if stores := stores_in(root):
        raise StoreError(f"{root}: a new store is not made in a directory with other stores{did_you_mean(stores)}")
    for path in root.iterdir():
        if path.name.isdecimal() and path.is_file():
            reason = "is of a commit log, a queue or an index: give the root of a store"
            raise StoreError(f"{path}: {reason}{hint_at_store(root)}")


def has_store(root: StorePath, config: StoreConfig) -> bool:
    """Return whether a directory has a log, queues or an index."""
    places = StorePlaces.of(root, config)
    parts = [*places.log_directories, places.queues(ConsumeQueue), places.index]
    return any(part.is_dir() for part in parts) or has_dledger_log(root)


def hint_at_store(path: StorePath) -> str:
    """Return a question about the stores directly below a path, or the store around it; else an empty text."""
    if stores := stores_in(path):
        return did_you_mean(stores)
    root = path.absolute()
    for _ in range(PARTS_BELOW):
        root = root.parent
        if StorePlaces.of(root).default_log.is_dir():
            return did_you_mean([root])
    return ""


def stores_in(path: StorePath) -> list[StorePath]:
    """Return the stores directly below a directory, sorted; none if it cannot be listed."""
    with contextlib.suppress(OSError), scandir(path) as entries:
        names = sorted(entry.name for entry in islice(entries, MAX_SEARCHED) if entry.is_dir())
        return [path / name for name in names if StorePlaces.of(path / name).default_log.is_dir()]
    return []


def did_you_mean(stores: Sequence[StorePath]) -> str:
    """Return a question that names stores; an empty text without a store."""
    if len(stores) < 2:
        return "".join(f": did you mean {store}?" for store in stores)
    more = f" and {len(stores) - MAX_HINTS} more" if len(stores) > MAX_HINTS else ""
    return f": did you mean one of {', '.join(map(str, stores[:MAX_HINTS]))}{more}?"


def writing_config(store_path_root_dir: str | os.PathLike[str], config: StoreConfig | None = None) -> SizedConfig:
    """Return the configuration to write a store with. Every size is set: RocketMQ's default if no size is known.

    Raises: as ``known_config``; ValueError if the store has messages, but no queue or no index that shows a size.
    """
    root = to_path(store_path_root_dir)
    known = known_config(root, config)
    names = [] if getattr(known, PLAIN) or getattr(known, BATCH) else [PLAIN]
    names += [SLOTS, ITEMS] if known.message_index_enable else []
    if any(getattr(known, name) is None for name in names) and has_messages(root, known):
        require_sizes(root, known, names)
    return with_default_sizes(known)


def planning_config(root: Path, config: StoreConfig | None) -> tuple[SizedConfig, tuple[str, ...]]:
    """Return the configuration for a dry run, and notes on its sizes that no file shows for certain.

    The files suggest these sizes. Without files they are RocketMQ's defaults. Raises: as ``writing_config``.
    """
    try:
        return writing_config(root, config), ()
    except SettingError as error:
        if not error.suggested:
            raise
        sizes: dict[str, Any] = error.suggested
    base = config or StoreConfig(**read_saved(StorePlaces.of(root).saved_settings))
    shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
    note = f"{root}: no file shows these sizes for certain, and the steps suppose them: {shown}"
    return writing_config(root, replace(base, **sizes)), (note,)


def require_sizes(root: StorePath, known: StoreConfig, names: Iterable[str]) -> None:
    """Raise ValueError for unknown sizes: the broker would not load files that were made with another size."""
    unknown = [name for name in names if getattr(known, name) is None]
    if unknown:
        defaults = ", ".join(f"{name}={DEFAULT_SIZES[name]}" for name in unknown)
        hint = "; with message_index_enable=False none is made" * (SLOTS in unknown)
        raise SettingError(
            f"{root}: no file shows {', '.join(unknown)}; RocketMQ's defaults are {defaults}{hint}",
            *unknown,
            suggested={name: DEFAULT_SIZES[name] for name in unknown},
            advice=f"pass {config_text(unknown)} or config=StoreConfig.from_broker_conf(path)",
        )


def with_default_sizes(config: StoreConfig) -> SizedConfig:
    """Return a configuration to write with: RocketMQ's default for each size that is not known.

    Raises: ValueError if queues cannot be written with a file size, or if the broker's properties file has a value that
    is needed and cannot be used. For batch queues also call ``require_batch_size``.
    """
    config.require_usable(LOG, PLAIN, *(SLOTS, ITEMS) * config.message_index_enable, "message_delay_level")
    sizes = {name: getattr(config, name) or size for name, size in DEFAULT_SIZES.items()}
    if config.enable_consume_queue_ext:
        config.require_usable(EXT)
    unusable = config.other.unusable if isinstance(config.other, BrokerFile) else {}
    for name in (BATCH, EXT):
        if name not in unusable and (problem := size_problem(name, sizes[name])):
            raise ValueError(problem)
    return SizedConfig(**{entry.name: getattr(config, entry.name) for entry in fields(config)} | sizes)


def require_batch_size(config: SizedConfig) -> None:
    """Raise ValueError if the broker's properties file has a size for batch queues that cannot be used."""
    is_default = getattr(config, BATCH) == DEFAULT_SIZES[BATCH]
    (config.as_store_config(**{BATCH: None}) if is_default else config).require_usable(BATCH)


def known_config(
    store_path_root_dir: str | os.PathLike[str] | StorePath,
    config: StoreConfig | None = None,
    *,
    replaced: Collection[str] = (),
) -> StoreConfig:
    """Return the configuration that a store was written with. A size is None without a file of that kind.

    A size comes from ``config``; else from ``config/rocketstore.json``, which every rocketstore writer leaves; else
    from the files, if they leave no doubt. This function changes nothing.

    Parameters: config: its sizes that are None are filled in. None: all settings as the store was last written.
    replaced: sizes whose files the caller replaces. If these sizes are known, the files are not read.
    Raises: ValueError that names the candidates if the files allow several sizes, or contradict the known size, so that
    RocketMQ would not load them; CorruptFileError if rocketstore.json is damaged; OSError.
    """
    root = to_path(store_path_root_dir)
    places = StorePlaces.of(root)
    saved = read_saved(places.saved_settings)
    # In a copy of a store, saved paths lead to the log of the original. A broker's file answers, also by its defaults.
    is_of_broker = config is not None and config.is_of_broker_file
    has_log = config is not None and all(path.is_dir() for path in config.commit_log_paths(root))
    for name in () if is_of_broker and has_log else PATHS:
        if name in saved and (config is None or getattr(config, name) is None):
            reason = f"{name}: give it: {places.saved_settings} has {saved[name]!r}, which may be another store's"
            raise SettingError(reason, name)
    config = config or StoreConfig(**saved)
    given = {name: getattr(config, name) or saved.get(name) for name in DEFAULT_SIZES}
    shown: dict[str, int | None] = {LOG: _length(LOG, config.commit_log_paths(root), given[LOG], saved.get(LOG), 1)}
    for name, kind in QUEUES.items():
        if not (name in replaced and given[name]):
            directories = queue_directories(places.queues(kind))
            shown[name] = _length(name, directories, given[name], saved.get(name), kind.unit_size)
    if not (SLOTS in replaced and given[SLOTS] and given[ITEMS]):
        shown[SLOTS], shown[ITEMS] = _index_geometry(places.index, given[SLOTS], given[ITEMS]) or (None, None)
    if not (shown[LOG] or given[LOG]) and any(shown.values()):
        raise SettingError(
            f"{root}: queues or an index are here, but no commit log: give store_path_commit_log if it is elsewhere, "
            f"{LOG} if it is lost",
            "store_path_commit_log",
            LOG,
        )
    sizes: dict[str, Any] = {name: given[name] or shown.get(name) for name in DEFAULT_SIZES}
    return replace(config, **sizes)


def save_geometry(store_path_root_dir: str | os.PathLike[str], config: StoreConfig, *, is_new: bool = False) -> None:
    """Save the settings of a store in ``config/rocketstore.json``, unless they are there already. Raises: OSError.

    A setting besides sizes that nobody stated is an assumption, and is not saved.

    Parameters: is_new: whether the store has no messages, so that all settings of its first writer are facts.
    """
    path = StorePlaces.of(Path(store_path_root_dir)).saved_settings
    places = StorePlaces.of(Path(store_path_root_dir).absolute(), config)
    saved = read_saved(path)
    is_moved = isinstance(config.other, BrokerFile) and places.log_directories == (places.default_log,)
    names = SAVED.keys() - PATHS if is_moved else SAVED.keys()
    if not is_new:
        names = {name for name in names if name in DEFAULT_SIZES or is_stated(config, name, saved)}
    values = {name: value for name in SAVED if name in names and (value := getattr(config, name)) is not None}
    if saved != values:
        make_directory(path.parent)
        replace_file(path, json.dumps(values, indent="\t").encode())


def is_stated(config: StoreConfig, name: str, saved: Mapping[str, Any]) -> bool:
    """Return whether a setting is known, and not only RocketMQ's default in the absence of a statement.

    A broker's properties file states all settings, also those that it leaves out.

    Parameters: saved: the settings in ``config/rocketstore.json``.
    """
    is_default = getattr(config, name) == getattr(StoreConfig, name)
    return name in saved or isinstance(config.other, BrokerFile) or not is_default


def read_saved(path: StorePath) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(read_small_file(path))
        for name, value in values.items():
            if name not in SAVED or type(value) is not SAVED[name]:
                raise ValueError(f"{name}={value!r} is not known here")
        with_default_sizes(StoreConfig(**values))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, AttributeError, RecursionError) as error:
        reason = f"{error}: repair the file, or remove it and give what it had"
        raise CorruptFileError(path, getattr(error, "pos", 0), "JSON", reason) from None
    return values


def has_messages(root: StorePath, config: StoreConfig) -> bool:
    """Return whether the commit log of a store has bytes."""
    for directory in config.commit_log_paths(root):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            queue = MappedFileQueue([directory])
            if any(any(queue.pread(file.file_from_offset, 8)) for file in queue.files):
                return True
    return False


def _length(name: str, directories: Iterable[StorePath], given: int | None, saved: int | None, unit: int) -> int | None:
    """Return the one length of the files of all these runs, None without files.

    Empty files do not count: a power failure can leave one, and RocketMQ deletes it if it is the last file. A last file
    that is shorter than the known length was cut, or was being made when the power failed; recovery extends it.
    Source: MappedFileQueue.doLoad.
    """
    known, whose = given, "config/rocketstore.json" if given == saved else "the given size"
    found = None
    for directory in directories:
        try:
            files = MappedFileQueue([directory]).files
        except (FileNotFoundError, NotADirectoryError):
            continue
        for file in files:
            if file.size == 0 and (saved is not None or file is files[-1]):
                continue
            if known is None:
                known, whose = file.size, str(file.path)
            if file.size < known and file is files[-1] and known in (saved, found):
                continue
            if file.size != known:
                reason = f"{known} by {whose}, {file.size} by {file.path}: RocketMQ would not load it"
                hint = f"; rebuild{'' if given else ' with this size given'} writes the queues again"
                raise SettingError(f"{name}: {reason}{hint if name in QUEUES else ''}", name)
            if given is None and (known == 0 or known % unit or file.file_from_offset % known):
                reason = f"{name}: give it: {known}, the length of {file.path}, does not fit its name or units"
                raise SettingError(reason, name)
            found = known
    return found


def _index_geometry(directory: StorePath, slots: int | None, items: int | None) -> IndexGeometry | None:
    """Return the geometry of the index files, None without files. One number and the length give the other."""
    lengths = {}
    with contextlib.suppress(FileNotFoundError):
        lengths = {path: length for path in index_paths(directory) if (length := path.stat().st_size)}
    if not lengths:
        return None
    paths = list(lengths)
    length = max(lengths.values())  # a file whose end was cut off has the other files' geometry
    if slots is None and items is None:
        slots, items = _shown_geometry(paths)
    slots = slots or max(1, (length - IndexGeometry(0, items or 0).file_size) // INDEX_SLOT.itemsize)
    items = items or max(2, (length - IndexGeometry(slots, 0).file_size) // INDEX_ITEM.itemsize)
    geometry = IndexGeometry(slots, items)
    expected = geometry.file_size
    for path, length in lengths.items():
        is_cut = length < expected and (expected in lengths.values() or _shows_items(path, geometry))
        if length != expected and not is_cut:
            reason = f"{SLOTS}={slots}, {ITEMS}={items} make {expected} bytes, but {path} has {length}"
            raise SettingError(reason, SLOTS, ITEMS)
    _check_items(paths, geometry)
    return geometry


def _shows_items(path: StorePath, geometry: IndexGeometry) -> bool:
    """Return whether a file that is shorter than its geometry has items, and all at the places that it gives them."""
    with contextlib.suppress(CorruptFileError), MappedFile(path, least_size=geometry.file_size) as file:
        require_items(file, geometry)
        with file.reading() as view:
            return unpack_header(view).index_count > 1
    return False


def _shown_geometry(paths: list[StorePath]) -> IndexGeometry:
    try:
        return geometry_of(paths, for_writing=True)
    except ValueError:
        reason = f"{paths[0].parent}: {SLOTS} and {ITEMS} do not follow from the files"
    suggested: dict[str, int] = {}
    with contextlib.suppress(ValueError, CorruptFileError):
        slots, items = geometry_of(paths[:1], for_writing=False)
        reason += f", which look like {slots} and {items}"
        suggested = {SLOTS: slots, ITEMS: items}
    advice = f"pass {config_text((SLOTS, ITEMS), suggested)}"
    raise SettingError(reason, SLOTS, ITEMS, suggested=suggested, advice=advice)


def _check_items(paths: list[StorePath], geometry: IndexGeometry) -> None:
    """Raise ValueError if the newest items are found with another geometry only."""
    slots, items = geometry
    for path in reversed(paths):
        with MappedFile(path, least_size=geometry.file_size) as file:
            other = other_geometry(file, geometry)
            with file.reading() as view:
                is_empty = unpack_header(view).index_count <= 1
        if other is not None:
            reason = f"{SLOTS}={slots}, {ITEMS}={items}: the items of {path} are found with {other} alone"
            raise SettingError(reason, SLOTS, ITEMS)
        if not is_empty:
            return
