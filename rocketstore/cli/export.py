"""``rocketstore export``: the messages of a commit log as one file."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from rocketstore.arrow import message_schema
from rocketstore.cli.cat import left_out, note_leftovers
from rocketstore.cli.elsewhere import note_elsewhere
from rocketstore.cli.formats import CSV_FORMS, SAFE_CSV, SAFE_CSV_RULE, csv_line, error_text, finish, line_writer, note
from rocketstore.cli.messages import BODY_RULE, message_rows, note_bad_bodies, row_names
from rocketstore.cli.options import (
    PATH,
    scan_conditions,
    selection_options,
    store_argument,
    unknown_topics,
)
from rocketstore.cli.progress import bar
from rocketstore.disk.durable import sync_path
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import StoreError
from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import message_fields
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import LogEnd
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message_batch import MessageBatch, values_of
from rocketstore.store.message_store import MessageStore

__all__ = ["FORMATS", "export", "format_of"]

SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".json": "json", ".jsonl": "json", ".csv": "csv"}
FORMATS = sorted({*SUFFIXES.values()})
TABLES = ("parquet", "arrow")
STANDARD_OUTPUT = Path("-")
STATE = "export.json"
NAMES = {"asked", "replaces", "begin", "end", "pieces"}  # in it
OURS = r"export\.json|(state|piece|whole)\.tmp|[0-9]{20}-[0-9]{20}\.piece"  # names in TARGET.partial
BATCH_SIZE = 8192
# The result of one piece. rows: number of messages; problems: texts on messages that were left out; unseen: requested
# topics without a message in the piece; bad_bodies: the count and the first error of BadBodies.
Piece = dict[str, Any]
format_option = click.option(
    "--format", "form", type=click.Choice([*FORMATS, SAFE_CSV]),
    help=f"json: one object a line; csv: lists and maps in it are JSON; {SAFE_CSV_RULE}  "
    "[default: by the name of TARGET]",
)


@click.command(epilog=BODY_RULE)
@store_argument
@click.argument("target", type=PATH)
@selection_options
@format_option
@click.option("--raw-body", is_flag=True, help="Add bodies as they are stored, so that import gives the same bytes.")
@click.option("--resume", is_flag=True, help="Go on with an export that was interrupted.")
@click.option("--force", is_flag=True, help="Replace TARGET, and begin anew.")
def export(
    store: MessageStore, target: Path, form: str | None, raw_body: bool, resume: bool, force: bool, **options: Any
) -> None:
    """Write the messages of STORE for which all conditions hold to TARGET, in the order of the commit log.

    Until all is written, it is in TARGET.partial, a piece for each file of the log; an interrupted export goes on from
    the last whole piece. JSON and CSV can go to "-", standard output. What is damaged is left out and named on standard
    error; the exit status is then 1. If only the body of a message cannot be decoded, the message is written. A warning
    gives the number of these messages.
    """
    form = format_of(target, form, "TARGET")
    if resume and force:
        raise click.UsageError("--resume goes on, --force begins anew: give one")
    if form in TABLES:
        import_extra("pyarrow", "arrow")
    conditions = scan_conditions(**options)
    note_elsewhere(store, conditions["topics"] or None)
    extra = ["body_error"] * (form in TABLES) + ["raw_body"] * raw_body
    conditions["columns"] = [*message_fields(), *extra]
    if target != STANDARD_OUTPUT:
        asked = json.loads(json.dumps({"store": str(store.path), "format": form, **conditions}))
        export_file(store, conditions, asked, target, resume, force)
    elif resume or form in TABLES:
        raise click.UsageError("TARGET must be a file for --resume, for Parquet and for Arrow")
    else:
        write = text_writer(sys.stdout, form, conditions["columns"], True)
        log, begin = store.commit_log, conditions["begin_offset"] or 0
        conditions["begin_offset"] = max(begin, log.min_phy_offset)
        finish_with(store, target, [copy(log, conditions, write)])


def copy(
    log: CommitLog, conditions: dict[str, Any], write: Callable[[MessageBatch], object],
    progress: Callable[[int], object] = lambda position: None,
) -> Piece:
    """Write the messages for which all conditions hold, and tell how many, and what was left out."""
    scan = log.scan(**conditions, on_corrupt="skip", batch_size=BATCH_SIZE)
    scan.warns = False  # the command writes one warning for all pieces
    rows, unseen = 0, set(conditions["topics"] or ())
    for batch in scan:
        write(batch)
        rows += len(batch)
        if unseen:
            unseen.difference_update(values_of("topic", batch.topic, 0, len(batch)))
        progress(int(batch.phy_offset.max(initial=0)))
    bad_bodies = [scan.bad_bodies.count, scan.bad_bodies.first]
    return {"rows": rows, "problems": left_out(log, scan), "unseen": sorted(unseen), "bad_bodies": bad_bodies}


def export_file(
    store: MessageStore, conditions: dict[str, Any], asked: dict[str, Any], target: Path, resume: bool, force: bool
) -> None:
    log = store.commit_log
    work = target.with_name(f"{target.name}.partial")
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise click.ClickException(f"{target}: exists, and is no regular file: give another name")
    if target.exists() and not force:
        if resume and not work.exists():
            note(f"{target}: exists, and nothing of it is unfinished")
            return
        if not (resume and read_state(work)["replaces"]):
            raise click.ClickException(f"{target}: exists: give another name, or --force to replace it")
    state = begin(work, log, asked, resume, force)
    try:
        write_pieces(log, conditions, work, state)
        merge(pieces_of(work), asked["format"], conditions["columns"], work / "whole.tmp")
        publish(work / "whole.tmp", target)
    except KeyboardInterrupt:
        note(f"{work}: has what is done; the same command with --resume goes on")
        raise
    except OSError as error:
        text = error_text(error) if error.filename else f"{work}: {error_text(error)}"
        raise click.ClickException(f"{text}; what is done is kept, the same command with --resume goes on") from error
    shutil.rmtree(work)
    finish_with(store, target, state["pieces"].values())


def finish_with(store: MessageStore, target: Path, pieces: Collection[Piece]) -> None:
    """Report what was left out, and topics that are not there, or say how much was written."""
    bad_bodies = BadBodies()
    for piece in pieces:
        bad_bodies.add_all(BadBodies(*piece.get("bad_bodies", ())))  # missing in pieces of older releases
    note_bad_bodies(bad_bodies)
    unseen = set.intersection(*(set(piece["unseen"]) for piece in pieces))
    problems = [problem for piece in pieces for problem in piece["problems"]]
    note_leftovers(store.commit_log)
    finish([*problems, *unknown_topics(store, sorted(unseen))])
    note(f"{target}: {sum(piece['rows'] for piece in pieces):,} messages")


def format_of(path: Path, form: str | None, name: str) -> str:
    """Choose the format of a file by the option or by its end; name: what the file is called in the usage."""
    form = form or SUFFIXES.get(path.suffix)
    if form is None:
        raise click.UsageError(f"--format is needed, or one of {', '.join(SUFFIXES)} at the end of {name}")
    return form


def begin(work: Path, log: CommitLog, asked: dict[str, Any], resume: bool, force: bool) -> dict[str, Any]:
    """Make the directory of the pieces, or take the one there is; give its state."""
    if force:
        remove(work)
    elif work.exists():
        state = read_state(work)
        if not resume:
            raise click.ClickException(f"{work}: is unfinished: --resume goes on with it, --force begins anew")
        if state["asked"] != asked:
            raise click.ClickException(f"{work}: was begun with other options: give the same, or --force")
        return state
    first, last = asked["begin_offset"] or 0, LONG_MAX if asked["end_offset"] is None else asked["end_offset"]
    first, last = max(first, log.min_phy_offset), min(last, LogEnd(log).find())
    state = {"asked": asked, "replaces": force, "begin": first, "end": last, "pieces": {}}
    work.mkdir()
    save(work, state)
    return state


def remove(work: Path) -> None:
    """Remove the directory of an export, if there is one, and nothing that no export made."""
    if not work.exists():
        return
    for path in work.iterdir():
        if not re.fullmatch(OURS, path.name):
            raise click.ClickException(f"{path}: is of no export: move it away, or give TARGET another name")
    shutil.rmtree(work)


def read_state(work: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(read_small_file(work / STATE))
        if not isinstance(state, dict) or state.keys() != NAMES:
            raise ValueError("it is of no export")
    except (OSError, ValueError, StoreError) as error:
        reason = getattr(error, "strerror", error)
        raise click.ClickException(f"{work / STATE}: {reason}: --force begins anew") from None
    return state


def save(work: Path, state: dict[str, Any]) -> None:
    (work / "state.tmp").write_text(json.dumps(state))
    publish(work / "state.tmp", work / STATE)


def publish(temporary: Path, path: Path) -> None:
    """Give a file its name when its bytes are on the disk."""
    sync_path(temporary)
    temporary.replace(path)


def pieces_of(work: Path) -> list[Path]:
    """The pieces that are whole: from one physical offset to another, as their names say."""
    return sorted(work.glob("*-*.piece"))


def write_pieces(log: CommitLog, conditions: dict[str, Any], work: Path, state: dict[str, Any]) -> None:
    """Write the pieces that are missing, one for each file of the log."""
    start, end, form = state["begin"], state["end"], state["asked"]["format"]
    done = pieces_of(work)
    position = int(done[-1].stem.split("-")[1]) if done else start
    with bar() as progress:
        task = progress.add_task("export", total=max(end - start, 1), completed=position - start)

        def show(position: int) -> None:
            progress.update(task, completed=position - start)

        while position < end or not pieces_of(work):
            starts = [file.file_from_offset for file in log.queue.files]
            stop = max(min([end, *(at for at in starts if at > position)]), position)
            bounds = {"begin_offset": position, "end_offset": stop}
            with writer_of(work / "piece.tmp", form, conditions["columns"], position == start) as write:
                state["pieces"][str(position)] = copy(log, conditions | bounds, write, show)
            save(work, state)
            publish(work / "piece.tmp", work / f"{position:020}-{stop:020}.piece")
            position = stop


@contextmanager
def writer_of(
    path: Path, form: str, columns: list[str], first: bool
) -> Iterator[Callable[[MessageBatch], object]]:
    """Open a piece, and give what writes a batch to it."""
    if form in TABLES:
        with table_writer(path, form, columns) as table:
            yield lambda batch: table.write(batch.to_arrow())
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        yield text_writer(file, form, columns, first)


def text_writer(
    file: TextIO, form: str, columns: list[str], first: bool
) -> Callable[[MessageBatch], object]:
    """Give what writes a batch as lines, the first of CSV after their header."""
    is_terminal = file.isatty()
    if form in CSV_FORMS and first:
        file.write(csv_line(row_names(raw_body="raw_body" in columns)))
    line = line_writer(form, is_terminal)
    return lambda batch: file.writelines(map(line, message_rows(batch, raw_body="raw_body" in columns)))


def table_writer(path: Path, form: str, columns: list[str]) -> Any:
    if form == "parquet":
        return import_extra("pyarrow.parquet", "arrow").ParquetWriter(path, message_schema(columns))
    return import_extra("pyarrow", "arrow").ipc.new_file(str(path), message_schema(columns))


def merge(pieces: list[Path], form: str, columns: list[str], whole: Path) -> None:
    """Make one file of all pieces, a batch at a time."""
    if len(pieces) == 1:
        pieces[0].replace(whole)
    elif form in TABLES:
        with table_writer(whole, form, columns) as table:
            for part in (part for piece in pieces for part in parts_of(piece, form)):
                table.write(part)
    else:
        with whole.open("wb") as out:
            for piece in pieces:
                with piece.open("rb") as file:
                    shutil.copyfileobj(file, out, 1 << 20)


def parts_of(piece: Path, form: str) -> Iterator[Any]:
    if form == "parquet":
        with import_extra("pyarrow.parquet", "arrow").ParquetFile(piece) as file:
            yield from map(file.read_row_group, range(file.num_row_groups))
    else:
        pyarrow = import_extra("pyarrow", "arrow")
        with pyarrow.memory_map(str(piece)) as source, pyarrow.ipc.open_file(source) as reader:
            yield from map(reader.get_batch, range(reader.num_record_batches))
