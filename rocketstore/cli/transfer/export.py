"""``rocketstore export``: write the messages of a commit log to one file.

The file grows in the directory TARGET.partial, and gets its name when it is complete. The state of the export is beside
it: how many bytes of the file are on the disk, and which part of the log they have. Queues that are in logs of their
own, of tiered storage or of compacted topics, follow one by one.
"""

import gzip
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

import click
import numpy as np

from rocketstore.brokers.find_stores import FAILURES, text_about
from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.formats import csv_line, error_text, finish, write_utf8
from rocketstore.cli.settings import refuse_places_in_log, scan_conditions
from rocketstore.cli.several import AskedStores, unknown_to_all
from rocketstore.cli.store_notes import left_out as left_out_texts
from rocketstore.cli.store_notes import (
    note_bad_bodies,
    note_elsewhere,
    note_leftovers,
    or_nothing_found,
    unknown_topics,
)
from rocketstore.cli.text import CSV_FORMS, note
from rocketstore.cli.times import find_zone, has_iso_times
from rocketstore.cli.transfer.deleted_topics import LIVES_COLUMNS, find_lives, rows_of_deleted_topics
from rocketstore.cli.transfer.export_options import STANDARD_OUTPUT, ExportOptions, refuse_combinations, split_options
from rocketstore.cli.transfer.forms import SUFFIXES, TABLES, compression_of, format_of, part_suffix
from rocketstore.cli.transfer.hide_fields import redaction_of, refuse_partitions, report_redaction
from rocketstore.cli.transfer.partitions import write_partitions
from rocketstore.cli.transfer.table_file import ArrowRows, ParquetRows
from rocketstore.cli.transfer.target import FileIsThere, require_file_name, require_outside_stores
from rocketstore.cli.transfer.upload import uploaded
from rocketstore.cli.unconsumed import WantedMessages, read_unconsumed
from rocketstore.cli.view.decoded import BodyDecoder, make_decoder
from rocketstore.cli.view.filters import note_unseen
from rocketstore.cli.view.inner_batches import NEEDED_COLUMNS
from rocketstore.cli.view.messages import MessageView, message_lines
from rocketstore.disk.ahead import iterate_ahead
from rocketstore.disk.durable import sync, sync_path
from rocketstore.disk.page_cache import begin_write_back
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.topic_lives import TopicLives, topic_notes
from rocketstore.errors import StoreError
from rocketstore.extras import import_extra
from rocketstore.incremental.new_part import export_new_part
from rocketstore.kernels.columns import masked_rows
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, message_fields
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.message_filter import NO_CONDITIONS, MessageFilter
from rocketstore.log.scan import ChosenRows, Scan
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MADE_COLUMNS, MessageBatch
from rocketstore.messages.redaction import HashOf, Redaction
from rocketstore.messages.text_rows import row_names
from rocketstore.messages.topics import DEAD_LETTER_PREFIX
from rocketstore.progress import show_progress
from rocketstore.query.other_logs import OtherLog
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import search_of_scan
from rocketstore.text_values import format_count

STATE, ROWS = "export.json", "rows"
STATE_KEYS = {"asked", "replaces", "begin", "end", "queues", "parts"}
NEW_STATE = "state.tmp"
KNOWN_FILES = (STATE, NEW_STATE, ROWS)  # names in TARGET.partial
BATCH_SIZE = 8192
PART_BYTES = 64 << 20  # of the log, the least for a part of text without compression
WRITE_BACK_BYTES = 8 << 20  # of text, between two requests to bring it to the disk
OF_ONE_PART = {"store", "begin_offset", "end_offset"}  # values that may differ between parts of an incremental export
# The result of a range of the log, or of a queue in a log of its own. rows: number of messages; problems: texts on
# messages that were left out; unseen: requested topics without a message in the range; bad_bodies: the count and the
# first error of BadBodies; deleted: topic, queue id and count of messages of deleted topics.
Result = dict[str, Any]
Write = Callable[[MessageBatch | Sequence[Message]], object]


class Exported(NamedTuple):
    """What was written of a store.

    Attributes: rows: the number of messages. problems: why messages may be missing. unknown: a text for each requested
    topic that the store does not have. conditions: of the scan.
    """

    rows: int
    problems: list[object]
    unknown: dict[str, str]
    conditions: dict[str, Any]


