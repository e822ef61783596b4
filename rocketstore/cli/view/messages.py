"""The columns of messages that a command shows, and how a table shows their values to people."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.formats import csv_line, error_text, is_table, line_writer, write_batches, write_utf8
from rocketstore.cli.text import CSV_FORMS, SAFE_CSV, Indented, printable_lines
from rocketstore.cli.times import has_iso_times
from rocketstore.cli.view.inner_batches import NEEDED_COLUMNS
from rocketstore.kernels.message_columns import BROKER, TEXTS_OF_BODY
from rocketstore.log.message_filter import NO_CONDITIONS, MessageFilter
from rocketstore.log.scan import Scan
from rocketstore.messages.body_text import UTF8
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_lines import batch_lines
from rocketstore.messages.text_rows import BODY_ERROR, Row, message_rows, row_names
from rocketstore.text_values import shorten

if TYPE_CHECKING:
    from rocketstore.cli.view.decoded import BodyDecoder
    from rocketstore.cli.view.template import Template

BODY, BASE64 = "body", "bodyBase64"
SHOWN = ("storeTimestamp", "topic", "queueId", "queueOffset", "phyOffset", "tags", "keys", "size", BODY)
RESULT_SIZE = 8192  # messages in one table of a result
MOST = 60  # characters of a body, and of keys, that a table shows
CONDITIONS = {"topic": "topic", "queue_ids": "queueId", "tag": "tags", "key": "keys"}  # of a scan: columns


class MessageView(NamedTuple):
    """How a command shows messages.

    Attributes: columns: the columns that the user chose, by their names in tables; None without a choice. is_full:
    whether tables show complete values. has_containers: whether an inner batch is one message. constant: columns that
    have the same value in all rows, since a condition allows only this value. Tables show them last. charset: of the
    bodies, as ``find_charset`` returns it. has_broker: whether rows have the column ``broker``, since they are of
    several stores. decoder: of bodies; None to show them as text. template: of lines in place of tables, JSON and CSV;
    its columns are the chosen ones. is_raw: whether only the bytes of the body of one message are written.
    """

    columns: tuple[str, ...] | None
    is_full: bool
    has_containers: bool
    constant: tuple[str, ...] = ()
    message_filter: MessageFilter = NO_CONDITIONS
    charset: str = UTF8
    has_broker: bool = False
    decoder: "BodyDecoder | None" = None
    template: "Template | None" = None
    is_raw: bool = False

    def with_broker(self, *, has_broker: bool) -> "MessageView":
        """Return the view of the messages of one store, or of several. Raises: UsageError for an unknown column."""
        if not has_broker and self.columns is not None and BROKER in self.columns:
            raise click.UsageError(f"--columns: the messages of one STORE have no {BROKER}")
        return self._replace(has_broker=has_broker)

    def with_conditions(self, conditions: dict[str, Any]) -> "MessageView":
        """Return the view of messages that meet the conditions of a scan."""
        constant = (CONDITIONS[name] for name, value in conditions.items() if name in CONDITIONS and is_single(value))
        return self._replace(constant=tuple(constant))

    @property
    def fields(self) -> list[str] | None:
        """The columns to read, by their names in a batch; None without a choice of columns."""
        if self.columns is None:
            return None
        own = [MESSAGES[name] for name in self.columns if name != BROKER]
        times = ["store_timestamp"] if self.has_broker else []  # by which the messages of several stores are merged
        return list(dict.fromkeys([*own, *NEEDED_COLUMNS, "topic", *times]))

    def filtered(self, scan: Scan) -> Scan:
        """Return a scan of the messages that also meet the conditions of the view."""
        return self.message_filter.of_scan(scan)

    @property
    def names(self) -> list[str]:
        """The names of the columns of JSON and CSV."""
        if self.columns is None:
            return [BROKER, *row_names()] if self.has_broker else row_names()
        return [part for name in self.columns for part in ((BODY, BASE64) if name == BODY else (name,))]

    def rows(self, messages: Sequence[Message] | MessageBatch) -> list[Row]:
        rows = message_rows(messages, self.names, charset=self.charset)
        if self.decoder is not None:
            rows = [*map(self.decoder.apply, rows, messages)]
        return rows if self.columns is None else [{name: row[name] for name in self.names} for row in rows]

    def for_people(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of a table of messages."""
        shown = (BROKER, *SHOWN) if self.has_broker else SHOWN
        names = self.columns or [*(name for name in shown if name not in self.constant), *self.constant]
        return [{name: self.cell(row, name) for name in names} for row in rows]

    def result_for_people(self, rows: Sequence[Row]) -> list[Row]:
        """Return all columns of a single message, or the rows of a table if there are more messages."""
        if len(rows) > 1 or self.columns is not None:
            return self.for_people(rows)
        names = [name for name in rows[0] if name not in (BASE64, BODY_ERROR)]
        return [
            {name: indent_json(self.value(row, name)) if name == BODY else self.value(row, name) for name in names}
            for row in rows
        ]

    def cell(self, row: Row, name: str) -> Any:
        """Return a value for a table, without the end of a long body or of many keys."""
        value = self.value(row, name)
        if self.is_full or name not in (BODY, "keys", *TEXTS_OF_BODY) or value is None:
            return value
        return shorten(value if isinstance(value, str) else ", ".join(value), MOST)

    def value(self, row: Row, name: str) -> Any:
        """Return a value for a table: of a body the text, or the number of its bytes, or why it cannot be decoded."""
        if name == BODY and not isinstance(row[BODY], str | None):
            return json.dumps(row[BODY], ensure_ascii=False)  # it was decoded
        if name != BODY or row[BODY] is not None:
            return row[name]
        digits = row[BASE64]
        if digits is None:
            return f"({row.get(BODY_ERROR) or 'cannot be decoded'})"
        return digits if self.is_full else f"<{len(digits) // 4 * 3 - digits.count('='):,} bytes>"


