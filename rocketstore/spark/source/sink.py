"""Write rows of Spark to a store. Tasks encode rows into files in the store, and the commit appends them to the log."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import NullType

from rocketstore.config import DEFAULT_SIZES, SizedConfig, StoreConfig, camel_case, parse_value
from rocketstore.disk.durable import make_directory, make_root
from rocketstore.disk.storage import local_path
from rocketstore.errors import StoreLockedError
from rocketstore.jobs.intent import WriteIntent, prepared_path
from rocketstore.jobs.prepared_rows import ANY_QUEUE, PreparedRows, PreparedRowsWriter
from rocketstore.jobs.transactions import Transaction, last_version
from rocketstore.kernels.message_columns import BATCH_NAMES
from rocketstore.messages.arrow_import import check_buffers, check_names
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_rules import StoreTimestamp
from rocketstore.spark.build.directories import sweep
from rocketstore.spark.build.tasks import attempt_name
from rocketstore.spark.source.options import NAMES as READ_NAMES
from rocketstore.spark.source.options import number
from rocketstore.spark.source.plan import naming_options
from rocketstore.state.lock_file import is_held
from rocketstore.store.write_job import write_pieces
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.requirements import begin_entry, places_to_lock
from rocketstore.survey.sizes import saved_config
from rocketstore.survey.survey import survey_store
from rocketstore.text_values import find_similar

CONFIG_NAMES = {camel_case(entry.name): entry.name for entry in fields(StoreConfig) if entry.name != "other"}
NAMES = {name.lower(): name for name in ("path", "storeTimestamp", "txnAppId", "txnVersion", *CONFIG_NAMES)}
NO_WRITE_OF_TABLE = (
    "CREATE TABLE AS SELECT cannot write a store, since Spark does not pass the options of the table: use "
    "df.write.format('rocketstore').mode('append').save('/data/store')"
)
BROKER_NAME = "brokerName"  # a column of the table of messages that is not a field of a message
COLUMNS = {name.lower(): name for name in (BROKER_NAME, *BATCH_NAMES)}


class StoreSink(NamedTuple):
    """A store that gets rows, as the driver and the tasks of a write know it.

    Attributes: names: of the columns, in the spelling of the table of messages.
    """

    places: LocalPlaces
    names: list[str]
    config: SizedConfig
    store_timestamp: StoreTimestamp

    @property
    def root(self) -> Path:
        return self.places.root

    def prepare_rows(self, batches: Any, job: str, name: str) -> PreparedRows | None:
        """Encode the rows of a task into a file in the directory of the job, which exists. Return None without rows.

        Parameters: batches: of pyarrow. job: the id of the job. name: of this attempt of the task; it begins with the
        number of the partition.
        """
        directory = prepared_path(self.root, job)
        keeps_store = self.store_timestamp is not None
        prepared = PreparedRowsWriter(directory / f"{name}.tmp", self.config, keeps_store=keeps_store)
        with contextlib.closing(prepared) as writer:
            try:
                for batch in batches:
                    check_buffers(batch, pa, full=False)
                    table = messages_of(batch.rename_columns(self.names), writer.rows)
                    for messages in MessageBatch.iter_arrow(table, first_row=writer.rows):
                        writer.add(messages)
            except ValueError as error:
                raise ValueError(f"partition {partition_of(name)}, {error}") from error
            return writer.finish(directory / f"{name}.piece") if writer.rows else None

    def append_rows(self, job: str, rows: Iterable[PreparedRows | None], transaction: Transaction | None) -> None:
        """Append the rows of all tasks in the order of their partitions, and remove the directory of the job."""
        prepared = sorted((part for part in rows if part is not None), key=lambda part: partition_of(part.name))
        write_pieces(self.places, job, prepared, self.store_timestamp, config=self.config, transaction=transaction)
        sweep([prepared_path(self.root, job)])

    def remove_rows(self, job: str) -> None:
        """Remove the directory of a job that failed, unless recovery needs its files to undo a failed commit."""
        intent = WriteIntent.read(self.root)
        if intent is None or intent.job != job:
            sweep([prepared_path(self.root, job)])

    def has_committed(self, transaction: Transaction) -> bool:
        """Return whether the store has the rows of a transaction, or of a later one of the same application."""
        return transaction.version <= last_version(self.root, transaction.app)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """The rows that a task wrote; None if it had no rows."""

    rows: PreparedRows | None


class MessageWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Puts all rows of a job into a store, or none of them, in the order of partitions and of the rows in each.

    Tasks write files into the directory of the job, named by the attempt of the task. Commit and abort remove the
    directory. Only the driver makes it, so that a late attempt fails.
    """

    def __init__(self, sink: StoreSink, transaction: Transaction | None = None) -> None:
        self.sink = sink
        self.transaction = transaction
        # Whether the store had the rows of the transaction when the job began. Commit checks again, under its lock.
        self.is_repeated = transaction is not None and sink.has_committed(transaction)
        self.job = uuid.uuid4().hex
        self.makes_root = not sink.root.exists()

    def write(self, iterator: Any) -> Written:
        if self.is_repeated:
            read_to_end(iterator)
            return Written(None)
        return Written(self.sink.prepare_rows(iterator, self.job, attempt_name()))

    def commit(self, messages: Sequence[Written | None]) -> None:
        rows = (message.rows for message in messages if message is not None)
        self.sink.append_rows(self.job, rows, self.transaction)

    def abort(self, messages: Sequence[Written | None]) -> None:
        self.sink.remove_rows(self.job)
        if self.makes_root:
            with contextlib.suppress(OSError):
                self.sink.root.rmdir()


