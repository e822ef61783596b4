"""The sizes of the files of a store. No file states them, so they are found in several places and never guessed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from rocketstore.broker_file import BrokerFile
from rocketstore.config import DEFAULT_SIZES, SizedConfig, StoreConfig, config_text, size_problem
from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.positioned_read import read_path_at
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, SettingError
from rocketstore.index.geometry import IndexGeometry, geometry_of, other_geometry, require_items
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_header import unpack_header
from rocketstore.kernels.layout import BLANK_HEAD, INDEX_ITEM, INDEX_SLOT, MAGIC_BLANK
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_directories import queue_directories
from rocketstore.survey.formats import find_log_directories
from rocketstore.survey.places import AnyPlaces, LocalPlaces

LOG, SLOTS, ITEMS = "mapped_file_size_commit_log", "max_hash_slot_num", "max_index_num"
PLAIN, BATCH, EXT = (kind.size_name for kind in (ConsumeQueue, BatchConsumeQueue, ConsumeQueueExt))
QUEUES = {kind.size_name: kind for kind in (*QUEUE_KINDS, ConsumeQueueExt)}
ASSUMED_LOG_SIZE = "mappedFileSizeCommitLog="  # how the text about an assumed size begins
BLANK_SIZE = BLANK_HEAD.itemsize
# Sizes of blanks, bytes. A blank is a head and zeros. A longer blank ends with BLANK_SIZE zeros.
SHORT_BLANKS = range(BLANK_SIZE, 2 * BLANK_SIZE)
PATHS = ("store_path_commit_log", "read_only_commit_log_store_paths")
# The settings in rocketstore.json: every setting that the bytes of a store depend on.
SAVED: dict[str, type] = {
    **dict.fromkeys(DEFAULT_SIZES, int),
    **dict.fromkeys((*PATHS, "message_delay_level", "store_host", "compat"), str),
    **dict.fromkeys(("enable_consume_queue_ext", "enable_multi_dispatch", "enable_lmq"), bool),
    **dict.fromkeys(("enabled_append_prop_crc", "message_index_enable", "allocate_file_ahead"), bool),
}


class SizeSource(StrEnum):
    """Who states a size: the caller's configuration, ``config/rocketstore.json``, or the files of the store."""

    GIVEN = "given"
    SAVED = "saved"
    FILES = "files"


class StoreSize(NamedTuple):
    """A size, in bytes or items, and who states it."""

    value: int
    source: SizeSource


@dataclass(frozen=True)
class StoreSizes:
    """The sizes of a store's files, as far as they are known.

    Attributes: settings: the given or saved configuration. known: by the name of each size that is known.
    problem: the error that says which sizes are contradicted or must be given; None without one. Its ``suggested``
    has the candidates.
    """

    settings: StoreConfig
    known: Mapping[str, StoreSize]
    problem: SettingError | None

    @property
    def shown_config(self) -> StoreConfig:
        """The settings with the sizes that are known, even if they contradict each other."""
        sizes: dict[str, Any] = {name: size.value for name, size in self.known.items()}
        return replace(self.settings, **sizes)

    @property
    def config(self) -> StoreConfig:
        """The configuration that the store was written with. A size is None without a file of that kind.

        Raises: ValueError that names the candidates if the files allow several sizes, or contradict the known size, so
        that RocketMQ would not load them.
        """
        if self.problem is not None:
            raise self.problem
        return self.shown_config


def writing_config(places: AnyPlaces, sizes: StoreSizes) -> SizedConfig:
    """Return the configuration to write a store with. Every size is set: RocketMQ's default if no size is known.

    Raises: ValueError, once for all sizes that must be given: as ``StoreSizes.config``; and if the store has messages,
    but no queue or no index that shows a size.
    """
    known = sizes.shown_config
    names = [] if getattr(known, PLAIN) or getattr(known, BATCH) else [PLAIN]
    names += [SLOTS, ITEMS] if known.message_index_enable else []
    must_be_known = any(getattr(known, name) is None for name in names) and has_messages(places)
    require_all_sizes(places, sizes, names if must_be_known else ())
    return with_default_sizes(known)


def require_all_sizes(places: AnyPlaces, sizes: StoreSizes, names: Iterable[str]) -> None:
    """Raise one ValueError for all sizes that are contradicted, or that are unknown and among ``names``."""
    asked = () if sizes.problem is None else sizes.problem.settings
    missing = missing_sizes(places, sizes.shown_config, [name for name in names if name not in asked])
    problem = _join_problems([each for each in (sizes.problem, missing) if each is not None])
    if problem is not None:
        raise problem


def planning_config(places: AnyPlaces, sizes: StoreSizes) -> tuple[SizedConfig, tuple[str, ...]]:
    """Return the configuration for a dry run, and notes on its sizes that no file shows for certain.

    The files suggest these sizes. Without files they are RocketMQ's defaults. Raises: as ``writing_config``.
    """
    try:
        return writing_config(places, sizes), ()
    except SettingError as error:
        if not error.suggested:
            raise
        supposed: Mapping[str, Any] = error.suggested
    shown = ", ".join(f"{name}={size}" for name, size in supposed.items())
    note = f"{places.root}: no file shows these sizes for certain, and the steps suppose them: {shown}"
    return writing_config(places, _find_with(supposed, places, sizes)), (note,)


def suppose_sizes(places: AnyPlaces, sizes: StoreSizes, *, replaced: Collection[str]) -> StoreSizes:
    """Return the sizes with those that the files suggest, but do not show for certain.

    Parameters: replaced: as for ``find_sizes``. Raises: as ``find_sizes``.
    """
    supposed: Mapping[str, Any] = {} if sizes.problem is None else sizes.problem.suggested
    return _find_with(supposed, places, sizes, replaced) if supposed else sizes


def _find_with(
    supposed: Mapping[str, Any], places: AnyPlaces, sizes: StoreSizes, replaced: Collection[str] = ()
) -> StoreSizes:
    """Find the sizes again with supposed ones, as if these were given."""
    return find_sizes(places, replace(sizes.settings, **supposed), replaced=replaced)


def require_sizes(places: AnyPlaces, known: StoreConfig, names: Iterable[str]) -> None:
    """Raise ValueError for unknown sizes: the broker would not load files that were made with another size."""
    if (problem := missing_sizes(places, known, names)) is not None:
        raise problem


def missing_sizes(places: AnyPlaces, known: StoreConfig, names: Iterable[str]) -> SettingError | None:
    """Return the error for sizes that are unknown; None if all are known."""
    unknown = [name for name in names if getattr(known, name) is None]
    if not unknown:
        return None
    defaults = ", ".join(f"{name}={DEFAULT_SIZES[name]}" for name in unknown)
    hint = "; with message_index_enable=False none is made" * (SLOTS in unknown)
    hint += "; the sizes of StoreConfig.small() are for a new store" * known.small_if_new
    return SettingError(
        f"{places.root}: no file shows {', '.join(unknown)}; RocketMQ's defaults are {defaults}{hint}",
        *unknown,
        suggested={name: DEFAULT_SIZES[name] for name in unknown},
        advice=f"pass {config_text(unknown)} or config=StoreConfig.from_broker_conf(path)",
    )


def with_default_sizes(config: StoreConfig) -> SizedConfig:
    """Return a configuration to write with: for each size that is not known, that of a new store.

    This is RocketMQ's default, or the size of ``StoreConfig.small()``.

    Raises: ValueError if queues cannot be written with a file size, or if the broker's properties file has a value that
    is needed and cannot be used. For batch queues also call ``require_batch_size``.
    """
    config.require_usable(LOG, PLAIN, *(SLOTS, ITEMS) * config.message_index_enable, "message_delay_level")
    sizes: dict[str, Any] = {name: getattr(config, name) or size for name, size in config.new_store_sizes.items()}
    if config.enable_consume_queue_ext:
        config.require_usable(EXT)
    unusable = config.other.unusable if isinstance(config.other, BrokerFile) else {}
    for name in (BATCH, EXT):
        if name not in unusable and (problem := size_problem(name, sizes[name])):
            raise SettingError(f"a file size of {sizes[name]} {problem}", name, advice=f"give another {name}")
    settings = {entry.name: getattr(config, entry.name) for entry in fields(config)}
    return SizedConfig(**settings | sizes | {"small_if_new": False})  # all sizes are known


