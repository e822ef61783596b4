"""``rocketstore export``: the messages of a commit log as one file."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from rocketstore.arrow import message_schema
from rocketstore.cli.cat import skipped_text
from rocketstore.cli.formats import csv_line, finish, json_line
from rocketstore.cli.messages import BODY_RULE, message_rows
from rocketstore.cli.options import PATH, scan_conditions, selection_options, store_argument
from rocketstore.cli.progress import bar
from rocketstore.extras import import_extra
from rocketstore.files.commit_log import CommitLog
from rocketstore.files.log_end import LogEnd
from rocketstore.files.mapped_file import sync
from rocketstore.kernels.message_columns import message_fields
from rocketstore.limits import LONG_MAX
from rocketstore.message_batch import MessageBatch
from rocketstore.store.message_store import MessageStore

__all__ = ["FORMATS", "export", "format_of"]

SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".json": "json", ".jsonl": "json", ".csv": "csv"}
FORMATS = sorted({*SUFFIXES.values()})
TABLES = ("parquet", "arrow")
STATE = "export.json"
BATCH_SIZE = 8192
format_option = click.option(
    "--format", "form", type=click.Choice(FORMATS),
    help="json: one object a line; csv: lists and maps in it are JSON.  [default: by the name of TARGET]",
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
    the last whole piece. What is damaged is left out and named on standard error; the exit status is then 1.
    """
    form = format_of(target, form, "TARGET")
    if target.is_dir() or (target.exists() and not force):
        raise click.ClickException(f"{target}: exists: give another name, or --force to replace a file")
    if form in TABLES:
        import_extra("pyarrow", "arrow")
    log, conditions = store.commit_log, scan_conditions(**options)
    conditions["columns"] = [*message_fields(), "raw_body"] if raw_body else None
    work = target.with_name(f"{target.name}.partial")
    asked = {"store": str(store.path.absolute()), "format": form, **conditions}
    state = begin(work, log, json.loads(json.dumps(asked)), resume, force)
    try:
        write_pieces(log, conditions, work, state)
        merge(pieces_of(work), form, conditions["columns"], work / "whole.tmp")
        publish(work / "whole.tmp", target)
    except KeyboardInterrupt:
        click.echo(f"{work}: has what is done; the same command with --resume goes on", err=True)
        raise
    shutil.rmtree(work)
    finish(state["problems"])


def format_of(path: Path, form: str | None, name: str) -> str:
    """Choose the format of a file by the option or by its end; name: what the file is called in the usage."""
    form = form or SUFFIXES.get(path.suffix)
    if form is None:
        raise click.UsageError(f"--format is needed, or one of {', '.join(SUFFIXES)} at the end of {name}")
    return form


def begin(work: Path, log: CommitLog, asked: dict[str, Any], resume: bool, force: bool) -> dict[str, Any]:
    """Make the directory of the pieces, or take the one there is; give its state."""
    if work.exists():
        state: dict[str, Any] = json.loads((work / STATE).read_bytes())
        if not (resume or force):
            raise click.ClickException(f"{work}: is unfinished: --resume goes on with it, --force begins anew")
        if not force:
            if state["asked"] != asked:
                raise click.ClickException(f"{work}: was begun with other options: give the same, or --force")
            return state
        shutil.rmtree(work)
    first, last = asked["begin_offset"] or 0, LONG_MAX if asked["end_offset"] is None else asked["end_offset"]
    first, last = max(first, log.min_phy_offset), min(last, LogEnd(log).find())
    state = {"asked": asked, "begin": first, "end": last, "problems": []}
    work.mkdir()
    save(work, state)
    return state


def save(work: Path, state: dict[str, Any]) -> None:
    (work / "state.tmp").write_text(json.dumps(state))
    publish(work / "state.tmp", work / STATE)


def publish(temporary: Path, path: Path) -> None:
    """Give a file its name when its bytes are on the disk."""
    with temporary.open("rb") as file:
        sync(file.fileno())
    temporary.replace(path)


def pieces_of(work: Path) -> list[Path]:
    """The pieces that are whole: from one physical offset to another, as their names say."""
    return sorted(work.glob("*-*.piece"))


def write_pieces(log: CommitLog, conditions: dict[str, Any], work: Path, state: dict[str, Any]) -> None:
    """Write the pieces that are missing, one for each file of the log."""
    start, end = state["begin"], state["end"]
    done = pieces_of(work)
    position = int(done[-1].stem.split("-")[1]) if done else start
    with bar() as progress:
        task = progress.add_task("export", total=max(end - start, 1), completed=position - start)
        while position < end or not pieces_of(work):
            starts = [file.file_from_offset for file in log.queue.files]
            stop = max(min([end, *(at for at in starts if at > position)]), position)
            bounds = {"begin_offset": position, "end_offset": stop}
            scan = log.scan(**conditions | bounds, on_corrupt="skip", batch_size=BATCH_SIZE)
            columns = conditions["columns"]
            with writer_of(work / "piece.tmp", state["asked"]["format"], columns, position == start) as write:
                for batch in scan:
                    write(batch)
                    progress.update(task, completed=int(batch.phy_offset.max(initial=start)) - start)
            if scan.skipped:
                state["problems"] += map(skipped_text, scan.skipped)
                save(work, state)
            publish(work / "piece.tmp", work / f"{position:020}-{stop:020}.piece")
            position = stop


@contextmanager
def writer_of(
    path: Path, form: str, columns: list[str] | None, first: bool
) -> Iterator[Callable[[MessageBatch], object]]:
    """Open a piece, and give what writes a batch to it."""
    if form in TABLES:
        with table_writer(path, form, columns) as table:
            yield lambda batch: table.write(batch.to_arrow())
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if form == "csv" and first:
            names = [field.name for name, field in message_fields(columns).items() if name != "raw_body"]
            file.write(csv_line([*names, "bodyBase64", *(["rawBodyBase64"] if columns else [])]))
        line = json_line if form == "json" else lambda row: csv_line(row.values())
        yield lambda batch: file.writelines(map(line, message_rows(batch, raw_body=columns is not None)))


def table_writer(path: Path, form: str, columns: list[str] | None) -> Any:
    if form == "parquet":
        return import_extra("pyarrow.parquet", "arrow").ParquetWriter(path, message_schema(columns))
    return import_extra("pyarrow", "arrow").ipc.new_file(str(path), message_schema(columns))


def merge(pieces: list[Path], form: str, columns: list[str] | None, whole: Path) -> None:
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