def run(stores: AskedStores, target: StorePath, **values: Any) -> None:
    """Run the command with the values of its options."""
    options, scan_options = split_options(values)
    if is_remote(target):
        if stores.is_several:
            raise click.UsageError("of several stores, TARGET is a local directory")
        require_outside_stores(target, [stores.only.path])
        with uploaded(target, options) as local:
            found = export_store(stores.only, local, options, scan_options)
    else:
        found = export_to_local(stores, Path(str(target)), options, scan_options)
    if found is not None:
        note_unseen(options.message_filter)
        problems = [*found.problems, *found.unknown.values()]
        finish(or_nothing_found(stores.only, found.rows, problems, search_of_scan(found.conditions)))
        note(f"{target}: {format_count(found.rows, 'message')}")


def export_to_local(
    stores: AskedStores, target: Path, options: ExportOptions, scan_options: Mapping[str, Any]
) -> Exported | None:
    """Export to a file, a directory or standard output. Return None if all is reported already."""
    if target != STANDARD_OUTPUT:
        require_outside_stores(target, [store.path for store in stores.stores.values()])
    if stores.is_several:
        problems = export_several(stores, target, options, scan_options)
        note_unseen(options.message_filter)
        finish(problems)
        return None
    return export_store(stores.only, target, options, scan_options)


def export_several(
    stores: AskedStores, target: Path, options: ExportOptions, scan_options: Mapping[str, Any]
) -> list[object]:
    """Write a directory with a directory for each store, ``broker=NAME``. Return the problems."""
    if target == STANDARD_OUTPUT:
        raise click.UsageError("of several stores, TARGET is a directory: cat writes their messages to standard output")
    if (scan_options["begin_offset"], scan_options["end_offset"]) != (None, None):
        stores.require_one("--begin-offset", "--end-offset")
    if options.limit is not None:
        stores.require_one("--limit")
    if options.state is not None:
        stores.require_one("--state")
    if target.exists() and not (options.resume or options.force):
        raise FileIsThere(target)
    target.mkdir(exist_ok=True)
    options = replace(options, form=options.form or SUFFIXES.get(target.suffix, "parquet"))
    rows = 0
    problems: list[object] = [*stores.problems]
    unknown: list[dict[str, str]] = []
    for broker, store in stores.stores.items():
        directory = target / f"broker={quote(broker, safe='')}"
        try:
            found = export_store(store, target_of_store(directory, options), options, scan_options)
        except click.UsageError:
            raise
        except click.ClickException as error:
            problems.append(error.message)
        except FAILURES as error:
            problems.append(text_about(store.path, error))
        else:
            if found is not None:
                note(f"{directory}: {format_count(found.rows, 'message')}")
                rows += found.rows
                problems += found.problems
                unknown.append(found.unknown)
    problems += unknown_to_all(unknown)
    return problems or ([] if rows or not unknown else [f"{stores}: no message was found"])


def target_of_store(directory: Path, options: ExportOptions) -> Path:
    """Return what is written of one store of several: its directory with partitions, or a file in the directory."""
    if options.partition_by:
        return directory
    directory.mkdir(exist_ok=True)
    return directory / f"messages.{part_suffix(str(options.form), options.compression)}"


def export_store(
    store: MessageStore, target: Path, options: ExportOptions, scan_options: Mapping[str, Any]
) -> Exported | None:
    """Export the messages of a store. Return None if the export was complete already."""
    default = "parquet" if options.partition_by or options.state is not None else None
    form = format_of(target, options.form or default, "TARGET")
    options = replace(options, compression=compression_of(target, form, options.compression))
    refuse_combinations(options, scan_options, form, target, reads_other_logs=store.reads_other_logs)
    if form in TABLES:
        import_extra("pyarrow", "arrow")
    source = plan_source(store, form, options, scan_options)
    if options.state is not None:
        export_new(source, describe_export(source, form, options), target, options.state)
        return None
    if options.partition_by:
        return export_partitions(source, target, form, options.partition_by, options.compression)
    if target != STANDARD_OUTPUT:
        return export_file(source, describe_export(source, form, options), target, options.resume, options.force)
    write = text_writer(
        partial(write_utf8, sys.stdout),
        form,
        source.conditions["columns"],
        options.charset,
        source.decoder,
        is_first=True,
        is_terminal=sys.stdout.isatty(),
    )
    return note_results(source, [copy_messages(source, source.scans(), write)])


def plan_source(
    store: MessageStore, form: str, options: ExportOptions, scan_options: Mapping[str, Any]
) -> "ExportSource":
    """Plan which messages of a store are written, and with which columns."""
    topics = tuple(f"{DEAD_LETTER_PREFIX}{group}" for group in options.dlq) or scan_options["topic"]
    conditions = scan_conditions(**{**scan_options, "topic": topics})
    found = None if options.unconsumed is None else read_unconsumed(store, options.unconsumed)
    if found is not None:
        wanted = found.wanted.phy_offsets
        conditions |= {"begin_offset": int(wanted.min(initial=0)), "end_offset": int(wanted.max(initial=0)) + 1}
    if store.reads_other_logs:
        refuse_places_in_log(conditions)
    note_elsewhere(store, conditions["topic"] or None)
    extra = ["body_error"] * (form in TABLES) + ["raw_body"] * options.raw_body
    chosen = [MESSAGES[name] for name in options.columns or ()]
    conditions |= {"columns": chosen or [*message_fields(), *extra], "charset": options.charset}
    make_redaction = redaction_of(options.redact, options.hashed, options.hash_key, options.charset)
    if make_redaction is not None and options.partition_by:
        refuse_partitions(options.partition_by, options.redact)
    by_topic = bool(conditions["topic"]) or "topic" in options.partition_by
    return ExportSource(
        store=store,
        log=store.commit_log,
        conditions=conditions,
        has_containers=options.has_containers,
        lives=find_lives(store, conditions["topic"]) if by_topic and not options.deleted else None,
        wanted=None if found is None else found.wanted,
        message_filter=options.message_filter,
        unknown={} if found is None else found.unknown,
        problems=[] if found is None else found.problems,
        limit=options.limit,
        make_redaction=make_redaction,
        decoder=None if options.decode is None else make_decoder(options.decode, options.charset),
    )


def describe_export(source: "ExportSource", form: str, options: ExportOptions) -> dict[str, Any]:
    """Return all that decides on the contents of a file, as JSON. Only an export with equal values can be resumed."""
    store, hash_key = source.store, options.hash_key
    asked = {
        "store": str(store.path),
        "format": form,
        "containers": source.has_containers,
        **source.conditions,
        **times_of(form),
        "compression": options.compression,
        "deleted": options.deleted,
        "compacted": store.compacted,
        "conditions": options.message_filter.texts,
        "limit": options.limit,
        "redact": options.redact,
        "hash": options.hashed,
        "decode": options.decode,
        "hash_key": None if hash_key is None else HashOf(hash_key.encode()).of_bytes(b"rocketstore"),
        "tier": str(store.tier.root) if store.tiered else None,
    }
    described: dict[str, Any] = json.loads(json.dumps(asked))
    return described


@dataclass(frozen=True)
class ExportSource:
    """The messages of an export.

    Attributes: conditions: arguments of ``CommitLog.scan``. has_containers: write the records of inner batches. lives:
    decides which messages of the commit log belong to deleted topics and are left out; None to write all messages.
    wanted: the messages to write; None for all. message_filter: further conditions.
    unknown: a text about the group of ``wanted`` if the store does not know it, by its name. problems: why messages of
    ``wanted`` may be missing.
    limit: the largest number of messages; None for all. make_redaction: makes what removes fields; None to remove none.
    decoder: of the bodies; None to write them as text.
    """

    store: MessageStore
    log: CommitLog
    conditions: dict[str, Any]
    has_containers: bool
    lives: TopicLives | None
    wanted: WantedMessages | None = None
    message_filter: MessageFilter = NO_CONDITIONS
    unknown: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[object] = ()
    limit: int | None = None
    make_redaction: Callable[[], Redaction] | None = None
    decoder: BodyDecoder | None = None

    @property
    def _scanned(self) -> dict[str, Any]:
        """The arguments of a scan of the messages."""
        names = [*self.conditions["columns"], *NEEDED_COLUMNS, "topic", "store_timestamp"]
        names += LIVES_COLUMNS if self.lives is not None else ()
        if self.make_redaction is not None and not MADE_COLUMNS.isdisjoint(names):
            names.append("body")  # of which the texts are made again
        wanted = {"columns": list(dict.fromkeys(names)), "on_corrupt": "skip", "batch_size": BATCH_SIZE}
        return self.conditions | wanted | {"containers": self.has_containers}

    def scan(self, begin: int, end: int | None) -> Scan:
        """Return the messages of a part of the commit log. Parameters: end: None for the end of the log."""
        found = self.store.scan_log(**self._scanned | {"begin_offset": begin, "end_offset": end})
        if self.wanted is not None:
            return found.with_rows(ChosenRows(("phy_offset", "queue_offset"), self.wanted.choose))
        return self.store.leave_out_compacted(found)

    def plan_other_logs(self) -> list[OtherLog]:
        """Plan to read the queues that are in logs of their own, if the store was opened so."""
        return self.store.plan_other_logs(self.conditions["topic"], self.conditions["queue_ids"])

    def scans_of(self, log: OtherLog) -> Iterator[Scan]:
        """Yield scans of a queue that is in a log of its own."""
        return log.scans(self._scanned)

    def scans(self) -> Iterator[Scan]:
        """Yield scans of all messages."""
        others = self.plan_other_logs()
        begin = max(self.conditions["begin_offset"] or 0, self.log.min_phy_offset)
        yield self.scan(begin, self.conditions["end_offset"])
        for other in others:
            yield from self.scans_of(other)


def copy_messages(
    source: ExportSource,
    scans: Iterable[Scan],
    write: Write,
    progress: Callable[[int], object] = lambda position: None,
    written: int = 0,
) -> Result:
    """Write the messages of scans. Return their number and the messages that were left out.

    Parameters: written: number of messages that were written before, for the limit.
    """
    result: Result = {}
    for messages in read_messages(source, scans, result, progress, written):
        write(messages)
    return result


def read_messages(
    source: ExportSource,
    scans: Iterable[Scan],
    result: Result,
    progress: Callable[[int], object] = lambda position: None,
    written: int = 0,
) -> Iterator[MessageBatch | Sequence[Message]]:
    """Yield the messages of scans. At the end, fill in ``result``."""
    log, lives = source.log, source.lives
    most = LONG_MAX if source.limit is None else source.limit - written
    redaction = None if source.make_redaction is None else source.make_redaction()
    left_out: Counter[QueueId] = Counter()
    problems: list[str] = []
    bad_bodies = BadBodies()

    def without_deleted(batch: MessageBatch) -> MessageBatch:
        if lives is None or masked_rows(batch.phy_offset).any():
            return batch
        are_left_out, counts = rows_of_deleted_topics(log, lives, batch)
        left_out.update(counts)
        return batch.take(np.flatnonzero(~are_left_out)) if counts else batch

    rows, unseen = 0, set(source.conditions["topic"] or ())
    for scan in scans:
        # The command writes one warning for all pieces together.
        found = source.message_filter.of_scan(scan.adapted(warns=False, choose=without_deleted))
        for batch in iterate_ahead(found) if source.limit is None else found:
            shown = batch if len(batch) <= most - rows else batch[: most - rows]
            yield shown if redaction is None else [*map(redaction.apply, shown)]
            rows += len(shown)
            if unseen:
                unseen.difference_update(batch.topic)
            progress(found.position)
            if rows >= most:
                break
        problems += left_out_texts(found)
        bad_bodies.add_all(found.bad_bodies)
        if rows >= most:
            break
    unseen -= {queue.topic for queue in left_out}
    result |= {"rows": rows, "problems": problems, "unseen": sorted(unseen)}
    result["redaction"] = None if redaction is None else redaction.summary()
    result["bad_bodies"] = [bad_bodies.count, bad_bodies.first]
    result["deleted"] = [[*queue, count] for queue, count in sorted(left_out.items())]


def export_partitions(
    source: ExportSource,
    target: Path,
    form: str,
    names: tuple[str, ...],
    compression: str | None,
) -> Exported:
    """Write a directory of files. It gets its name when it is complete."""
    work = target.with_name(f"{target.name}.partial")
    for path in (target, work):
        if path.exists() or path.is_symlink():
            raise click.ClickException(f"{path}: exists: give another name, or remove it")
    result: Result = {}
    messages = read_messages(source, source.scans(), result)
    try:
        columns, charset = source.conditions["columns"], source.conditions["charset"]
        write_partitions(work, messages, form, columns, names, compression, charset)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    publish(work, target)
    return note_results(source, [result])


def export_new(source: ExportSource, asked: dict[str, Any], directory: Path, state: Path) -> None:
    """Add a part with the new messages to a directory. Write notes and problems, and exit with 1 after problems."""
    require_outside_stores(directory / STATE, [source.store.path])
    require_outside_stores(state, [source.store.path])
    results: list[Result] = []

    def write(path: Path, begin: int, end: int) -> int:
        path.touch()
        with (
            show_progress(True, "export") as report,
            closing(open_rows(path, source, asked, [])) as rows,
        ):
            show = partial(report_position, report, begin, end)
            results.append(copy_messages(source, [source.scan(begin, end)], rows.write, show))
            rows.finish()
        return int(results[0]["rows"])

    own = {name: value for name, value in asked.items() if name not in OF_ONE_PART}
    suffix = part_suffix(asked["format"], asked["compression"])
    part = export_new_part(source.log, directory, state, own, suffix, write)
    problems: list[object] = [*part.reasons]
    if results:
        found = note_results(source, results)
        problems += [*found.problems, *found.unknown.values()]
    if part.path is None:
        note(f"{directory}: nothing is new: the log was read to offset {part.end}")
    else:
        note(f"{part.path}: {format_count(part.messages, 'message')}")
    finish(problems)


def report_position(report: Callable[[int, int], object], begin: int, end: int, position: int) -> None:
    report(min(position, end) - begin, end - begin)


def times_of(form: str) -> dict[str, str]:
    """Return the time zone of an export that writes times as ISO 8601. Only the same zone can resume the export."""
    return {"iso": str(find_zone())} if has_iso_times() and form not in TABLES else {}


def export_file(
    source: ExportSource, asked: dict[str, Any], target: Path, resume: bool, force: bool
) -> Exported | None:
    """Write or continue a file. It gets its name when it is complete.

    Returns: None if it is complete already.
    """
    work = target.with_name(f"{target.name}.partial")
    require_file_name(target)
    if target.exists() and not force:
        if resume and is_published(work):
            shutil.rmtree(work, ignore_errors=True)
            note(f"{target}: is complete already: --resume adds no newer messages, --state FILE does")
            return None
        if not (resume and read_state(work)["replaces"]):
            raise FileIsThere(target)
    state = start_export(work, source, asked, resume, force)
    hint = "has the messages so far; run the same command with --resume to continue"
    try:
        results = write_parts(source, work, state)
        if target.exists() and not state["replaces"]:  # another program may have made the file meanwhile
            raise click.ClickException(f"{target}: exists now: move it away, and run the same command with --resume")
        publish(work / ROWS, target)
    except KeyboardInterrupt:
        note(f"{work}: {hint}")
        raise
    except OSError as error:
        text = error_text(error) if error.filename else f"{work}: {error_text(error)}"
        raise click.ClickException(f"{text}; {work.name} {hint}") from error
    shutil.rmtree(work)
    return note_results(source, results)


def note_results(source: ExportSource, results: Collection[Result]) -> Exported:
    """Write notes about bad bodies, deleted topics and leftovers. Return what was written."""
    store, conditions = source.store, source.conditions
    bad_bodies = BadBodies()
    for result in results:
        bad_bodies.add_all(BadBodies(*result["bad_bodies"]))
    note_bad_bodies(bad_bodies)
    note_deleted_topics(source.lives, results)
    redaction_problems = report_redaction([result["redaction"] for result in results if result["redaction"]])
    unseen = set.intersection(*(set(result["unseen"]) for result in results))
    found = [*source.problems, *(problem for result in results for problem in result["problems"])]
    note_leftovers(store.commit_log)
    rows = sum(result["rows"] for result in results)
    found += redaction_problems if rows else []
    return Exported(rows, found, {**source.unknown, **unknown_topics(store, sorted(unseen))}, conditions)


def note_deleted_topics(lives: TopicLives | None, results: Collection[Result]) -> None:
    """Write notes to standard error about deleted topics: the messages that were left out, and topics in doubt."""
    left_out: Counter[QueueId] = Counter()
    for result in results:
        left_out.update({QueueId(topic, queue_id): count for topic, queue_id, count in result["deleted"]})
    if lives is not None:
        deleted = lives.result(left_out)
        for text in topic_notes(deleted.messages, deleted.undeclared, deleted.doubtful):
            note(text)


def start_export(work: Path, source: ExportSource, asked: dict[str, Any], resume: bool, force: bool) -> dict[str, Any]:
    """Make the directory of the export, or resume with the existing one. Return the state of the export."""
    if force:
        remove_partial(work)
    elif work.exists():
        state = read_state(work)
        if not resume:
            raise click.ClickException(f"{work}: is unfinished: --resume continues it, --force starts again")
        if state["asked"] != asked:
            raise click.ClickException(f"{work}: was started with other options: give the same options, or --force")
        return state
    log, queues = source.log, [[*other.queue, other.end, other.is_tier] for other in source.plan_other_logs()]
    first, last = asked["begin_offset"] or 0, LONG_MAX if asked["end_offset"] is None else asked["end_offset"]
    first, last = max(first, log.min_phy_offset), min(last, log.look(again=True).records_end)
    state = {"asked": asked, "replaces": force, "begin": first, "end": last, "queues": queues, "parts": []}
    work.mkdir()
    (work / ROWS).touch()
    save_state(work, state)
    return state


def remove_partial(work: Path) -> None:
    """Remove the directory of an export if it exists. Raises: ClickException if it has a file of another origin."""
    if not work.exists():
        return
    for path in work.iterdir():
        if path.name not in KNOWN_FILES:
            hint = "move it away, or give TARGET another name"
            raise click.ClickException(f"{path}: was not written by export: {hint}")
    shutil.rmtree(work)


def is_published(work: Path) -> bool:
    """Return whether the file of an export has its name. Its directory may be left if the export was killed then."""
    return not work.exists() or ((work / STATE).exists() and not (work / ROWS).exists())