def describe_kept_sizes(given: StoreConfig | None, config: StoreConfig) -> str | None:
    """Return a note on the sizes of a store that differ from those of ``StoreConfig.small()``; None without any.

    Parameters: given: the caller's configuration. config: with all sizes of the store.
    """
    if given is None or not given.small_if_new:
        return None
    wanted = given.without_new_store_sizes()
    kept = {
        name: getattr(config, name)
        for name, size in given.new_store_sizes.items()
        if getattr(wanted, name) is None and getattr(config, name) != size
    }
    if not kept:
        return None
    sizes = ", ".join(f"{name}={size}" for name, size in kept.items())
    return f"the store keeps its own sizes, which are not those of StoreConfig.small(): {sizes}"


def describe_assumed_log_size(sizes: StoreSizes, files: Sequence[RunFile], end: int) -> tuple[str, ...]:
    """Return the assumption that the length of the log's only file is the size of log files; none if the size is known.

    A file that was cut off at a power of two looks like a file of that size. A log that fills its file shows the size.
    RocketMQ's default, and a size of ``StoreConfig.small()`` that the caller gives, are not doubted.

    Parameters: sizes: of the store. files: of the log. end: physical offset at which the log ends.
    """
    known, written = sizes.known.get(LOG), [file for file in files if file.size]
    if known is None or known.source != SizeSource.FILES or len(written) != 1 or end >= written[0].end_offset:
        return ()
    usual = sizes.settings.new_store_sizes.get(LOG) if sizes.settings.small_if_new else None
    if known.value in (DEFAULT_SIZES[LOG], usual):
        return ()
    return (
        f"{ASSUMED_LOG_SIZE}{known.value} is assumed: {written[0].path} is the only file of the log, and a "
        f"larger file that was cut off there has this length too. If the size is right, give {LOG}, or the broker's "
        "properties file that states it; otherwise copy the file again",
    )


def without_assumed_log_size(config: SizedConfig, assumptions: Iterable[str]) -> StoreConfig:
    """Return the settings to save: those of a store, without a size of log files that is assumed.

    Parameters: assumptions: of a report. The one of ``describe_assumed_log_size`` is among them if it was made.
    """
    is_assumed = any(text.startswith(ASSUMED_LOG_SIZE) for text in assumptions)
    return config.as_store_config(**{LOG: None}) if is_assumed else config


def require_batch_size(config: SizedConfig) -> None:
    """Raise ValueError if the broker's properties file has a size for batch queues that cannot be used."""
    is_default = getattr(config, BATCH) == DEFAULT_SIZES[BATCH]
    (config.as_store_config(**{BATCH: None}) if is_default else config).require_usable(BATCH)


def find_sizes(places: AnyPlaces, given: StoreConfig | None = None, *, replaced: Collection[str] = ()) -> StoreSizes:
    """Find the sizes of a store's files. This function changes nothing.

    A size comes from ``given``; else from ``config/rocketstore.json``, which every rocketstore writer leaves; else
    from the files, if they leave no doubt. With ``small_if_new``, files that may have the sizes of
    ``StoreConfig.small()`` leave no doubt either.

    Parameters: given: its sizes that are None are found. None: all settings as the store was last written.
    replaced: sizes whose files the caller replaces. If these sizes are known, the files are not read.
    Raises: ValueError if the directories of the log must be given; CorruptFileError if rocketstore.json or an index
    file is damaged; OSError.
    """
    saved = read_saved(places.saved_settings)
    _require_given_paths(places, given, saved)
    settings = given or StoreConfig(**saved)
    known: dict[str, StoreSize] = {}
    for name in DEFAULT_SIZES:
        if given is not None and (value := getattr(given, name)):
            known[name] = StoreSize(value, SizeSource.GIVEN)
        elif name in saved:
            known[name] = StoreSize(saved[name], SizeSource.SAVED)
    problems: list[SettingError] = []
    shown: dict[str, int] = {}
    for part in (LOG, *QUEUES, SLOTS):
        if part in replaced and part in known and (part != SLOTS or ITEMS in known):
            continue
        try:
            shown |= _find_shown_sizes(part, places, settings, known, saved)
        except SettingError as error:
            problems.append(_with_advice(error, given))
    if not problems and LOG not in known and LOG not in shown and shown:
        problems.append(
            SettingError(
                f"{places.root}: queues or an index are here, but no commit log: give store_path_commit_log if it is "
                f"elsewhere, {LOG} if it is lost",
                "store_path_commit_log",
                LOG,
            )
        )
    found = {name: StoreSize(size, SizeSource.FILES) for name, size in shown.items()}
    return StoreSizes(settings, found | known, _join_problems(problems))


