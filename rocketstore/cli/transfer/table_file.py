"""Write messages to a Parquet or Arrow file, and read such a file again, by pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from rocketstore.arrow import message_schema
from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

__all__ = ["COMPRESSIONS", "TableFile", "codec_of", "read_batches", "to_arrow"]

COMPRESSIONS = {"parquet": ("snappy", "zstd", "lz4", "gzip", "none"), "arrow": ("none", "zstd", "lz4")}  # default first
GROUP_ROWS = 131_072  # least number of rows of a row group of Parquet, except for the last one
GROUP_BYTES = 512 << 20  # bytes of messages that wait for their row group; more of them make a smaller one


class TableFile:
    """A new Parquet or Arrow file. It is a context manager."""

    def __init__(self, path: Path, form: str, columns: list[str], compression: str | None) -> None:
        """Make the file. Parameters: columns: their names in a batch. compression: one of ``COMPRESSIONS``, or None."""
        self._columns = columns
        self._waiting: list[Any] = []
        self._is_grouped = form == "parquet"
        pyarrow, schema, codec = import_extra("pyarrow", "arrow"), message_schema(columns), codec_of(form, compression)
        if form == "parquet":
            parquet = import_extra("pyarrow.parquet", "arrow")
            self._file = parquet.ParquetWriter(path, schema, compression=codec)
        else:
            self._file = pyarrow.ipc.new_file(str(path), schema, options=pyarrow.ipc.IpcWriteOptions(compression=codec))

    def write(self, messages: MessageBatch | Sequence[Message]) -> None:
        self.write_batch(to_arrow(messages, self._columns))

    def write_batch(self, batch: Any) -> None:
        """Write a record batch or a table of pyarrow. A Parquet file gets it with the rest of its row group."""
        if not self._is_grouped:
            self._file.write(batch)
            return
        table = import_extra("pyarrow", "arrow").Table
        self._waiting.append(batch if isinstance(batch, table) else table.from_batches([batch]))
        is_large = sum(part.nbytes for part in self._waiting) >= GROUP_BYTES
        if is_large or sum(part.num_rows for part in self._waiting) >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            group = import_extra("pyarrow", "arrow").concat_tables(self._waiting)
            self._waiting = []
            self._file.write_table(group, row_group_size=max(group.num_rows, 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._file:
            if kind is None:
                self._write_group()


def codec_of(form: str, compression: str | None) -> str | None:
    """Return the compression of a file as pyarrow names it. Parameters: compression: None for the form's default."""
    codec = compression or COMPRESSIONS[form][0]
    return None if form == "arrow" and codec == "none" else codec


def to_arrow(messages: MessageBatch | Sequence[Message], columns: list[str]) -> Any:
    """Return messages as a record batch of pyarrow. Parameters: columns: their names in a batch."""
    if isinstance(messages, MessageBatch):
        return messages.select(columns).to_arrow()
    names = {MESSAGE_FIELDS[name].name: name for name in columns}
    rows = [{name: value_of(message, field) for name, field in names.items()} for message in messages]
    return import_extra("pyarrow", "arrow").RecordBatch.from_pylist(rows, message_schema(columns))


def value_of(message: Message, field: str) -> Any:
    """Return a field of a message; None for a body that cannot be decoded, as in a batch."""
    try:
        return getattr(message, field)
    except BODY_ERRORS:
        return None


def read_batches(path: Path, form: str) -> Iterator[Any]:
    """Yield the batches of a Parquet or Arrow file."""
    if form == "parquet":
        with import_extra("pyarrow.parquet", "arrow").ParquetFile(path) as file:
            yield from map(file.read_row_group, range(file.num_row_groups))
    else:
        pyarrow = import_extra("pyarrow", "arrow")
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_file(source) as reader:
            yield from map(reader.get_batch, range(reader.num_record_batches))