def read_to_end(batches: Any) -> None:
    """Read all rows of a task, since Spark logs an error otherwise."""
    for _ in batches:
        pass


# Spark's error for a write without a mode advises overwrite, and does not ask the data source.
ONLY_APPEND = (
    "mode overwrite: a store can only be appended to, although Spark advises overwrite if no mode is given: "
    "use mode append, as in df.write.format('rocketstore').mode('append').save('/data/store')"
)


def writer_of(schema: Any, options: Mapping[str, str | None], overwrite: bool) -> MessageWriter:
    """Return the writer of a job that appends messages to a store. The driver calls this function.

    Parameters
    ----------
    schema : of the DataFrame: ``topic``, ``body`` and other columns that ``MessageStore.put_messages`` accepts, with
        names in any case. ``queueId`` may be null.
    options : ``path``; ``storeTimestamp``: "now", "given" for the column, or epoch milliseconds; ``txnAppId`` and
        ``txnVersion``, which identify a batch that is stored only once; and fields of StoreConfig by RocketMQ's names,
        for settings that differ from those of the store's last writer.

    Raises
    ------
    ValueError : an unknown option, or a column or setting that cannot be written.
    StoreLockedError : a broker or another writer has the store open.
    """
    if overwrite:
        raise ValueError(ONLY_APPEND)
    given = known_options(options, NAMES)
    transaction = transaction_of(given.pop("txnAppId", None), given.pop("txnVersion", None))
    writer = MessageWriter(plan_sink(schema, given), transaction)
    make_root(writer.sink.root)
    make_directory(prepared_path(writer.sink.root, writer.job))
    return writer


