"""The files that ``rocketstore import`` reads: those that ``export`` writes, as messages to be put."""

import base64
import csv
import functools
import itertools
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click

from rocketstore.cli.formats import Row, error_text
from rocketstore.config import parse_value
from rocketstore.disk.small_file import open_at_once
from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.messages.arrow_import import BATCH_NAMES, check_names
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, to_put

__all__ = ["Piece", "Source"]

STANDARD_INPUT = Path("-")
PIECE_ROWS, PIECE_BYTES = 4096, 32 << 20
BASE64 = {"bodyBase64": "body", "rawBodyBase64": "rawBody"}  # how text has bytes
BODY_ERROR = MESSAGE_FIELDS["body_error"].name
RANGES = {"i": 2**31, "l": 2**63, "tsm:UTC": 2**63}
EXPECTED = {"+l": "a list of strings", "+m": "an object of strings"} | dict.fromkeys(("u", "z", "base64"), "a string")
EXAMPLES = {"+l": '["a", "b"]', "+m": '{"a": "b"}'}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE = 1 << 30  # limit of a line of text, bytes, and of a CSV field, characters


class Piece(NamedTuple):
    """Some rows: the messages, where each is in its file, and how much of the file is read after them."""

    messages: Sequence[Message] | MessageBatch
    places: Sequence[int]
    position: int


