"""``rocketstore import``: a file of messages into a store."""

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

import rocketstore
from rocketstore.cli.export import FORMATS, format_of
from rocketstore.cli.formats import error_text, note
from rocketstore.cli.options import PATH, broker_conf_option, broker_config, geometry_options, write_elsewhere_option
from rocketstore.cli.progress import bar
from rocketstore.cli.sizes import size_option
from rocketstore.cli.sources import Piece, Source
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import replace_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.layout.geometry import known_config, require_store
from rocketstore.limits import INT_MAX
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.state.broker_config import batch_topics
from rocketstore.store.message_store import MessageStore

__all__ = ["import_"]

STATE = "rocketstore-import.json"  # in config/
BEFORE = {"config", "lock", "lost+found"}  # what may be where a store is made
SAVE_SECONDS = 1.0


@dataclass
class State:
    """How far an import came, as it is kept in the store.

    The rows before ``rows`` are in the log and on the disk, behind ``begin``; what came after them begins at
    ``phy_offset``. After a kill some of the next rows are there already: they are compared, and not put again.
    """

    asked: dict[str, Any]
    version: list[int] | None  # size and time of the file; None of standard input
    begin: int
    phy_offset: int
    rows: int = 0
    stage: str = "running"  # "stopped": no row came after those; "done"


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("store", type=PATH)
@click.option("--format", "form", type=click.Choice(FORMATS), help="[default: by the name of SOURCE]")
@click.option("--keep-times", is_flag=True, help="Store times and store hosts are those of SOURCE, not new ones.")
@click.option("--resume", is_flag=True, help="Go on with an import that was interrupted.")
@click.option("--force", is_flag=True, help="Begin anew, whatever an interrupted import has stored.")
@click.option("--small", is_flag=True, help="Make a store with files for some megabytes, not a broker's.")
@click.option("--log-file-size", metavar="SIZE", callback=size_option(1, INT_MAX),
              help="Of the commit log's files, as 64M.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@click.pass_context
def import_(
    ctx: click.Context, /, source: Path, store: Path, form: str | None, keep_times: bool, resume: bool, force: bool,
    small: bool, write_elsewhere: bool, **sizes: int | None,
) -> None:
    """Put the messages of SOURCE, which is a file as export writes it, or "-", into STORE, which is made if need be.

    Of the columns only topic and body are needed. Arrow comes as a file, and in "-" as a stream. No broker may run on
    STORE. SOURCE has no types of topics: a topic that begins with an inner batch gets that of batches; else copy
    config/topics.json of the old store into STORE/config first. With --resume an import goes on that was interrupted,
    that ended at a row which is corrected in SOURCE now, or whose SOURCE grew: the rows that are stored have to be its
    first ones still, and are not stored twice.
    """
    if resume and force:
        raise click.UsageError("--resume goes on, --force begins anew: give one")
    rows = Source(source, format_of(source, form, "SOURCE"))
    if rows.is_standard_input and (resume or form == "parquet"):
        raise click.UsageError("SOURCE must be a file for --resume and for Parquet")
    config = config_of(ctx, small, sizes)
    if write_elsewhere:
        config = replace(config or known_config(store), write_elsewhere=True)
    check_place(store, config)
    try:
        with rocketstore.open(store, "a", config=config) as opened:
            Import(opened, rows, begin(opened, rows, keep_times, resume, force)).run()
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__  # of a store that takes no more messages
        if not isinstance(cause, OSError):
            raise
        text = error_text(cause) if cause.filename else f"{store}: {error_text(cause)}"
        hint = "; what is stored is kept, the same command with --resume goes on" if state_path(store).exists() else ""
        raise click.ClickException(f"{text}{hint}") from error


def config_of(ctx: click.Context, small: bool, sizes: dict[str, int | None]) -> StoreConfig | None:
    """Make the configuration of options; None if they say nothing."""
    config = broker_config(ctx)
    if small and config is not None:
        raise click.UsageError("--small and --broker-conf: give one")
    given: dict[str, Any] = {
        "mapped_file_size_commit_log": sizes["log_file_size"],
        "max_hash_slot_num": sizes["hash_slot_num"],
        "max_index_num": sizes["index_num"],
    }
    given = {name: size for name, size in given.items() if size is not None}
    if small or given:
        config = replace(config or (StoreConfig.small() if small else StoreConfig()), **given)
    return config


def check_place(path: Path, config: StoreConfig | None) -> None:
    """Raise ClickException where a store would be made among other files."""
    try:
        require_store(path, config or StoreConfig())
    except FileNotFoundError:
        pass
    except StoreError:
        if {entry.name for entry in path.iterdir()} - BEFORE:
            raise click.ClickException(f"{path}: is no store, and not empty: give one, or a new directory") from None


# ---- going on ----------------------------------------------------------------------------------------------


def version_of(source: Source) -> list[int] | None:
    if source.is_standard_input:
        return None
    status = source.path.stat()
    return [status.st_size, status.st_mtime_ns]


def begin(store: MessageStore, source: Source, keep_times: bool, resume: bool, force: bool) -> State:
    """Give the state to go on from. Raises: ClickException for an unfinished import that is not gone on with."""
    asked = {"source": str(source.path.absolute()), "format": source.form, "keep_times": keep_times}
    end = store.commit_log.max_phy_offset
    new = State(asked, version_of(source), end, end)
    path = state_path(store.path)
    state = None if force else read_state(path)
    if state is None or (state.rows == 0 and state.phy_offset == end):
        return new
    if resume and state.asked == asked:
        return state
    if state.stage == "done":
        return new
    raise click.ClickException(
        f"{path}: an import of {state.asked['source']} is unfinished, with {state.rows} rows stored at least: --resume "
        "goes on with the same options, --force begins anew"
    )


def state_path(root: Path) -> Path:
    return root / "config" / STATE


def read_state(path: Path) -> State | None:
    try:
        return State(**json.loads(read_small_file(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CorruptFileError(path, 0, "JSON", f"{error}: --force begins anew") from None


class Import:
    """Putting the rows of a file into a store, from where the state says on."""

    def __init__(self, store: MessageStore, source: Source, state: State) -> None:
        self.store = store
        self.source = source
        self.state = state
        self.keeps_times = state.asked["keep_times"]
        self.topics = store.topics  # as they were before
        self.batch_topics = batch_topics(self.topics)
        self.saved = 0.0

    def run(self) -> None:
        state, source = self.state, self.source
        if state.stage != "done" or state.version != version_of(source):
            self.put_rest()
        note(f"{self.store.path}: has all {state.rows} rows of {source.path}")

    def put_rest(self) -> None:
        state, source = self.state, self.source
        again = "" if source.is_standard_input else "the same command with --resume goes on"
        try:
            self.find_stored()
            self.save()
            self.put_all()
        except KeyboardInterrupt:
            self.save()
            note(f"{self.store.path}: has {state.rows} rows of {source.path}{again and '; '}{again}")
            raise
        except click.ClickException as error:
            self.save()
            hint = f"; when it is corrected, {again}" if again and state.rows else ""
            raise click.ClickException(f"{error.message} ({state.rows} rows are stored){hint}") from None
        state.stage = "done"
        self.save()

    def find_stored(self) -> None:
        """Pass over rows that were put before a kill, and have what others put since stay before what comes."""
        state, log = self.state, self.store.commit_log
        if not log.min_phy_offset <= state.phy_offset <= log.max_phy_offset:
            raise StoreError(
                f"{self.store.path}: the log is from {log.min_phy_offset} to {log.max_phy_offset}, but the import "
                f"stopped at {state.phy_offset}: it is another log, or a part is gone: --force begins anew"
            )
        self.check_version()
        if state.stage == "running" and state.phy_offset < log.max_phy_offset:
            self.pass_over(self.messages(state.rows))
        state.phy_offset, state.stage = log.max_phy_offset, "running"

    def check_version(self) -> None:
        """Raise StoreError unless the rows that are stored are the first ones of a file that was changed since."""
        state, version = self.state, version_of(self.source)
        if state.version == version:
            return
        changed, again = f"{self.source.path}: was changed", "--force begins anew, and stores rows again"
        if state.stage == "running" and state.phy_offset < self.store.commit_log.max_phy_offset:
            raise StoreError(f"{changed} after a kill, and more than {state.rows} rows may be stored: {again}")
        stored, rows = self.stored(state.begin, state.phy_offset), itertools.islice(self.messages(0), state.rows)
        count = sum(1 for _ in itertools.takewhile(lambda row: any(is_row(row, record) for record in stored), rows))
        if count < state.rows:
            raise StoreError(f"{changed}: of {state.rows} rows that are stored it has {count} in their place: {again}")
        state.version = version

    def messages(self, skip: int) -> Iterator[Message]:
        return (message for piece in self.source.read(skip) for _, message in self.source.singly(piece))

    def stored(self, begin: int, end: int | None = None) -> Iterator[Message]:
        columns = ("topic", "raw_body", "phy_offset", "size")
        return itertools.chain.from_iterable(self.store.scan(begin_offset=begin, end_offset=end, columns=columns))

    def pass_over(self, rows: Iterator[Message]) -> int:
        """Count the next rows that are in the log already."""
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
                for piece in self.source.read(self.state.rows):
                    with without_interrupts():
                        self.put(piece)
                    if time.monotonic() - self.saved >= SAVE_SECONDS:
                        self.save()
                    progress.update(task, completed=piece.position, description=f"import {self.state.rows:,} rows")
        finally:
            self.state.stage = "stopped"

    def put(self, piece: Piece) -> None:
        self.check(piece)
        try:
            result = self.store.put_messages(piece.messages, store_timestamp=self.store_timestamp)
        except ValueError:  # one is refused, or cannot be made; which?
            self.put_singly(piece)
        else:
            self.advance(len(result), int(result.phy_offsets[-1] + result.sizes[-1]))

    @property
    def store_timestamp(self) -> str | None:
        return "given" if self.keeps_times else None

    def check(self, piece: Piece) -> None:
        messages = piece.messages
        if isinstance(messages, MessageBatch) and not has_inner_batches(messages):
            messages = messages[:1]  # all rows of a table have the same columns
        for place, message in zip(piece.places, messages, strict=False):
            if self.keeps_times and not hasattr(message, "store_timestamp"):
                raise self.source.error(place, "column storeTimestamp: is missing, which --keep-times takes")
            if getattr(message, "sys_flag", 0) & INNER_BATCH and message.topic not in self.batch_topics:
                self.make_batch_topic(message.topic)

    def make_batch_topic(self, topic: str) -> None:
        """Make a topic whose type no row before its first inner batch tells. Raises: StoreError if that is too late."""
        try:
            if topic in self.topics:
                raise ValueError(f"topic {topic!r:.80} is there, and not of type BatchCQ")
            self.store.create_topic(topic, queue_type="BatchCQ")
        except ValueError as error:
            raise StoreError(
                f"{self.store.path}: an inner batch comes, but {error}. {self.source.path} has no types of topics: "
                "copy config/topics.json of the old store into the directory config of a new one, and import there"
            ) from None
        self.batch_topics.add(topic)

    def put_singly(self, piece: Piece) -> None:
        done = self.pass_over(message for _, message in self.source.singly(piece))
        for place, message in itertools.islice(self.source.singly(piece), done, None):
            try:
                result = self.store.put_message(message, store_timestamp=self.store_timestamp)
            except ValueError as error:
                raise self.source.error(place, error) from None
            self.advance(1, result.phy_offset + result.size)

    def save(self) -> None:
        """Keep the state, which says no more than what is on the disk."""
        path = state_path(self.store.path)
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
    """Have Ctrl-C wait for the end of the block."""
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt
