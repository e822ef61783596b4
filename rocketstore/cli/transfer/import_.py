"""``rocketstore import``: put the messages of a file into a store.

The store keeps the progress of the import in a state file, so that an interrupted import can resume. After a kill, the
log may have more rows than the state file says. These rows are compared with the file, and are not put again.
"""

import itertools
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.formats import error_text
from rocketstore.cli.progress import bar
from rocketstore.cli.settings import broker_config, config_with, geometry_settings
from rocketstore.cli.text import note
from rocketstore.cli.transfer.forms import format_of
from rocketstore.cli.transfer.redrive import parse_topic_map, redrive
from rocketstore.cli.transfer.sources import STANDARD_INPUT, Source, SourceRows
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import replace_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import local_path
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.index.geometry import IndexGeometry
from rocketstore.limits import LONG_MAX
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.state.json_tables import batch_topics
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.survey import survey_store
from rocketstore.text_values import format_count

STATE = "rocketstore-import.json"  # in config/
SAVE_SECONDS = 1.0  # between writes of the state file
STAGES = ("running", "stopped", "done")


@dataclass
class State:
    """The progress of an import, which the state file keeps.

    Attributes
    ----------
    asked : the file and the options of the import.
    version : size and modification time of the file; None for standard input.
    begin : the physical offset where the log ended when the import began.
    phy_offset : the physical offset after the last stored row that was counted.
    rows : the number of rows that are in the log and on the disk.
    stage : one of ``STAGES``. "running": the log may have more rows after ``phy_offset``. "stopped": it has no more.
        "done": it has all.
    """

    asked: dict[str, Any]
    version: list[int] | None
    begin: int
    phy_offset: int
    rows: int = 0
    stage: str = "running"


def run(
    ctx: click.Context,
    /,
    source: Path,
    store: Path,
    form: str | None,
    keep_times: bool,
    topic_map: tuple[str, ...],
    resume: bool,
    force: bool,
    small: bool,
    log_file_size: int | None,
    geometry: IndexGeometry | None,
    write_elsewhere: bool,
    allow_unreadable: bool,
) -> None:
    """Run the command with the values of its options."""
    if resume and force:
        raise click.UsageError("--resume and --force: give only one of them")
    if topic_map and (keep_times or resume or force):
        raise click.UsageError("--topic-map puts each message once: give it without --keep-times, --resume and --force")
    try:
        topics = parse_topic_map(topic_map)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--topic-map") from None
    if source != STANDARD_INPUT:
        source.stat()  # an error of a missing file comes before one of its format
    rows = Source(source, format_of(source, form, "SOURCE"))
    if rows.is_standard_input and (resume or form == "parquet"):
        raise click.UsageError("SOURCE must be a file for --resume and for Parquet")
    config = config_with(
        config_of(ctx, small, log_file_size, geometry),
        store,
        write_elsewhere=write_elsewhere,
        allow_unreadable=allow_unreadable,
    )
    try:
        with MessageStore.of_writing_entry("import", store, "a", config) as opened:
            if topics:
                redrive(opened, rows, topics)
            else:
                Import(opened, rows, start_import(opened, rows, keep_times, resume, force)).run()
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__  # the reason why the writer stopped
        if not isinstance(cause, OSError):
            raise
        text = error_text(cause) if cause.filename else f"{store}: {error_text(cause)}"
        hint = "; the stored rows are kept; run the same command with --resume to continue"
        raise click.ClickException(
            f"{text}{hint if state_path(survey_store(store).places).exists() else ''}"
        ) from error


def config_of(
    ctx: click.Context, small: bool, log_file_size: int | None, geometry: IndexGeometry | None
) -> StoreConfig | None:
    """Return the configuration that the options give; None if none of them is given."""
    config = broker_config(ctx)
    if small and config is not None:
        raise click.UsageError("--small and --broker-conf: give only one of them")
    given: dict[str, Any] = {}
    if log_file_size is not None:
        given["mapped_file_size_commit_log"] = log_file_size
    given |= geometry_settings(geometry)
    if small or given:
        config = replace(config or (StoreConfig.small() if small else StoreConfig()), **given)
    return config


# ---- the state -------------------------------------------------------------------------------------------


def version_of(source: Source) -> list[int] | None:
    if source.is_standard_input:
        return None
    status = source.path.stat()
    return [status.st_size, status.st_mtime_ns]


def start_import(store: MessageStore, source: Source, keep_times: bool, resume: bool, force: bool) -> State:
    """Return the state of a new import, or the saved state with ``resume``.

    Raises: ClickException if another import is unfinished.
    """
    asked = {"source": str(source.path.absolute()), "format": source.form, "keep_times": keep_times}
    end = store.commit_log.max_phy_offset
    new = State(asked, version_of(source), end, end)
    path = state_path(store.places)
    state = None if force else read_state(path)
    if state is None or (state.rows == 0 and state.phy_offset == end):
        return new
    if resume and state.asked == asked:
        return state
    if state.stage == "done":
        return new
    rows = format_count(state.rows, "row")
    raise click.ClickException(
        f"{path}: an import of {state.asked['source']} is unfinished, at least {rows} stored: "
        "--resume with the same options continues it, --force starts again"
    )


def state_path(places: AnyPlaces) -> Path:
    return local_path(places.config_file(STATE))


def read_state(path: Path) -> State | None:
    """Return the state of the last import; None without a state file. Raises: CorruptFileError, OSError."""
    try:
        fields = json.loads(read_small_file(path))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, "JSON", f"{error}: --force starts again") from None
    if not is_state(fields):
        raise CorruptFileError(path, 0, "JSON", "is not what import writes: --force starts again")
    return State(**fields)


def is_state(fields: Any) -> bool:
    """Return whether the values of a state file are possible."""
    if not isinstance(fields, dict) or fields.keys() != State.__dataclass_fields__.keys():
        return False
    asked, numbers = fields["asked"], [fields["begin"], fields["phy_offset"], fields["rows"]]
    return (
        isinstance(asked, dict)
        and {"source", "keep_times"} <= asked.keys()
        and all(type(number) is int and 0 <= number <= LONG_MAX for number in numbers)
        and fields["stage"] in STAGES
    )


