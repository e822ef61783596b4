"""convert: write a store anew, with other sizes of files, for another release, or in files instead of other formats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig, StoreConfig, camel_case
from rocketstore.convert.convert_report import ConvertReport
from rocketstore.convert.copy_log import IdFinder, NewLog, read_pieces
from rocketstore.convert.finish_store import copy_broker_files, finish_store
from rocketstore.convert.left_out import describe_uncommitted
from rocketstore.convert.old_store import OldStore, find_assumed_sizes, open_old_store
from rocketstore.convert.stale_ids import describe_stale_ids
from rocketstore.disk.storage import local_path
from rocketstore.errors import StoreError
from rocketstore.keywords import suggests_keywords
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.rebuild.broker_files import read_config_files
from rocketstore.recovery.settings import warn_of
from rocketstore.recovery.unreadable import count_unreadable
from rocketstore.root_places import CONVERT_WORK
from rocketstore.salvage.new_root import is_part_of_store, new_root, require_free_root, require_outside
from rocketstore.state.config_values import TABLE_NAMES
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import BATCH, EXT, ITEMS, LOG, PLAIN, SLOTS, require_batch_size, with_default_sizes
from rocketstore.text_values import format_count


@suggests_keywords
def convert(
    path: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    mapped_file_size_commit_log: int | None = None,
    mapped_file_size_consume_queue: int | None = None,
    mapper_file_size_batch_consume_queue: int | None = None,
    mapped_file_size_consume_queue_ext: int | None = None,
    max_hash_slot_num: int | None = None,
    max_index_num: int | None = None,
    compat: str | None = None,
    config: StoreConfig | None = None,
    deleted: bool = False,
    progress: Progress = False,
) -> ConvertReport:
    """Write a stopped store anew in files of other sizes, or for another release. Nothing in ``path`` is changed.

    The new store has plain files: DLedger's log, and queues, index, topics, groups and offsets in RocksDB, become
    files. A broker of ``compat`` starts on it without ``enableDLegerCommitLog``, with ``storeType=default``, and with
    the new sizes in its properties file.

    Queue offsets do not change, so that consumers continue where they were. Records keep their order and their bytes,
    except for these:

    * The physical offset, unless the size of the log's files stays the same. Message ids of brokers have it too: ids in
      properties, such as ORIGIN_MESSAGE_ID of a retried message, then lead to no message or to another one. They are
      not changed; ``stale_ids`` of the report names them. Ids in bodies, for example of message traces, are not looked
      for.
    * The prepared transaction offset of a commit or rollback, which is the physical offset of its half message.
    * The CRC property is made right.

    Timers that wait get the new offsets, and the compacted topics and popped messages are copied. A log that begins at
    0 begins with its second file instead if a queue begins after 0. Otherwise a broker would read the fillers at the
    start of the queue as messages.

    Until ``new`` is complete, it has a directory ``rocketstore-convert``. If the process is killed, call ``convert``
    again with the same ``new``: it begins anew.

    Parameters
    ----------
    path : the root of a store that was stopped. Repair a crashed or damaged store first.
    new : the root of the new store: a directory that is empty, or does not exist.
    mapped_file_size_commit_log, mapped_file_size_consume_queue, mapper_file_size_batch_consume_queue,
    mapped_file_size_consume_queue_ext : the new sizes of files, bytes; None: those of the old store.
    max_hash_slot_num, max_index_num : the new sizes of index files; None: those of the old store.
    compat : the RocketMQ release that will read the new store; None: that of ``config``.
    config : settings of the old store, as for ``rebuild``.
    deleted : give messages of deleted topics units too, as for ``rebuild``.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were copied, and all its bytes.

    Returns
    -------
    ConvertReport.

    Raises
    ------
    ValueError : a size is impossible, or not known, or a record does not fit into a file; ``new`` is inside ``path``.
        CorruptFileError : the log is damaged before its tail. StoreError : ``compat`` cannot read a record or a topic
        with batch queues. FileExistsError : ``new`` is not empty. StoreLockedError, OSError. After an error ``new`` is
        empty, or missing if it was missing.

    Source: none.

    Examples:
    >>> report = rocketstore.convert("demo", "converted", max_index_num=1000)
    >>> report.records, report.moved
    (101, 0)
    """
    changes: dict[str, Any] = {
        LOG: mapped_file_size_commit_log,
        PLAIN: mapped_file_size_consume_queue,
        BATCH: mapper_file_size_batch_consume_queue,
        EXT: mapped_file_size_consume_queue_ext,
        SLOTS: max_hash_slot_num,
        ITEMS: max_index_num,
        "compat": compat,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    StoreConfig(**changes)  # raises the errors of impossible values
    survey = begin_entry("convert", local_path(path), config)
    out = local_path(new)
    require_outside(out, map(local_path, [survey.root, *survey.places.log_directories]))
    require_free_root(out, CONVERT_WORK, is_part_of_store)
    with open_old_store(survey) as old:
        files = require_config_files(old)
        target = target_config(old, changes)
        unreadable = require_readable(old, target)
        with new_root(out, CONVERT_WORK) as places, show_progress(progress, "convert") as shown:
            report = _convert(old, places, target, files, changes, out, shown, deleted=deleted)
    report = replace(report, assumptions=(*unreadable, *report.assumptions))
    warn_of(report.assumptions, survey.root, stacklevel=4)
    return report


def target_config(old: OldStore, changes: Mapping[str, Any]) -> SizedConfig:
    """Return the configuration of a new store whose parts are all in its root, in plain files."""
    config = replace(old.config, store_path_commit_log=None, read_only_commit_log_store_paths=None, **changes)
    return with_default_sizes(config.without_dledger())


def require_readable(old: OldStore, target: SizedConfig) -> tuple[str, ...]:
    """Return in words which records the release of a new store cannot read. Raises: StoreError if it must read all."""
    unreadable = count_unreadable(old.log, target.compat, old.begin, old.end)
    texts = unreadable.require_none(old.survey.root, allow=old.config.allow_unreadable)
    batches = sorted(batch_topics(open_tables(old.survey.places, old.survey.given).read_topics(must_be_good=True)))
    if batches:
        require_batch_size(target)
    if batches and not Compat.of(target.compat).has_inner_batches:
        names = ", ".join(batches)
        raise StoreError(f"{old.survey.root}: RocketMQ {target.compat} cannot read the batch queues of {names}")
    return texts


def has_same_files(old: OldStore, size: int) -> bool:
    """Return whether a new log, whose files have ``size`` bytes, has the records in the same files as the old log."""
    return size == old.config.mapped_file_size_commit_log and not old.log.reader.framing


def find_log_begin(old: OldStore, size: int) -> int:
    """Return the first physical offset of a new log, whose files have ``size`` bytes.

    It is 0 only if all queues begin at 0. Fillers, and units of expired messages, lead to physical offset 0, at which a
    broker must find no message.
    """
    if old.begin > 0 and has_same_files(old, size):
        return old.log.file_run.files[0].file_from_offset
    least = max(old.begin, int(old.has_late_queues))
    return -(-least // size) * size


def _convert(
    old: OldStore,
    places: LocalPlaces,
    target: SizedConfig,
    files: Mapping[str, bytes],
    changes: Mapping[str, Any],
    out: Path,
    progress: Report,
    *,
    deleted: bool,
) -> ConvertReport:
    """Write the new store. Parameters: files: of the broker's configuration, by name."""
    size = target.mapped_file_size_commit_log
    begin = find_log_begin(old, size)
    with NewLog(places.default_log, size, begin, old) as new_log:
        copy_all(old, new_log, progress)
    queues = {queue_id: queue.end for queue_id, queue in old.queues.items()}
    finished = finish_store(old, new_log, places, target, files, queues, deleted=deleted)
    notes = copy_broker_files(old, places, new_log)
    stale = new_log.stale_ids.rows()
    return ConvertReport(
        out=out,
        min_phy_offset=begin,
        max_phy_offset=new_log.writer.phy_offset,
        records=new_log.records,
        moved=new_log.writer.moved,
        prepared=new_log.prepared,
        queues=finished.report.queues,
        index_items=finished.report.index_items,
        stale_ids=stale,
        notes=(
            *_describe_differences(old, new_log, out),
            *describe_sizes(old, target, changes, out),
            *finished.notes,
            *notes,
            *describe_stale_ids(stale),
        ),
        assumptions=finished.report.assumptions,
        deleted=finished.report.deleted,
        undeclared=finished.report.undeclared,
        doubtful=finished.report.doubtful,
    )