def known_options(options: Mapping[str, str | None], names: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are given, by their names. Raises: ValueError for an unknown option.

    Parameters: names: by the same names in lower case.
    """
    given = {}
    for name, text in options.items():
        if name.lower() not in names:
            raise ValueError(f"option {name!r} {explain_unknown(name, names.values())}")
        if text is not None:  # option(name, None) means that the option is not given
            given[names[name.lower()]] = text
    return given


def plan_sink(schema: Any, given: dict[str, str]) -> StoreSink:
    """Check the columns and the store of a write. Parameters: given: options without those of transactions."""
    path = given.pop("path", "")
    if not path:
        raise ValueError(f"option path: give the directory of a store, as in save('/data/store'). {NO_WRITE_OF_TABLE}")
    root = local_path(path)
    if not (path.startswith("file:/") or Path(path).is_absolute()):
        raise ValueError(f"option path={path!r}: must be the absolute path of a local or shared directory")
    store_timestamp = store_timestamp_of(given.pop("storeTimestamp", "now"))
    stated = config_of(root, {CONFIG_NAMES[name]: text for name, text in given.items()})
    survey = begin_entry("spark sink", root, stated)
    names = [COLUMNS.get(name.lower(), name) for name in schema.names]
    check_names([name for name in names if name != BROKER_NAME])
    filled = {name for name, field in zip(names, schema, strict=True) if not isinstance(field.dataType, NullType)}
    if store_timestamp == "given" and filled.isdisjoint({"storeTimestamp", "storeTimestampMs"}):
        raise ValueError("option storeTimestamp='given': the column storeTimestamp is missing")
    for places in places_to_lock(survey):
        if is_held(places.lock):
            raise StoreLockedError(f"{places.root}: a broker, or another writer, has the store open: stop it first")
    with naming_options():
        config = survey.find_sized_config()
    return StoreSink(survey.local_places, names, config, store_timestamp)


def explain_unknown(name: str, known: Collection[str]) -> str:
    """Return why an option of a write is refused, with the most similar one.

    Parameters: known: the options of writing.
    """
    if name.lower() in READ_NAMES:
        return (
            "is an option of reading. INSERT INTO a view writes with the options of the view: give it a schema, and no "
            "option but path, or use df.write.format('rocketstore').mode('append').save(path)"
        )
    meant = find_similar(name, known)
    hint = f"did you mean {meant}? " if meant else ""
    return f"is unknown: {hint}the options of writing are {', '.join(known)}"


def store_timestamp_of(text: str) -> StoreTimestamp:
    if (word := text.lower()) in ("now", "given"):
        return None if word == "now" else word
    try:
        return number(text)
    except ValueError:
        raise ValueError(f"option storeTimestamp={text!r}: must be 'now', 'given' or epoch ms") from None


def transaction_of(app: str | None, version: str | None) -> Transaction | None:
    """Return the transaction that options name; None without these options. Raises: ValueError if one is missing."""
    if app is None and version is None:
        return None
    if app is None or version is None:
        raise ValueError("options txnAppId and txnVersion: give both, or none")
    try:
        return Transaction.of(app, number(version))
    except ValueError as error:
        raise ValueError(f"options txnAppId={app!r}, txnVersion={version!r}: {error}") from None


def config_of(root: Path, given: Mapping[str, str]) -> StoreConfig | None:
    """Return the settings of the options, and those of the store's last writer; None without options."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        try:
            values[name] = parse_value(text, DEFAULT_SIZES.get(name, getattr(StoreConfig, name)))
        except ValueError as error:
            raise ValueError(f"option {camel_case(name)}={text!r}: {error}") from None
    return replace(saved_config(survey_store(root).places), **values) if values else None


def messages_of(batch: Any, first_row: int) -> Any:
    """Return rows as a table of messages. The queue id of a message without one is ``ANY_QUEUE``."""
    names = batch.schema.names
    if BROKER_NAME in names:
        batch = batch.drop_columns([BROKER_NAME])
    if "queueId" in names and pa.types.is_integer(batch.schema.field("queueId").type):
        ids = batch.column("queueId")
        negative = pc.index(pc.fill_null(pc.less(ids, 0), False), True).as_py()
        if negative >= 0:
            raise ValueError(f"column queueId, row {first_row + negative}: {ids[negative]} must not be negative")
        place = batch.schema.get_field_index("queueId")
        batch = batch.set_column(place, "queueId", pc.fill_null(ids, ANY_QUEUE))
    return batch


def partition_of(name: str) -> int:
    return int(name.partition("-")[0])
