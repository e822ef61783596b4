"""Write messages as a directory of Parquet or Arrow files, one directory for each topic or day (as Hive names them)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rocketstore.arrow import message_schema
from rocketstore.cli.transfer.table_file import GROUP_ROWS, codec_of, to_arrow
from rocketstore.disk.durable import sync_path
from rocketstore.extras import import_extra
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

DAY_FORMAT = "%Y-%m-%d"
MAX_OPEN_FILES = 256


def write_partitions(
    directory: Path,
    batches: Iterable[MessageBatch | Sequence[Message]],
    form: str,
    columns: list[str],
    names: Sequence[str],
    compression: str | None,
    charset: str,
) -> None:
    """Make a directory, write messages to it, and sync it. Without a message it is empty.

    Parameters: columns: of the files, by their names in a batch. names: some of ``PARTITIONS``, outermost first; they
    are in the names of the directories: ``topic=Orders/day=2026-11-21``. A day is of the store time in UTC.
    charset: of the bodies.
    """
    pyarrow, dataset = import_extra("pyarrow", "arrow"), import_extra("pyarrow.dataset", "arrow")
    schema = with_partitions(message_schema(columns), names)
    fields = pyarrow.schema([schema.field(name) for name in names])
    file_format = dataset.ParquetFileFormat() if form == "parquet" else dataset.IpcFileFormat()
    options = file_format.make_write_options(compression=codec_of(form, compression))
    directory.mkdir()
    dataset.write_dataset(
        (partitioned(batch, columns, charset, schema) for batch in batches if len(batch)),
        directory,
        schema=schema,
        format=file_format,
        file_options=options,
        partitioning=dataset.partitioning(fields, flavor="hive"),
        min_rows_per_group=GROUP_ROWS,
        max_rows_per_group=2 * GROUP_ROWS,
        max_open_files=MAX_OPEN_FILES,
        basename_template="part-{i}." + form,
        existing_data_behavior="error",
    )
    for path in (*directory.rglob("*"), directory):
        sync_path(path)


def with_partitions(schema: Any, names: Sequence[str]) -> Any:
    """Return a schema with the columns that only directories have."""
    pyarrow = import_extra("pyarrow", "arrow")
    for name in names:
        if name not in schema.names:
            schema = schema.append(pyarrow.field(name, pyarrow.string()))
    return schema


def partitioned(messages: MessageBatch | Sequence[Message], columns: list[str], charset: str, schema: Any) -> Any:
    """Return a record batch with the columns of a schema that has partitions."""
    pyarrow, compute = import_extra("pyarrow", "arrow"), import_extra("pyarrow.compute", "arrow")
    batch = to_arrow(messages, list(dict.fromkeys([*columns, "topic", "store_timestamp"])), charset)
    arrays = {name: batch.column(name) for name in batch.schema.names}
    arrays["day"] = compute.strftime(batch.column("storeTimestamp"), format=DAY_FORMAT)
    return pyarrow.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