def require_config_files(old: OldStore) -> dict[str, bytes]:
    """Return the files of the broker's configuration by name.

    Raises: StoreError if topics, groups or offsets are in a RocksDB that cannot be read.
    """
    survey = old.survey
    files = read_config_files(survey)
    lacking = [name for name in TABLE_NAMES if name in survey.formats.config_databases and name not in files]
    if lacking:
        reasons = "; ".join(dict.fromkeys(problem.what for problem in open_tables(survey.places, survey.given).check()))
        path = survey.formats.config_databases[lacking[0]]
        raise StoreError(f"{path}: {', '.join(lacking)} cannot be made of this RocksDB: {reasons}")
    return files


def copy_all(old: OldStore, new_log: NewLog, progress: Report) -> None:
    """Copy all records of the old log."""
    ids, total = IdFinder(), old.end - old.begin
    keeps_files = has_same_files(old, new_log.writer.size)
    file = None
    for piece in read_pieces(old.log, old.begin, old.end):
        found = old.log.file_run.find(piece.base)
        if keeps_files and found is not None and found != file:  # where a file ended early, the new one ends too
            new_log.writer.go_to(found.file_from_offset)
            file = found
        new_log.copy(piece, np.arange(len(piece.sizes)), ids.find(piece))
        progress(piece.end - old.begin, total)


def _describe_differences(old: OldStore, new_log: NewLog, out: Path) -> list[str]:
    """Return notes on parts that the new store lacks, and on physical offsets that changed."""
    places, notes = old.survey.local_places, describe_uncommitted(old)
    if new_log.unknown_prepared:
        count = format_count(new_log.unknown_prepared, "message")
        notes.append(f"{count} name a prepared message that is not in the log, and keep its old physical offset")
    if places.epoch_file.exists():
        notes.append(
            f"{places.epoch_file}: is not copied, since it has physical offsets: a broker with a controller makes it"
        )
    tables = old.survey.formats.config_databases.values()
    directories = [path for path in sorted(places.config.glob("*")) if path.is_dir() and path not in tables]
    notes += [f"{path}: is not copied; it may have users and their passwords" for path in directories]
    if new_log.writer.moved:
        notes.append(f"{out}: messages have other physical offsets, and so other ids of brokers, than in {places.root}")
    return notes


def describe_sizes(old: OldStore, target: SizedConfig, changes: Mapping[str, Any], out: Path) -> list[str]:
    """Return a note on sizes that were assumed: a broker loads files only with the same sizes."""
    needed = [PLAIN, *([SLOTS, ITEMS] if target.message_index_enable else [])]
    names = find_assumed_sizes(old, needed, changes)
    if not names:
        return []
    sizes = ", ".join(f"{camel_case(name)}={getattr(target, name)}" for name in names)
    return [f"{out}: no file of the old store shows these sizes, which were assumed: {sizes}"]