def indent_json(body: Any) -> Any:
    """Return the text of a body in several lines if it is an object or a list of JSON; else the body itself."""
    if not (isinstance(body, str) and body.lstrip().startswith(("{", "["))):
        return body
    try:
        return Indented(json.dumps(json.loads(body), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return body


def is_single(value: Any) -> bool:
    """Return whether a condition allows only one value."""
    return value is not None and (len(value) == 1 if isinstance(value, tuple) else "||" not in value)


def topics_of(messages: MessageBatch | Sequence[Message]) -> Iterable[str]:
    return messages.topic if isinstance(messages, MessageBatch) else [message.topic for message in messages]


def phy_offsets_of(messages: MessageBatch | Sequence[Message]) -> list[int]:
    """Return the physical offset of the record of each message."""
    if isinstance(messages, MessageBatch):
        return list(messages.phy_offset.tolist())
    return [message.phy_offset for message in messages]


def message_lines(
    messages: MessageBatch | Sequence[Message],
    names: Sequence[str],
    form: str,
    terminal: bool,
    charset: str = UTF8,
    decoder: "BodyDecoder | None" = None,
) -> Iterator[bytes | memoryview]:
    """Yield messages as lines of UTF-8, some lines at a time. Use a text before the next one is made.

    Parameters: names: of the columns, as ``row_names`` returns them. form: "json", "csv" or "csv-safe". terminal: as
    for ``csv_line``. charset: of the bodies, as ``find_charset`` returns it. decoder: of the bodies.
    """
    is_plain = decoder is None and not (terminal and form in CSV_FORMS) and not has_iso_times()
    if isinstance(messages, MessageBatch) and is_plain:
        is_csv, is_safe = form in CSV_FORMS, form == SAFE_CSV
        yield from batch_lines(messages, names, is_csv=is_csv, is_safe=is_safe, charset=charset)
        return
    line = line_writer(form, terminal)
    rows = message_rows(messages, names, charset=charset)
    for row in rows if decoder is None else map(decoder.apply, rows, messages):
        yield line({name: row[name] for name in names}).encode("utf-8", "backslashreplace")


def join_messages(batches: Iterable[Iterable[Message]]) -> Iterator[list[Message]]:
    """Yield the messages of batches in lists of ``RESULT_SIZE``."""
    messages = chain.from_iterable(batches)
    while part := list(islice(messages, RESULT_SIZE)):
        yield part


def write_messages(
    batches: Iterable[MessageBatch | Sequence[Message]],
    output_format: str | None,
    view: MessageView,
    *,
    is_result: bool = False,
    is_stream: bool = False,
) -> None:
    """Write messages to standard output.

    Parameters: is_result: the messages are one table, or if they are many, tables of ``RESULT_SIZE`` messages each; the
    table of one message has a line for each column. is_stream: as for ``write_batches``.
    """
    if view.is_raw:
        write_raw(chain.from_iterable(batches))
        return
    if view.template is not None:
        write_lines(batches, view, view.template)
        return
    if is_table(output_format):
        together = join_messages(batches) if is_result else batches
        for_people = view.result_for_people if is_result else view.for_people
        tables = (for_people(view.rows(messages)) for messages in together if len(messages))
        write_batches(tables, output_format, is_stream=is_stream, is_full=view.is_full)
        return
    form, terminal, header = output_format or "json", sys.stdout.isatty(), ""
    if form in CSV_FORMS:
        header = csv_line(view.names)
    for messages in filter(len, batches):
        sys.stdout.write(header)
        header = ""
        for text in message_lines(messages, view.names, form, terminal, view.charset, view.decoder):
            write_utf8(sys.stdout, text)
        sys.stdout.flush()
    sys.stdout.write(header)


def write_lines(batches: Iterable[MessageBatch | Sequence[Message]], view: MessageView, template: "Template") -> None:
    """Write a line for each message. On a terminal, control characters are escape sequences."""
    for messages in batches:
        for line in map(template.line, view.rows(messages)):
            shown = printable_lines(line) if sys.stdout.isatty() else line
            write_utf8(sys.stdout, shown.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()


def write_raw(messages: Iterable[Message]) -> None:
    """Write the bytes of the body of the only message. Raises: ClickException without a body, or for more messages."""
    found = [*islice(messages, 2)]
    if len(found) > 1:
        raise click.ClickException("--raw writes the body of one message, and there are more: choose one by its offset")
    for message in found:
        error = message.find_body_error()
        if error is not None:
            raise click.ClickException(f"the body of the message cannot be decoded: {error_text(error)}")
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
