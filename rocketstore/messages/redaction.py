"""Redaction: fields of messages that are removed, or replaced by hashes, before the messages are given away."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, TEXTS_OF_BODY, find_column
from rocketstore.kernels.message_slots import own_fields
from rocketstore.messages.body_text import UTF8
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.messages.system_flags import INNER_BATCH

REDACTED = "***"  # in place of a property, which must have a text
PROPERTY_PLACES = ("property", "properties")  # before a dot, name the place of a field
BODY_PLACES = ("body", "body_json")
# Where RocketMQ repeats a column. A unique key has the address of the client that made it, a message id that of the
# broker.
PROPERTIES_OF = {
    "topic": ("REAL_TOPIC", "RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "ROCKETSTORE_ORIGIN"),
    "queue_id": ("REAL_QID", "ROCKETSTORE_ORIGIN"),
    "tags": ("TAGS",),
    "keys": ("KEYS",),
    "uniq_key": ("UNIQ_KEY", "__transactionId__", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID", "TIMER_DEL_UNIQKEY"),
    "born_host": ("UNIQ_KEY", "__transactionId__", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID", "TIMER_DEL_UNIQKEY",
                  "__BORNHOST"),
    "store_host": ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID", "ROCKETSTORE_ORIGIN"),
    "msg_id": ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"),
    "born_timestamp": ("BORN_TIMESTAMP",),
}  # fmt: skip
COLUMNS_OF = {
    "born_host": ("uniq_key",),
    "store_host": ("msg_id",),
    "tags": ("tags_code",),
    "born_timestamp": ("born_timestamp_ms",),
    "store_timestamp": ("store_timestamp_ms",),
    "properties": ("keys", "tags", "uniq_key", "tags_code"),
    "body": ("raw_body", "body_crc", "body_text", "body_json"),
}
OF_PROPERTY = {"KEYS": "keys", "TAGS": "tags", "UNIQ_KEY": "uniq_key"}
SAME_AS_BODY = ("body_text", "body_json", "raw_body")
CHECKSUM = "__CRC32#"  # the property with the checksum of a record
MADE_OF_OTHERS = ("keys", "tags", "uniq_key", "msg_id")  # fields that a message makes of others when they are used
BODY_FIELDS = {"raw_body", "body", "_stored", "_body_error"}
DERIVED = {*TEXTS_OF_BODY, "body_error"}  # made again of the changed body
NESTED = ("{", "[", '"')  # begin a text that may be JSON with fields
LEAST = 4  # characters of a value whose copies are counted
TEXTS = ("u", "+l")  # formats of columns that can have a hash


class RedactionSummary(TypedDict):
    """What a redaction found: its attributes as values of JSON."""

    unseen: list[str]
    removed_bodies: int
    copies: dict[str, int]


class RawNumber(str):
    """A number of JSON with the digits of its text, so that rewriting changes no digit."""

    __slots__ = ()


class JsonObject(list[tuple[str, Any]]):
    """An object of JSON: its names and values. A list, since a text may repeat a name, and each value may be read."""

    __slots__ = ()


class Redaction:
    """Which fields are removed, and which become hashes.

    A name is a column, as ``rocketstore cat`` shows it or in snake_case, without regard to case, and a field of JSON
    bodies with this name; ``property.NAME``; or ``body.PATH``, a field of JSON bodies. Any other name is the property,
    and the field of JSON bodies. A path has dots: ``customer.phone``. It is found at any depth, in lists, and in texts
    that are JSON themselves.

    A removed column or JSON field is null, a removed property is ``***``. Copies that RocketMQ makes of a column are
    removed with it: the property KEYS with the column keys, and with bornHost the unique key, which has the client's
    address. A hash is the hexadecimal SHA-256 of a text, or HMAC-SHA-256 with a key.

    If a field of JSON bodies is named, a body that is no JSON is removed, since it may have the field. The body of an
    inner batch is removed too, and the checksum of a body that changes.

    Attributes: unseen: names of fields that no message had. removed_bodies: number of bodies that were removed, since
    they may have a field. copies: names of columns that have a removed value too, with the number of messages.
    """

    def __init__(
        self, redacted: Sequence[str] = (), hashed: Sequence[str] = (), key: bytes | None = None, charset: str = UTF8
    ) -> None:
        """Parameters: key: of HMAC; None for plain SHA-256. charset: of JSON bodies.

        Raises: ValueError for a name that is empty, that is given twice, or that cannot be hashed.
        """
        self._hash = HashOf(key)
        self._charset = charset
        self._columns: dict[str, Callable[[Any], Any]] = {}
        self._properties: dict[str, tuple[str, Callable[[str], str]]] = {}
        self._paths: dict[tuple[str, ...], tuple[str, Callable[[Any], Any]]] = {}
        self.unseen: set[str] = set()
        self.removed_bodies = 0
        self.copies: Counter[str] = Counter()
        self._needs_json = False
        names = [*redacted, *hashed]
        for name, count in Counter(find_column(name) or name for name in names).items():
            if count > 1:
                raise ValueError(f"{name}: is given twice")
        for name in redacted:
            self._add(name, is_hashed=False)
        for name in hashed:
            self._add(name, is_hashed=True)

    def _add(self, name: str, *, is_hashed: bool) -> None:
        if "" in name.split("."):
            raise ValueError(f"{name!r}: a name of a column, a property or a JSON field was expected")
        column = find_column(name)
        if column is not None:
            self._add_column(name, column, is_hashed=is_hashed)
            self._add_path(name, "", is_hashed=is_hashed)
            return
        place, _, rest = name.partition(".")
        is_property, is_body = rest and place in PROPERTY_PLACES, rest and place in BODY_PLACES
        self.unseen.add(name)
        if not is_body:
            self._add_property(rest if is_property else name, name, is_hashed=is_hashed)
        if not is_property:
            self._add_path(rest if is_body else name, name, is_hashed=is_hashed)
            self._needs_json = True

    def _add_column(self, name: str, column: str, *, is_hashed: bool) -> None:
        if is_hashed and MESSAGE_FIELDS[column].format not in TEXTS and column != "body":
            raise ValueError(f"{name}: has no text, and a hash does not fit the column: use --redact")
        column = "body" if column in SAME_AS_BODY else column
        self._columns[column] = self._hash.of_value if is_hashed else remove
        for other in COLUMNS_OF.get(column, ()):
            self._columns.setdefault(other, remove)
        for prop in PROPERTIES_OF.get(column, ()):
            is_same = is_hashed and OF_PROPERTY.get(prop) == column
            self._properties.setdefault(prop, ("", self._hash.of_property(prop) if is_same else redact_text))

    def _add_property(self, prop: str, name: str, *, is_hashed: bool) -> None:
        self._properties[prop] = name, self._hash.of_property(prop) if is_hashed else redact_text
        column = OF_PROPERTY.get(prop)
        if column is not None:
            self._columns.setdefault(column, self._hash.of_value if is_hashed else remove)

    def _add_path(self, path: str, name: str, *, is_hashed: bool) -> None:
        self._paths[tuple(path.split("."))] = name, self._hash.of_json if is_hashed else remove

    def apply(self, message: Message) -> Message:
        """Return a message without the fields. Parameters: message: it is not changed."""
        fields = {name: value for name, value in own_fields(message).items() if name not in DERIVED}
        for name in MADE_OF_OTHERS:
            with contextlib.suppress(AttributeError, CorruptFileError):
                fields[name] = getattr(message, name)
        removed: set[str] = set()
        properties = fields.get("properties")
        if properties is not None:
            fields["properties"] = self._apply_to_properties(properties, removed)
        if not BODY_FIELDS.isdisjoint(own_fields(message)):
            self._apply_to_body(message, fields, removed)
        for name, change in self._columns.items():
            if name in fields and name not in ("body", "body_text", "body_json"):
                fields[name] = None if fields[name] is None else change(fields[name])
        self._count_copies(fields, removed)
        return Message.of_fields(fields)

    def summary(self) -> RedactionSummary:
        """Return what was found, as values of JSON."""
        copies = {name: count for name, count in self.copies.items() if count}
        return {"unseen": sorted(self.unseen), "removed_bodies": self.removed_bodies, "copies": copies}

    def _apply_to_properties(self, properties: dict[str, str], removed: set[str]) -> dict[str, str]:
        changed = dict(properties)
        changed.pop(CHECKSUM, None)  # of the bytes with the field
        for prop, (name, change) in self._properties.items():
            if prop in properties:
                self.unseen.discard(name)
                removed.add(properties[prop])
                changed[prop] = change(properties[prop])
        return changed

    def _apply_to_body(self, message: Message, fields: dict[str, Any], removed: set[str]) -> None:
        """Set the fields of a message that its body is made of."""
        for name in BODY_FIELDS:
            fields.pop(name, None)
        try:
            body = message.body
        except BODY_ERRORS as error:
            fields["_body_error"] = error
            return
        change = self._columns.get("body")
        if change is not None:
            fields["body"] = None if body is None or change is remove else change(body).encode()
            if fields["body"] is None:
                fields |= dict.fromkeys(TEXTS_OF_BODY)
            return
        reason = "is in an inner batch that cannot be opened" if message.sys_flag & INNER_BATCH else None
        if self._paths and body and reason is None:
            try:
                body = self._apply_to_json(body, removed)
            except (ValueError, RecursionError):
                reason = "is no JSON" if self._needs_json else None
        if reason is not None:
            self.removed_bodies += 1
            text = f"was removed: it {reason}, and may have a redacted field"
            fields["_body_error"] = CorruptFileError("commit log", fields.get("phy_offset") or 0, "body", text)
        else:
            fields["body"] = body
        if "body_crc" in fields and fields.get("body") != message.body:
            fields["body_crc"] = None  # of the body with the field

    def _apply_to_json(self, body: bytes, removed: set[str]) -> bytes:
        """Return a JSON body without the fields. Raises: ValueError, RecursionError if it is none."""
        text = body.decode(self._charset)
        value = parse_json(text)
        changed = self._without_paths(value, (), removed)
        return body if changed is value else dump_json(changed).encode(self._charset)

    def _without_paths(self, value: Any, path: tuple[str, ...], removed: set[str]) -> Any:
        """Return a value of JSON without the fields; the value itself if it has none of them."""
        if isinstance(value, JsonObject):
            pairs = [(name, self._change_field(item, (*path, name), removed)) for name, item in value]
            is_same = all(new is old for (_, new), (_, old) in zip(pairs, value, strict=True))
            return value if is_same else JsonObject(pairs)
        if isinstance(value, list):
            items = [self._without_paths(item, path, removed) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        if isinstance(value, str) and not isinstance(value, RawNumber) and value.lstrip()[:1] in NESTED:
            try:
                inner = parse_json(value)
            except (ValueError, RecursionError):
                return value
            changed = self._without_paths(inner, path, removed)
            return value if changed is inner else dump_json(changed)
        return value

    def _change_field(self, value: Any, path: tuple[str, ...], removed: set[str]) -> Any:
        for wanted, (name, change) in self._paths.items():
            if path[-len(wanted) :] == wanted:
                self.unseen.discard(name)
                if isinstance(value, str):
                    removed.add(str(value))
                return None if value is None else change(value)
        return self._without_paths(value, path, removed)

    def _count_copies(self, fields: dict[str, Any], removed: set[str]) -> None:
        """Count the columns that still have a value that was removed elsewhere."""
        long = {value for value in removed if len(value) >= LEAST}
        if not long:
            return
        for name in ("keys", "uniq_key", "tags"):
            value = fields.get(name)
            values = value if isinstance(value, list) else [value]
            self.copies[MESSAGE_FIELDS[name].name] += not long.isdisjoint(values)
        texts = set((fields.get("properties") or {}).values())
        self.copies["properties"] += not long.isdisjoint(texts)


class HashOf:
    """Hashes of values: the same hash for the same text, in columns, properties and JSON."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def of_bytes(self, data: bytes) -> str:
        """Return the hash of bytes, 64 hexadecimal digits."""
        import hashlib  # these take long to import, and few exports hash values
        import hmac

        if self._key is None:
            return hashlib.sha256(data).hexdigest()
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()

    def of_value(self, value: Any) -> Any:
        """Return the hash of the value of a column, or of each value of a list."""
        if isinstance(value, list):
            return [self.of_value(item) for item in value]
        return self.of_bytes(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))

    def of_property(self, prop: str) -> Callable[[str], str]:
        """Return the function that hashes a property: each word of KEYS, else the text."""
        return self.of_words if prop == "KEYS" else self.of_value

    def of_words(self, text: str) -> str:
        """Return the hashes of the words of a text."""
        return re.sub("[^ ]+", lambda word: str(self.of_value(word[0])), text)

    def of_json(self, value: Any) -> str:
        """Return the hash of a value of JSON: of a text, of the digits of a number, else of its JSON."""
        return str(self.of_value(value if isinstance(value, str) else dump_json(value)))


def remove(value: object) -> None:
    """Return what stands in place of a column or a JSON field: nothing."""


def redact_text(value: str) -> str:
    """Return what stands in place of a property."""
    return REDACTED


def parse_json(text: str) -> Any:
    """Return a value of JSON, with a JsonObject for each object. Raises: ValueError, RecursionError."""
    return json.loads(
        text, object_pairs_hook=JsonObject, parse_int=RawNumber, parse_float=RawNumber, parse_constant=RawNumber
    )


def dump_json(value: Any) -> str:
    """Return the JSON of a value that ``parse_json`` returned."""
    match value:
        case RawNumber():
            return str(value)
        case JsonObject():
            return "{" + ", ".join(f"{dump_json(name)}: {dump_json(item)}" for name, item in value) + "}"
        case list():
            return "[" + ", ".join(map(dump_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