def _with_advice(error: SettingError, given: StoreConfig | None) -> SettingError:
    """Return an error about sizes that files contradict, with what to do if the caller's configuration gives them.

    A broker's properties file is not the caller's: the broker does not load files of other sizes.
    """
    names = [name for name in error.settings if name in DEFAULT_SIZES and getattr(given, name, None)]
    if given is None or given.is_of_broker_file or not names:
        return error
    reason = f"{error.reason}; a configuration without {' and '.join(names)} opens the store with the sizes it has"
    return SettingError(reason, *error.settings, suggested=error.suggested, advice=error.advice)


def _require_given_paths(places: AnyPlaces, given: StoreConfig | None, saved: Mapping[str, Any]) -> None:
    """Raise ValueError if directories of the log were saved and are not given.

    In a copy of a store, saved paths lead to the log of the original. A broker's file answers, also by its defaults.
    """
    is_of_broker = given is not None and given.is_of_broker_file
    has_log = given is not None and all(path.is_dir() for path in places.log_directories)
    for name in () if is_of_broker and has_log else PATHS:
        if name in saved and (given is None or getattr(given, name) is None):
            reason = f"{name}: give it: {places.saved_settings} has {saved[name]!r}, which may be another store's"
            raise SettingError(reason, name)


def _find_shown_sizes(
    part: str, places: AnyPlaces, config: StoreConfig, known: Mapping[str, StoreSize], saved: Mapping[str, Any]
) -> dict[str, int]:
    """Return the sizes that the files of one part show. Parameters: part: LOG, a name of QUEUES, or SLOTS."""
    stated = {name: size.value for name, size in known.items()}
    if config.small_if_new:
        with contextlib.suppress(SettingError):  # the files have other sizes
            return _read_sizes(part, places, config, {**config.new_store_sizes, **stated}, saved)
    return _read_sizes(part, places, config, stated, saved)


def _read_sizes(
    part: str, places: AnyPlaces, config: StoreConfig, stated: Mapping[str, int], saved: Mapping[str, Any]
) -> dict[str, int]:
    """Return the sizes that the files of one part show. Parameters: stated: the sizes that they must not contradict."""
    if part == SLOTS:
        geometry = _index_geometry(places.index, stated.get(SLOTS), stated.get(ITEMS))
        return {} if geometry is None else {SLOTS: geometry.hash_slot_num, ITEMS: geometry.index_num}
    if part in QUEUES:
        directories = queue_directories(places.queues(QUEUES[part]))
        file_runs = (file_run for each in directories if (file_run := _list_files(each)) is not None)
        length = _length(part, file_runs, stated.get(part), saved.get(part), QUEUES[part].unit_size)
    else:
        length = _log_length(find_log_directories(places, config), config, stated.get(LOG), saved.get(LOG))
    return {} if length is None else {part: length}


def _join_problems(problems: Sequence[SettingError]) -> SettingError | None:
    """Return one error that has all problems; None without a problem."""
    if len(problems) < 2:
        return problems[0] if problems else None
    settings = dict.fromkeys(name for problem in problems for name in problem.settings)
    suggested = {name: size for problem in problems for name, size in problem.suggested.items()}
    advised = any(problem.advice for problem in problems)
    advice = f"pass {config_text(settings, suggested)} or config=StoreConfig.from_broker_conf(path)" if advised else ""
    reasons = "; ".join(problem.reason for problem in problems)
    return SettingError(reasons, *settings, suggested=suggested, advice=advice)