def read_state(work: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(read_small_file(work / STATE))
        if not isinstance(state, dict) or state.keys() != STATE_KEYS:
            raise ValueError("was not written by export")
    except (OSError, ValueError, StoreError) as error:
        reason = getattr(error, "strerror", error)
        raise click.ClickException(f"{work / STATE}: {reason}: --force starts again") from None
    return state


def save_state(work: Path, state: dict[str, Any]) -> None:
    (work / NEW_STATE).write_text(json.dumps(state))
    publish(work / NEW_STATE, work / STATE)


def publish(temporary: Path, path: Path) -> None:
    """Flush a file to the disk, rename it, and flush the new name."""
    sync_path(temporary)
    temporary.replace(path)
    sync_path(path.parent)


def write_parts(source: ExportSource, work: Path, state: dict[str, Any]) -> list[Result]:
    """Append the messages that are missing. Return all results.

    The state is saved after each file of the log, and after each queue that is in a log of its own. Saving the state
    takes long compared with writing text. So a part of text without compression has PART_BYTES of the log or more.
    """
    log = source.log
    start, end, asked, parts = state["begin"], state["end"], state["asked"], state["parts"]
    position = max((part["end"] for part in parts), default=start)
    results: list[Result] = []  # of files of the log after the last part
    least = 1 if asked["format"] in TABLES or is_compressed(asked["compression"]) else PART_BYTES
    with (
        show_progress(True, "export") as report,
        closing(open_rows(work / ROWS, source, asked, [part["size"] for part in parts])) as rows,
    ):

        def show(position: int) -> None:
            report(position - start, max(end - start, 1))

        while position < end or not (parts or results):
            starts = [file.file_from_offset for file in log.file_run.files]
            stop = max(min([end, *(at for at in starts if at >= position + least)]), position)
            written = count_rows(parts, results)
            if source.limit is not None and written >= source.limit:
                break
            results.append(copy_messages(source, [source.scan(position, stop)], rows.write, show, written))
            position, size = stop, rows.end_part()
            if size is not None:
                parts.append({"end": stop, "queues": 0, "size": size, "results": results})
                results = []
                save_state(work, state)
        for number, scans in scans_of_queues(source, state):
            results.append(copy_messages(source, scans, rows.write, written=count_rows(parts, results)))
            if (size := rows.end_part()) is not None:
                parts.append({"end": end, "queues": number, "size": size, "results": results})
                results = []
                save_state(work, state)
        rows.finish()
    return [result for part in parts for result in part["results"]] + results


def count_rows(parts: Iterable[dict[str, Any]], results: Iterable[Result]) -> int:
    """Return the number of messages that were written. Parameters: results: behind the last part."""
    return sum(result["rows"] for result in [*(result for part in parts for result in part["results"]), *results])


def scans_of_queues(source: ExportSource, state: dict[str, Any]) -> Iterator[tuple[int, Iterator[Scan]]]:
    """Yield the scans of each queue in a log of its own that is missing, and the number of queues up to it.

    The queues end where they ended when the export began: later messages of the commit log may be in the tier by now.
    """
    done = state["parts"][-1]["queues"] if state["parts"] else 0
    planned = {(*other.queue, other.is_tier): other for other in source.plan_other_logs()} if state["queues"] else {}
    for number, (topic, queue_id, end, is_tier) in enumerate(state["queues"][done:], done + 1):
        other = planned.get((topic, queue_id, is_tier))
        if other is None:
            place = "tiered storage" if is_tier else "the compaction"
            raise click.ClickException(f"queue {queue_id} of {topic!r} is in {place} no more: --force starts again")
        yield number, source.scans_of(other._replace(end=end))


def open_rows(
    path: Path, source: ExportSource, asked: dict[str, Any], ends: list[int]
) -> "TextRows | ParquetRows | ArrowRows":
    """Open the file of an export to append rows. Bytes after the last part are cut.

    Parameters: ends: the sizes of the file at the ends of its parts, bytes.
    """
    columns, size = source.conditions["columns"], ends[-1] if ends else 0
    if path.stat().st_size < size:
        raise click.ClickException(f"{path}: has fewer than the {size} bytes that were written: --force starts again")
    os.truncate(path, size)
    if asked["format"] in TABLES:
        rows_of = ParquetRows if asked["format"] == "parquet" else ArrowRows
        return rows_of(path, columns, asked["compression"], ends, asked["charset"])
    return TextRows(path, asked["format"], columns, asked["charset"], source.decoder, asked["compression"])


class TextRows:
    """Append messages to a file of JSON lines or CSV. Each part of a compressed file is compressed on its own."""

    def __init__(
        self,
        path: Path,
        form: str,
        columns: list[str],
        charset: str,
        decoder: BodyDecoder | None,
        compression: str | None,
    ) -> None:
        self._file = path.open("ab")
        self._sent = self._file.tell()  # bytes that the system was asked to bring to the disk
        self._compression = compression
        self._stream: Any = None  # of the part that is being written, if it is compressed
        is_first = self._file.tell() == 0
        self.write = text_writer(self._write_bytes, form, columns, charset, decoder, is_first=is_first)

    def _write_bytes(self, data: bytes | memoryview) -> None:
        if not is_compressed(self._compression):
            self._file.write(data)
            if self._file.tell() - self._sent >= WRITE_BACK_BYTES:
                self._begin_write_back()
            return
        if self._stream is None:
            self._stream = open_compressor(self._file, str(self._compression))
        self._stream.write(data)

    def _begin_write_back(self) -> None:
        """Let the system begin to bring the rows to the disk, so that less is left to do at the end."""
        self._file.flush()
        end = self._file.tell()
        begin_write_back(self._file.fileno(), self._sent, end)
        self._sent = end

    def end_part(self) -> int:
        """Bring all rows to the disk. Return the size of the file, bytes."""
        self.finish()
        self._file.flush()
        sync(self._file.fileno())
        return self._file.tell()

    def finish(self) -> None:
        """Complete the file after the last row."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self._file.close()


def is_compressed(compression: str | None) -> bool:
    return compression not in (None, "none")


def open_compressor(file: BinaryIO, compression: str) -> Any:
    """Return a file object that compresses what is written to it. To close it completes the data in ``file``.

    Raises: ModuleNotFoundError without the package of zstd.
    """
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="wb", mtime=0)  # equal rows are equal bytes
    compressor = import_extra("zstandard", "codecs").ZstdCompressor()
    return compressor.stream_writer(file, closefd=False)


def text_writer(
    write: Callable[[bytes | memoryview], object],
    form: str,
    columns: list[str],
    charset: str,
    decoder: BodyDecoder | None,
    *,
    is_first: bool,
    is_terminal: bool = False,
) -> Write:
    """Return the function that writes a batch as lines. A CSV file begins with the header.

    Parameters: write: writes UTF-8. columns: their names in a batch. charset, decoder: of the bodies.
    """
    names = row_names(raw_body="raw_body" in columns)
    if columns[: len(message_fields())] != [*message_fields()]:
        chosen = tuple(MESSAGE_FIELDS[name].name for name in columns)
        names = MessageView(chosen, is_full=True, has_containers=True).names
    if form in CSV_FORMS and is_first:
        write(csv_line(names).encode())

    def write_lines(messages: MessageBatch | Sequence[Message]) -> None:
        for text in message_lines(messages, names, form, is_terminal, charset, decoder):
            write(text)

    return write_lines