class Import:
    """Puts the rows of a file into a store, beginning after the rows that the state counts."""

    def __init__(self, store: MessageStore, source: Source, state: State) -> None:
        self.store = store
        self.source = source
        self.state = state
        self.keeps_times = state.asked["keep_times"]
        self.topics = store.topic_configs  # before the import
        self.batch_topics = batch_topics(self.topics)
        self.saved = 0.0

    def run(self) -> None:
        state, source = self.state, self.source
        if state.stage != "done" or state.version != version_of(source):
            self.put_missing_rows()
        note(f"{self.store.path}: has all rows of {source.path} ({format_count(state.rows, 'row')})")

    def put_missing_rows(self) -> None:
        state, source = self.state, self.source
        again = "" if source.is_standard_input else "run the same command with --resume to continue"
        try:
            self.count_stored_rows()
            self.save()
            self.put_all()
        except KeyboardInterrupt:
            self.save()
            note(f"{self.store.path}: has {format_count(state.rows, 'row')} of {source.path}{again and '; '}{again}")
            raise
        except click.ClickException as error:
            self.save()
            hint = f"; correct the row, then {again}" if again and state.rows else ""
            raise click.ClickException(f"{error.message} ({format_count(state.rows, 'row')} stored){hint}") from None
        state.stage = "done"
        self.save()

    def count_stored_rows(self) -> None:
        """Count the rows that a killed import put after it saved its state. The next rows follow at the log's end."""
        state, log = self.state, self.store.commit_log
        if not log.min_phy_offset <= state.phy_offset <= log.max_phy_offset:
            raise StoreError(
                f"{self.store.path}: the log is from {log.min_phy_offset} to {log.max_phy_offset}, but the import "
                f"stopped at {state.phy_offset}: it is another log, or a part of it was deleted: --force starts again"
            )
        self.check_version()
        if state.stage == "running" and state.phy_offset < log.max_phy_offset:
            self.skip_stored(self.messages(state.rows))
        state.phy_offset, state.stage = log.max_phy_offset, "running"

    def check_version(self) -> None:
        """Raise StoreError if the file was changed and its first rows are no longer the stored rows."""
        state, version = self.state, version_of(self.source)
        if state.version == version:
            return
        changed, again = f"{self.source.path}: was changed", "--force starts again, and stores these rows again"
        if state.stage == "running" and state.phy_offset < self.store.commit_log.max_phy_offset:
            most = format_count(state.rows, "row")
            raise StoreError(f"{changed} after a kill, and more than {most} may be stored: {again}")
        stored, rows = self.stored(state.begin, state.phy_offset), itertools.islice(self.messages(0), state.rows)
        count = sum(1 for _ in itertools.takewhile(lambda row: any(is_row(row, record) for record in stored), rows))
        if count < state.rows:
            of = f"{count} of {format_count(state.rows, 'stored row')}"
            raise StoreError(f"{changed}: only the first {of} are still in it: {again}")
        state.version = version

    def messages(self, skip: int) -> Iterator[Message]:
        return (message for rows in self.source.read(skip) for _, message in self.source.singly(rows))

    def stored(self, begin: int, end: int | None = None) -> Iterator[Message]:
        columns = ("topic", "raw_body", "phy_offset", "size")
        return itertools.chain.from_iterable(self.store.scan(begin_offset=begin, end_offset=end, columns=columns))

    def skip_stored(self, rows: Iterator[Message]) -> int:
        """Skip the next rows that are in the log already. Return their number."""
        count = 0
        for record in self.stored(self.state.phy_offset):
            row = next(rows, None)
            if row is None or not is_row(row, record):
                break
            self.advance(1, record.phy_offset + record.size)
            count += 1
        return count

    def advance(self, rows: int, phy_offset: int) -> None:
        self.state.rows += rows
        self.state.phy_offset = phy_offset

    def put_all(self) -> None:
        try:
            with bar() as progress:
                task = progress.add_task("import", total=self.source.size)
                for rows in self.source.read(self.state.rows):
                    with without_interrupts():
                        self.put(rows)
                    if time.monotonic() - self.saved >= SAVE_SECONDS:
                        self.save()
                    progress.update(task, completed=rows.position, description=f"import {self.state.rows:,} rows")
        finally:
            self.state.stage = "stopped"

    def put(self, rows: SourceRows) -> None:
        self.check(rows)
        try:
            result = self.store.put_messages(rows.messages, store_timestamp=self.store_timestamp)
        except ValueError:  # put the rows one by one to find the row that is refused
            self.put_singly(rows)
        else:
            self.advance(len(result), int(result.phy_offsets[-1] + result.sizes[-1]))

    @property
    def store_timestamp(self) -> str | None:
        return "given" if self.keeps_times else None

    def check(self, rows: SourceRows) -> None:
        """Check that rows have the columns of --keep-times. Make the topics of inner batches."""
        messages = rows.messages
        if isinstance(messages, MessageBatch) and not has_inner_batches(messages):
            messages = messages[:1]  # all rows of a table have the same columns
        for number, message in zip(rows.numbers, messages, strict=False):
            if self.keeps_times and not hasattr(message, "store_timestamp"):
                raise self.source.error(number, "column storeTimestamp: is missing, and --keep-times needs it")
            if getattr(message, "sys_flag", 0) & INNER_BATCH and message.topic not in self.batch_topics:
                self.make_batch_topic(message.topic)

    def make_batch_topic(self, topic: str) -> None:
        """Make a topic of batches for the first inner batch. Raises: StoreError if the topic has another type."""
        try:
            if topic in self.topics:
                raise ValueError(f"topic {topic!r:.80} exists and is not of type BatchCQ")
            self.store.create_topic(topic, queue_type="BatchCQ")
        except ValueError as error:
            raise StoreError(
                f"{self.store.path}: the next message is an inner batch, but {error}. {self.source.path} has no types "
                "of topics: copy config/topics.json of the old store into the directory config of a new store, and "
                "import into the new store"
            ) from None
        self.batch_topics.add(topic)

    def put_singly(self, rows: SourceRows) -> None:
        """Put rows one by one. Rows that are in the log already, because ``put_messages`` failed later, are skipped."""
        skipped = self.skip_stored(message for _, message in self.source.singly(rows))
        for number, message in itertools.islice(self.source.singly(rows), skipped, None):
            try:
                result = self.store.put_message(message, store_timestamp=self.store_timestamp)
            except ValueError as error:
                raise self.source.error(number, error) from None
            self.advance(1, result.phy_offset + result.size)

    def save(self) -> None:
        """Flush the store, then write the state file, so that it never counts rows that are not on the disk."""
        path = state_path(self.store.places)
        with without_interrupts():
            self.store.flush()
            if self.source.is_standard_input:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, json.dumps(asdict(self.state), indent="\t").encode())
        self.saved = time.monotonic()


def has_inner_batches(messages: MessageBatch) -> bool:
    flags = getattr(messages, "sys_flag", None)
    return flags is not None and bool((flags & INNER_BATCH).any())


def is_row(row: Message, record: Message) -> bool:
    return (row.topic, row.raw_body) == (record.topic, record.raw_body)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the ``with`` block."""
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt
