"""Read the messages of a file for ``rocketstore import``: JSON, CSV, Parquet or Arrow, as export writes them."""

import csv
import functools
import gzip
import io
import itertools
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import click

from rocketstore.cli.formats import error_text
from rocketstore.cli.transfer.forms import COMPRESSED_SUFFIXES
from rocketstore.disk.small_file import open_at_once
from rocketstore.extras import find_imported, import_extra
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_rows import Row, check_row_names, message_fields_of, parse_csv_row, parse_json_row
from rocketstore.messages.to_put import to_put

STANDARD_INPUT = Path("-")
MAX_ROWS, MAX_BYTES = 4096, 32 << 20  # rows, and bytes of their bodies, that are put at once
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE = 1 << 30  # limit of a line of text, bytes, and of a CSV field, characters


class SourceRows(NamedTuple):
    """Some rows of a source.

    Attributes: numbers: the number of the line or row of each message. position: how much of ``Source.size`` was read.
    """

    messages: Sequence[Message] | MessageBatch
    numbers: Sequence[int]
    position: int


class Source:
    """A file of messages, or standard input.

    Attributes: form: "json", "csv", "parquet" or "arrow". place: "line" for text, "row" for tables. size: the bytes of
    a text, the rows of a table; None if it is not known.
    """

    def __init__(self, path: Path, form: str) -> None:
        """Check that a file can be read. Raises: OSError; ClickException if it does not have the format."""
        self.path = path
        self.form = form
        self.is_text = form in ("json", "csv")
        self.is_standard_input = path == STANDARD_INPUT
        self.place = "line" if self.is_text else "row"
        self.size: int | None = None
        if self.is_standard_input:
            if sys.stdin is None:
                raise self.error(None, "standard input is closed: use < FILE")
            return
        with open(path, "rb", opener=open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise self.error(None, 'is not a regular file: give "-", and connect it to standard input')
            self.size = file.seek(0, os.SEEK_END)
        if not self.is_text:
            with self._open_table() as (self.size, _):
                pass

    def error(self, number: int | None, reason: object) -> click.ClickException:
        """Return an error that names the file, and the line or row unless ``number`` is None."""
        return click.ClickException(f"{self.path}{'' if number is None else f', {self.place} {number}'}: {reason}")

    def read(self, skip: int) -> Iterator[SourceRows]:
        """Yield the rows after the first ``skip`` rows. Standard input can be read only once.

        Raises: ClickException, OSError, ModuleNotFoundError.
        """
        return self._read_text(skip) if self.is_text else self._read_table(skip)

    def singly(self, rows: SourceRows) -> Iterator[tuple[int, Message]]:
        """Yield the number of the line or row of each message, and the message in the form that ``put_message`` takes.

        Raises: ClickException.
        """
        for number, message in zip(rows.numbers, rows.messages, strict=True):
            try:
                yield number, message if self.is_text else to_put(message)
            except ValueError as error:
                raise self.error(number, error) from None

    # ---- JSON and CSV -------------------------------------------------------------------------------------

    def _open_text(self) -> AbstractContextManager[BinaryIO]:
        return nullcontext(sys.stdin.buffer) if self.is_standard_input else open_text(self.path)

    def _read_text(self, skip: int) -> Iterator[SourceRows]:
        with self._naming_errors(), self._open_text() as file:
            messages: list[Message] = []
            numbers: list[int] = []
            size = 0
            for number, make_row in itertools.islice(self._rows(file), skip, None):
                try:
                    message = to_put(Message.of_fields(message_fields_of(make_row())))
                except (ValueError, TypeError, RecursionError) as error:
                    raise self.error(number, error) from None
                messages.append(message)
                numbers.append(number)
                size += len(message.raw_body)
                if len(messages) >= MAX_ROWS or size >= MAX_BYTES:
                    yield SourceRows(messages, numbers, self._tell(file))
                    messages, numbers, size = [], [], 0
            if messages:
                yield SourceRows(messages, numbers, self._tell(file))

    def _tell(self, file: BinaryIO) -> int:
        return 0 if self.is_standard_input else min(file.tell(), self.size or 0)  # less than a compressed file gives

    def _rows(self, file: BinaryIO) -> Iterator[tuple[int, Callable[[], Row]]]:
        """Yield the line number of each row, and the function that parses the row."""
        if self.form == "csv":
            yield from self._csv_rows(file)
        else:
            for number, line in enumerate(self._lines(file), 1):
                if not line.isspace():
                    yield number, functools.partial(parse_json_row, line)

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the lines of a file. Raises: ClickException for a line of more than MAX_LINE bytes."""
        for number in itertools.count(1):
            line = file.readline(MAX_LINE + 1)
            if len(line) > MAX_LINE:
                raise self.error(number, f"has more than {MAX_LINE:,} bytes: import these messages from Parquet")
            if not line:
                return
            yield line

    def _csv_rows(self, file: BinaryIO) -> Iterator[tuple[int, Callable[[], Row]]]:
        csv.field_size_limit(MAX_LINE)
        reader = csv.reader(text_lines(self._lines(file)), strict=True)
        try:
            names = tuple(next(reader, ()))
            if not names:
                raise self.error(1, "must name the columns, at least topic and body")
            check_row_names(names)
            for values in reader:
                if values:
                    yield reader.line_num, functools.partial(parse_csv_row, names, values)
        except UnicodeDecodeError as error:
            raise self.error(reader.line_num + 1, error) from None
        except (csv.Error, ValueError) as error:
            raise self.error(reader.line_num, error) from None

    # ---- Parquet and Arrow --------------------------------------------------------------------------------

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        """Add the name of the file to errors that libraries raise in a ``with`` block."""
        try:
            yield
        except reading_errors() as error:
            if getattr(error, "filename", None):
                raise
            raise self.error(None, error_text(error)) from None

    @contextmanager
    def _open_table(self) -> Iterator[tuple[int | None, Iterator[Any]]]:
        """Open a table in a ``with`` block. Yield its number of rows, None if unknown, and its record batches."""
        arrow = import_extra("pyarrow", "arrow")
        with self._naming_errors():
            if self.form == "parquet":
                with import_extra("pyarrow.parquet", "arrow").ParquetFile(self.path) as file:
                    yield file.metadata.num_rows, file.iter_batches(batch_size=MAX_ROWS)
            elif self.is_standard_input:
                with open_stream(arrow) as reader:
                    yield None, iter(reader)
            else:
                with arrow.memory_map(str(self.path)) as source, arrow.ipc.open_file(source) as reader:
                    yield None, map(reader.get_batch, range(reader.num_record_batches))

    def _read_table(self, skip: int) -> Iterator[SourceRows]:
        with self._open_table() as (_, batches):
            row = 0
            for batch in batches:
                first, row = max(row, skip), row + batch.num_rows
                if first < row:
                    for part in MessageBatch.iter_arrow(batch.slice(batch.num_rows - row + first), first_row=first):
                        for start in range(0, len(part), MAX_ROWS):
                            messages = part[start : start + MAX_ROWS]
                            numbers = range(first, first := first + len(messages))
                            yield SourceRows(messages, numbers, first)


def open_text(path: Path) -> BinaryIO:
    """Open a file of text. A compressed file is decompressed, as its suffix says.

    Raises: OSError; ModuleNotFoundError without the package of zstd.
    """
    compression = COMPRESSED_SUFFIXES.get(path.suffix)
    if compression == "gzip":
        return cast(BinaryIO, gzip.open(path))
    if compression == "zstd":
        decompressor = import_extra("zstandard", "codecs").ZstdDecompressor()
        return io.BufferedReader(decompressor.stream_reader(path.open("rb"), read_across_frames=True))
    return path.open("rb")


def reading_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a file can raise. Not all of pyarrow's derive from Python's built-in ones."""
    own: tuple[type[Exception], ...] = (ValueError, TypeError, OSError, MemoryError, EOFError)
    pyarrow, zstandard = find_imported("pyarrow", "ArrowException"), find_imported("zstandard", "ZstdError")
    own += () if pyarrow is None else (pyarrow.ArrowException,)
    return own if zstandard is None else (*own, zstandard.ZstdError)


def open_stream(arrow: Any) -> Any:
    try:
        return arrow.ipc.open_stream(sys.stdin.buffer)
    except (ValueError, OSError) as error:
        hint = "export writes an Arrow file: give its path instead of standard input"
        raise ValueError(f"is not an Arrow stream ({error}); {hint}") from None


def text_lines(lines: Iterator[bytes]) -> Iterator[str]:
    """Yield decoded lines. Decoding line by line raises an error in the line that causes it."""
    for number, line in enumerate(lines):
        yield (line if number else line.removeprefix(BYTE_ORDER_MARK)).decode()