def save_settings(places: LocalPlaces, config: StoreConfig, *, is_new: bool = False) -> None:
    """Save the settings of a store in ``config/rocketstore.json``, unless they are there already. Raises: OSError.

    A setting besides sizes that nobody stated is an assumption, and is not saved.

    Parameters: is_new: whether the store has no messages, so that all settings of its first writer are facts.
    """
    path = places.saved_settings
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


def saved_config(places: AnyPlaces) -> StoreConfig:
    """Return the settings that the last writer saved, without the directories of the log.

    In a copy of a store, saved directories of the log are those of the original.
    Raises: CorruptFileError, OSError.
    """
    return StoreConfig(
        **{name: value for name, value in read_saved(places.saved_settings).items() if name not in PATHS}
    )


def has_messages(places: AnyPlaces) -> bool:
    """Return whether the commit log of a store has bytes."""
    for directory in places.log_directories:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            file_run = FileRunReader([directory])
            if any(any(file_run.pread(file.file_from_offset, 8)) for file in file_run.files):
                return True
    return False


def _log_length(
    directories: Sequence[StorePath], config: StoreConfig, stated: int | None, saved: int | None
) -> int | None:
    """Return the one length of the files of the log, None without files.

    The length of the log's only file need not be its size: a copy that was interrupted is shorter. Then a longer size
    must be saved or given. Recovery extends the file to that size.
    """
    file_runs = [file_run for directory in directories if (file_run := _list_files(directory)) is not None]
    files = [file for file_run in file_runs for file in file_run.files if file.size]
    if saved is not None or len(files) != 1 or _shows_size(files[0]):
        return _length(LOG, file_runs, stated, saved, 1)
    given, file = getattr(config, LOG), files[0]
    if given is None:
        reason = (
            f"{LOG}: give it: {file.path} is the only file, and its length, {file.size}, may be that of a file that "
            f"was cut off; RocketMQ's default is {DEFAULT_SIZES[LOG]}"
        )
        advice = f"pass {config_text((LOG,))} or config=StoreConfig.from_broker_conf(path)"
        raise SettingError(reason, LOG, advice=advice)
    return given if given > file.size else _length(LOG, file_runs, stated, saved, 1)


def _shows_size(file: RunFile) -> bool:
    """Return whether the length of the log's only file is probably the size of the log's files.

    RocketMQ makes files of zeros, and ends a full one with a blank. Its sizes are powers of two nearly always. A file
    that was cut off between zeros, at a power of two, looks the same.
    """
    is_likely = file.size & (file.size - 1) == 0 or file.file_from_offset > 0
    if not is_likely or file.size < 2 * BLANK_SIZE:
        return False
    end = read_path_at(file.path, 2 * BLANK_SIZE, file.size - 2 * BLANK_SIZE)
    return not any(end[-BLANK_SIZE:]) or any(end[-size:].startswith(blank_head(size)) for size in SHORT_BLANKS)


def blank_head(size: int) -> bytes:
    """Return the first bytes of a blank. Parameters: size: of the blank, bytes."""
    return np.array([(size, MAGIC_BLANK)], BLANK_HEAD).tobytes()


def _list_files(directory: StorePath) -> FileRunReader | None:
    """Return the files of one directory of a run, None if the directory is missing."""
    try:
        return FileRunReader([directory])
    except (FileNotFoundError, NotADirectoryError):
        return None


def _length(
    name: str, file_runs: Iterable[FileRunReader], given: int | None, saved: int | None, unit: int
) -> int | None:
    """Return the one length of the files of all these runs, None without files.

    Empty files do not count: a power failure can leave one, and RocketMQ deletes it if it is the last file. A last file
    that is shorter than the known length was cut, or was being made when the power failed; recovery extends it.
    Source: MappedFileQueue.doLoad.
    """
    known, whose = given, "config/rocketstore.json" if given == saved else "the given size"
    found = None
    for file_run in file_runs:
        files = file_run.files
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
