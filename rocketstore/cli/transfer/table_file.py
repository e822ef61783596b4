"""Append messages to a Parquet or Arrow file, by pyarrow."""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from rocketstore.arrow import message_schema
from rocketstore.cli.transfer.forms import COMPRESSIONS
from rocketstore.cli.transfer.parquet_footer import MAGIC, footer_of, move_footer
from rocketstore.disk.durable import sync
from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, TEXTS_OF_BODY
from rocketstore.kernels.message_slots import has_fields
from rocketstore.messages.body_text import decode_body, json_or_none
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

GROUP_ROWS = 100_000  # least number of rows of a row group of Parquet, except for the last one
GROUP_BYTES = 256 << 20  # bytes of messages that make a row group of fewer rows
ARROW_MAGIC = b"ARROW1\0\0"  # an Arrow file begins with it; a stream of batches follows


class ParquetRows:
    """Append messages to a Parquet file, in parts.

    A part is a Parquet file of its own. ``finish`` adds a footer with the row groups of all parts, so that all parts
    are one Parquet file. The rows of a part are written once, also if the export is interrupted.
    """

    def __init__(
        self, path: Path, columns: list[str], compression: str | None, ends: Sequence[int], charset: str
    ) -> None:
        """Parameters: columns: their names in a batch. compression: one of ``COMPRESSIONS``, or None. ends: the sizes
        of the file at the ends of its parts, bytes. charset: of the bodies.
        """
        self._path, self._columns, self._ends, self._charset = path, columns, list(ends), charset
        self._arrow, self._parquet = import_extra("pyarrow", "arrow"), import_extra("pyarrow.parquet", "arrow")
        self._schema, self._codec = message_schema(columns), codec_of("parquet", compression)
        self._file = path.open("ab")
        self._writer: Any = None  # of the part that is being written
        self._waiting: list[Any] = []

    def write(self, messages: MessageBatch | Sequence[Message]) -> None:
        """Write messages, or let them wait for their row group.

        Messages for one row group wait while more of them are written. So the last row group of a part is large, too.
        """
        self._waiting.append(self._arrow.Table.from_batches([to_arrow(messages, self._columns, self._charset)]))
        if is_large(self._waiting, groups=2):
            rows = self._arrow.concat_tables(self._waiting)
            half = (rows.num_rows + 1) // 2
            self._write_group(rows[:half])
            self._waiting = [rows[half:]]

    def end_part(self) -> int | None:
        """Bring all rows to the disk, and return the size of the file, bytes.

        Return None if the part continues, since too few rows wait for a row group.
        """
        return self._write_part() if is_large(self._waiting, groups=1) else None

    def finish(self) -> None:
        """Complete the file after the last row."""
        if self._waiting or self._writer is not None or not self._ends:
            self._write_part()
        if len(self._ends) > 1:
            with self._arrow.memory_map(str(self._path)) as file:
                data = memoryview(file.read_buffer())
            first, *others = (self._read_footer(data[begin:end], begin) for begin, end in pairwise([0, *self._ends]))
            for footer in others:
                first.append_row_groups(footer)
            first.write_metadata_file(self._file)
            self._file.flush()

    def _read_footer(self, part: memoryview, begin: int) -> Any:
        """Return the metadata of a part with the offsets of the whole file."""
        footer = move_footer(footer_of(part), begin)
        parts = (MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC)
        return self._parquet.read_metadata(self._arrow.BufferReader(b"".join(parts)))

    def _write_part(self) -> int:
        self._write_group(self._arrow.concat_tables([self._schema.empty_table(), *self._waiting]))
        self._waiting = []
        self._writer.close()
        self._writer = None
        self._file.flush()
        sync(self._file.fileno())
        self._ends.append(self._file.tell())
        return self._ends[-1]

    def _write_group(self, rows: Any) -> None:
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._file, self._schema, compression=self._codec)
        if rows.num_rows:
            self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> None:
        if self._writer is not None:  # after an error
            with contextlib.suppress(Exception):
                self._writer.close()
        self._file.close()


class ArrowRows:
    """Append messages to an Arrow file.

    The footer of the file has the places of all batches, and pyarrow writes it for its own batches only. So earlier
    batches are passed to it again. Their bytes are compared with those of the file, and not written.
    """

    def __init__(
        self, path: Path, columns: list[str], compression: str | None, ends: Sequence[int], charset: str
    ) -> None:
        """Parameters: as for ``ParquetRows``."""
        pyarrow = import_extra("pyarrow", "arrow")
        size = ends[-1] if ends else 0
        options = pyarrow.ipc.IpcWriteOptions(compression=codec_of("arrow", compression))
        self._columns, self._charset, self._file = columns, charset, KnownFile(path, size)
        self._writer = pyarrow.ipc.new_file(self._file, message_schema(columns), options=options)
        try:
            for batch in self._earlier_batches(path, size):
                self._writer.write_batch(batch)
        except BaseException:
            self.close()
            raise

    def _earlier_batches(self, path: Path, size: int) -> Iterator[Any]:
        if size:
            pyarrow = import_extra("pyarrow", "arrow")
            with pyarrow.memory_map(str(path)) as file:
                data = file.read_buffer(size)
            yield from pyarrow.ipc.open_stream(data[len(ARROW_MAGIC) :])

    def write(self, messages: MessageBatch | Sequence[Message]) -> None:
        self._writer.write_batch(to_arrow(messages, self._columns, self._charset))

    def end_part(self) -> int:
        """Bring all rows to the disk. Return the size of the file, bytes."""
        return self._file.sync()

    def finish(self) -> None:
        """Complete the file after the last row."""
        self._writer.close()

    def close(self) -> None:
        self._file.close()


class KnownFile:
    """A file whose first bytes are known: they are compared with what is written. Later bytes are written."""

    def __init__(self, path: Path, size: int) -> None:
        """Parameters: size: number of the known bytes. A write does not cross their end."""
        self._file, self._size, self._position = path.open("r+b"), size, 0

    def write(self, data: Any) -> None:
        data = memoryview(data)
        if self._position >= self._size:
            self._file.write(data)
        elif self._file.read(data.nbytes) != data.tobytes():
            reason = "this release of pyarrow writes other bytes for the same rows"
            raise click.ClickException(f"{self._file.name}: {reason}: --force starts again")
        self._position += data.nbytes

    def sync(self) -> int:
        """Bring all bytes to the disk. Return their number."""
        self._file.flush()
        sync(self._file.fileno())
        return self._position

    @property
    def closed(self) -> bool:
        return self._file.closed

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def is_large(tables: Sequence[Any], *, groups: int) -> bool:
    """Return whether tables have rows for some row groups."""
    rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
    return bool(rows >= groups * GROUP_ROWS or size >= groups * GROUP_BYTES)


def codec_of(form: str, compression: str | None) -> str | None:
    """Return the compression of a file as pyarrow names it. Parameters: compression: None for the form's default."""
    codec = compression or COMPRESSIONS[form][0]
    return None if form == "arrow" and codec == "none" else codec


def to_arrow(messages: MessageBatch | Sequence[Message], columns: list[str], charset: str) -> Any:
    """Return messages as a record batch of pyarrow.

    Parameters: columns: their names in a batch. charset: of the bodies; a batch was read with it.
    """
    if isinstance(messages, MessageBatch):
        return messages.select(columns).to_arrow()
    names = {MESSAGE_FIELDS[name].name: name for name in columns}
    rows = [{name: value_of(message, field, charset) for name, field in names.items()} for message in messages]
    return import_extra("pyarrow", "arrow").RecordBatch.from_pylist(rows, message_schema(columns))


def value_of(message: Message, field: str, charset: str) -> Any:
    """Return a field of a message; None for a body that cannot be decoded, as in a batch."""
    try:
        if field not in TEXTS_OF_BODY or has_fields(message, field):
            return getattr(message, field)
        text = decode_body(message.body, charset)
    except BODY_ERRORS:
        return None
    return text if field == "body_text" else json_or_none(text)