class Source:
    """A file of messages, or standard input.

    Attributes: path; form, its format; place, what a place in it is called; size, of which ``Piece.position`` is a
    part, None if that is not known.
    """

    def __init__(self, path: Path, form: str) -> None:
        """Look at a file. Raises: OSError; ClickException if it is none of its format."""
        self.path = path
        self.form = form
        self.is_text = form in ("json", "csv")
        self.is_standard_input = path == STANDARD_INPUT
        self.place = "line" if self.is_text else "row"
        self.size: int | None = None
        if self.is_standard_input:
            if sys.stdin is None:
                raise self.error(None, "standard input is closed: < FILE is one that is not")
            return
        with open(path, "rb", opener=open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise self.error(None, 'is no file: give "-", and this as standard input')
            self.size = file.seek(0, os.SEEK_END)
        if not self.is_text:
            with self._open_table() as (self.size, _):
                pass

    def error(self, place: int | None, what: object) -> click.ClickException:
        """Make the error that says what is wrong in a place of the file, or in all of it."""
        return click.ClickException(f"{self.path}{'' if place is None else f', {self.place} {place}'}: {what}")

    def read(self, skip: int) -> Iterator[Piece]:
        """Give the rows after so many; standard input once. Raises: ClickException, OSError, ModuleNotFoundError."""
        return self._read_text(skip) if self.is_text else self._read_table(skip)

    def singly(self, piece: Piece) -> Iterator[tuple[int, Message]]:
        """Give the messages of a piece to be put one by one, and where each is. Raises: ClickException."""
        for place, message in zip(piece.places, piece.messages, strict=True):
            try:
                yield place, message if self.is_text else to_put(message)
            except ValueError as error:
                raise self.error(place, error) from None

    # ---- JSON and CSV ----------------------------------------------------------------------------------------

    def _open_text(self) -> AbstractContextManager[BinaryIO]:
        return nullcontext(sys.stdin.buffer) if self.is_standard_input else self.path.open("rb")

    def _read_text(self, skip: int) -> Iterator[Piece]:
        with self._naming(), self._open_text() as file:
            messages: list[Message] = []
            places: list[int] = []
            size = 0
            for place, make_row in itertools.islice(self._rows(file), skip, None):
                try:
                    message = to_put(Message.of_fields(fields_of(make_row())))
                except (ValueError, TypeError, RecursionError) as error:
                    raise self.error(place, error) from None
                messages.append(message)
                places.append(place)
                size += len(message.raw_body)
                if len(messages) >= PIECE_ROWS or size >= PIECE_BYTES:
                    yield Piece(messages, places, self._tell(file))
                    messages, places, size = [], [], 0
            if messages:
                yield Piece(messages, places, self._tell(file))

    def _tell(self, file: BinaryIO) -> int:
        return 0 if self.is_standard_input else file.tell()

    def _rows(self, file: BinaryIO) -> Iterator[tuple[int, Callable[[], Row]]]:
        """Give the line of each row, and what makes it."""
        if self.form == "csv":
            yield from self._csv_rows(file)
        else:
            for number, line in enumerate(self._lines(file), 1):
                if not line.isspace():
                    yield number, functools.partial(json_row, line)

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
                raise self.error(1, "has to name the columns, topic and body at least")
            check_row(names)
            for values in reader:
                if values:
                    yield reader.line_num, functools.partial(csv_row, names, values)
        except UnicodeDecodeError as error:
            raise self.error(reader.line_num + 1, error) from None
        except (csv.Error, ValueError) as error:
            raise self.error(reader.line_num, error) from None

    # ---- Parquet and Arrow -----------------------------------------------------------------------------------

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Have the errors of a library name the file."""
        try:
            yield
        except reading_errors() as error:
            if getattr(error, "filename", None):
                raise
            raise self.error(None, error_text(error)) from None

    @contextmanager
    def _open_table(self) -> Iterator[tuple[int | None, Iterator[Any]]]:
        """Give how many rows there are, if that is known, and their record batches."""
        arrow = import_extra("pyarrow", "arrow")
        with self._naming():
            if self.form == "parquet":
                with import_extra("pyarrow.parquet", "arrow").ParquetFile(self.path) as file:
                    yield file.metadata.num_rows, file.iter_batches(batch_size=PIECE_ROWS)
            elif self.is_standard_input:
                with open_stream(arrow) as reader:
                    yield None, iter(reader)
            else:
                with arrow.memory_map(str(self.path)) as source, arrow.ipc.open_file(source) as reader:
                    yield None, map(reader.get_batch, range(reader.num_record_batches))

    def _read_table(self, skip: int) -> Iterator[Piece]:
        with self._open_table() as (_, batches):
            row = 0
            for batch in batches:
                first, row = max(row, skip), row + batch.num_rows
                if first < row:
                    for part in MessageBatch.iter_arrow(batch.slice(batch.num_rows - row + first), first_row=first):
                        for start in range(0, len(part), PIECE_ROWS):
                            messages = part[start : start + PIECE_ROWS]
                            places = range(first, first := first + len(messages))
                            yield Piece(messages, places, first)


def reading_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a file can raise. Some of pyarrow's are no subclasses of Python's own."""
    pyarrow = sys.modules.get("pyarrow")
    own: tuple[type[Exception], ...] = (ValueError, TypeError, OSError, MemoryError)
    return own if pyarrow is None else (*own, pyarrow.ArrowException)


def open_stream(arrow: Any) -> Any:
    try:
        return arrow.ipc.open_stream(sys.stdin.buffer)
    except (ValueError, OSError) as error:
        raise ValueError(f"is no Arrow stream; what export writes is an Arrow file: give its name: {error}") from None


# ---- rows of text ------------------------------------------------------------------------------------------


def text_lines(lines: Iterator[bytes]) -> Iterator[str]:
    """Decode line by line, so that an error is in the line that has it."""
    for number, line in enumerate(lines):
        yield (line if number else line.removeprefix(BYTE_ORDER_MARK)).decode()


def json_row(line: bytes) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("is no JSON object")
    return row


def csv_row(names: Sequence[str], texts: Sequence[str]) -> Row:
    """Make a row as JSON has it. An empty field is none, but for that of a body."""
    if len(texts) != len(names):
        raise ValueError(f"has {len(texts)} fields, where the first line has {len(names)}")
    row = {name: csv_value(name, text) for name, text in zip(names, texts, strict=True) if text}
    if not {"body", BODY_ERROR, *BASE64} & row.keys():
        row["body"] = ""
    return row


def csv_value(name: str, text: str) -> Any:
    form = "u" if name in BASE64 else MESSAGE_FIELDS[BATCH_NAMES[name]].format
    try:
        return parse_value(text.strip(" \t"), 0) if form in RANGES else json.loads(text) if form in EXAMPLES else text
    except (ValueError, RecursionError):
        what = f"{EXPECTED[form]} as JSON, such as {EXAMPLES[form]}," if form in EXAMPLES else "an integer"
        raise ValueError(f"column {name}: {what} is needed, not {text!r:.60}") from None


@functools.lru_cache(64)
def check_row(names: tuple[str, ...]) -> None:
    """Raise ValueError unless a row of text can have these names."""
    if "rawBody" in names:
        raise ValueError("column rawBody: is rawBodyBase64 in text")
    check_names(list({BASE64.get(name, name): None for name in names}) + [n for n in names if names.count(n) > 1])


def fields_of(row: Row) -> dict[str, Any]:
    """Check a row of text, and make the fields of a message."""
    row = {name: value for name, value in row.items() if value is not None}
    if BODY_ERROR in row and not {"body", *BASE64} & row.keys():
        reason = "the body could not be decoded, so the row has none: export the message with --raw-body"
        raise ValueError(f"column {BODY_ERROR}: {reason}")
    check_row(tuple(row))
    if "body" in row and "bodyBase64" in row:
        raise ValueError("columns body, bodyBase64: a row has one of them")
    fields = {}
    for name, value in row.items():
        batch_name = BATCH_NAMES[BASE64.get(name, name)]
        try:
            fields[batch_name] = parse("base64" if name in BASE64 else MESSAGE_FIELDS[batch_name].format, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name}: {error}") from None
    return fields


def parse(form: str, value: Any) -> Any:
    """Check a value of JSON; form: "base64", or of the Arrow C data interface."""
    if form == "+l" and isinstance(value, list):
        return [parse("u", item) for item in value]
    if form == "+m" and isinstance(value, dict):
        return {parse("u", name): parse("u", item) for name, item in value.items()}
    if form in RANGES and type(value) is int:
        if not -RANGES[form] <= value < RANGES[form]:
            raise ValueError(f"{value} does not fit {RANGES[form].bit_length()} bits")
        return value
    if form in ("u", "z", "base64") and isinstance(value, str):
        if form == "base64":
            return base64.b64decode(value, validate=True)
        data = value.encode()  # which half of a surrogate pair has not
        return data if form == "z" else value
    raise TypeError(f"{EXPECTED.get(form, 'an integer')} is needed, not {value!r:.60}")
