"""``--template``: a line of text for each message."""

import json
import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.times import find_zone
from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import find_similar, format_time, snake_case

TIMES = {"storeTime": "storeTimestamp", "bornTime": "bornTimestamp"}
PROPERTY = "property."
LARGEST_WIDTH = 10_000  # characters of a field that are asked for; Python would fill any number with blanks
ESCAPES = {r"\n": "\n", r"\t": "\t", r"\0": "\0", r"\\": "\\"}


class Part(NamedTuple):
    """A text, and the field that follows it; an empty name for no field. spec: as for Python's ``format``."""

    text: str
    name: str
    spec: str


class Template(NamedTuple):
    """The text of a message: texts and fields of the message. columns: those that the fields need."""

    parts: Sequence[Part]
    columns: tuple[str, ...]

    def line(self, row: Row) -> str:
        """Return the line of a message. Parameters: row: with the columns, and with the base64 of the body."""
        texts = (part.text + (format_field(row, part) if part.name else "") for part in self.parts)
        return "".join(texts) + "\n"


def parse_template(text: str) -> Template:
    r"""Read a template such as ``{storeTime} {keys} {body}``.

    A field is a column, storeTime or bornTime, or property.NAME. ``{{`` is a brace, ``\t`` a tab, ``\n`` a line end.
    Raises: ValueError for another field, or text that is no template.
    """
    parts: list[Part] = []
    columns: dict[str, None] = {}
    for literal, field, spec, conversion in string.Formatter().parse(text):
        if conversion or (spec and "{" in spec):
            raise ValueError(f"{{{field}}}: a field has a name and perhaps a width, as in {{topic:20}}")
        if any(int(number) > LARGEST_WIDTH for number in re.findall(r"\d+", spec or "")):
            raise ValueError(f"{{{field}:{spec:.60}}}: a width is at most {LARGEST_WIDTH:,}")
        name = "" if field is None else find_field(field)
        if field is not None:
            columns["properties" if name.startswith(PROPERTY) else TIMES.get(name, name)] = None
        parts.append(Part(unescape(literal), name, spec or ""))
    if not columns:
        raise ValueError(f"{text!r:.60} has no field, such as {{body}}")
    template = Template(parts, tuple(columns))
    template.line(dict.fromkeys([*template.columns, "bodyBase64"], ""))  # raises ValueError for a wrong width
    return template


def find_field(field: str) -> str:
    """Return the name of a field as columns have it. Parameters: field: this name, or the same in snake_case.

    Raises: ValueError for an unknown field.
    """
    if field.startswith(PROPERTY):
        return field
    known = {snake_case(name): name for name in [*MESSAGES, *TIMES, BROKER]}
    found = known.get(snake_case(field))
    if found is None:
        similar = find_similar(field, [*known.values()])
        names = ", ".join([*known.values(), f"{PROPERTY}NAME"])
        raise ValueError(f"there is no field {field!r}: " + (f"did you mean {similar!r}?" if similar else names))
    return found


def unescape(text: str) -> str:
    """Return a text with line ends and tabs in place of their escape sequences."""
    pieces = text.split(r"\\")
    for escape, char in ESCAPES.items():
        pieces = [piece.replace(escape, char) for piece in pieces]
    return "\\".join(pieces)


def format_field(row: Row, part: Part) -> str:
    """Return the text of a field. A missing value is an empty text; a body that is no text is base64."""
    value: Any
    if part.name.startswith(PROPERTY):
        value = (row["properties"] or {}).get(part.name.removeprefix(PROPERTY))
    elif part.name in TIMES:
        value = row[TIMES[part.name]]
        value = format_time(value, find_zone()) if isinstance(value, int) else value
    else:
        value = row[part.name]
    if part.name == "body" and value is None:
        value = row["bodyBase64"]
    if part.name == "body" and not isinstance(value, str | None):
        value = json.dumps(value, ensure_ascii=False)  # it was decoded
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, dict):
        value = " ".join(f"{name}={item}" for name, item in value.items())
    return format("" if value is None else str(value), part.spec)
