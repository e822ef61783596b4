"""Decoders of bodies: from the bytes of a body to a value that can be shown as JSON.

A decoder is a function that takes the bytes of a body and returns a value, or raises an exception if the bytes have
another form. Packages offer decoders under the entry point group ``rocketstore.decoders``, where each entry point is a
``DecoderFactory``.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from rocketstore.disk.storage import expand_home
from rocketstore.extras import import_extra
from rocketstore.messages.body_text import UTF8, find_charset
from rocketstore.text_values import find_similar

GROUP = "rocketstore.decoders"  # of entry points
OWN = ("json", "text", "hex", "protobuf:FILE.desc:TYPE")
USAGE = f"give {', '.join(OWN)}, or MODULE:FUNCTION"
Decoder = Callable[[bytes], Any]


class DecoderFactory(Protocol):
    """An entry point of the group ``rocketstore.decoders``. It makes the decoder for ``NAME`` or ``NAME:ARGUMENT``."""

    def __call__(self, argument: str | None, /) -> Decoder:
        """Return a decoder. Parameters: argument: the text behind the colon; None without one. Raises: ValueError."""
        ...


def find_decoder(text: str, charset: str = UTF8) -> Decoder:
    """Return a decoder by its name: json, text, hex, protobuf:FILE.desc:TYPE, an entry point, or MODULE:FUNCTION.

    Parameters: charset: of the bodies, for json and text. Raises: ValueError that says what is wrong; OSError for a
    file that cannot be read; ModuleNotFoundError for a missing extra.
    """
    name, colon, argument = text.partition(":")
    if name in ("json", "text", "hex"):
        if colon:
            raise ValueError(f"{text!r:.200}: {name} takes no argument")
        return own_decoder(name, find_charset(charset))
    if name == "protobuf":
        return protobuf_decoder(argument)
    if (factory := find_factory(name)) is not None:
        return factory(argument if colon else None)
    if not colon:
        similar = find_similar(name, ["json", "text", "hex", "protobuf"])
        raise ValueError(f"{text!r:.200}: {f'did you mean {similar!r}?' if similar else USAGE}")
    return import_function(text, name, argument)


def own_decoder(name: str, charset: str) -> Decoder:
    """Return the decoder json, text or hex."""
    if name == "hex":
        return bytes.hex
    if name == "text":
        return lambda body: body.decode(charset)
    return lambda body: json.loads(body.decode(charset), parse_constant=refuse_constant)


def refuse_constant(text: str) -> None:
    """Raise ValueError for NaN and Infinity, which are no JSON."""
    raise ValueError(f"{text} is no JSON")


def find_factory(name: str) -> DecoderFactory | None:
    """Return the factory that an installed package offers under a name; None without one."""
    from importlib.metadata import entry_points  # takes long to import

    for entry in entry_points(group=GROUP, name=name):
        factory: DecoderFactory = entry.load()
        return factory
    return None


def import_function(text: str, module: str, function: str) -> Decoder:
    """Return a function of a module. Raises: ValueError."""
    try:
        found = attrgetter(function)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"{text!r:.200}: {error}: {USAGE}") from None
    if not callable(found):
        raise ValueError(f"{text!r:.200}: {function} is no function")
    decoder: Decoder = found
    return decoder


# ---- protobuf ----------------------------------------------------------------------------------------------


def protobuf_decoder(argument: str) -> Decoder:
    """Return the decoder of a message type of protobuf.

    Its values are those of protobuf's JSON, with the names of the .proto file.

    Parameters: argument: FILE.desc:TYPE. FILE.desc is a FileDescriptorSet, as protoc --include_imports
    --descriptor_set_out writes it. Raises: ValueError; OSError; ModuleNotFoundError without protobuf.
    """
    path, _, name = argument.rpartition(":")
    if not (path and name):
        raise ValueError(f"'protobuf:{argument:.200}': give protobuf:FILE.desc:TYPE")
    json_format = import_extra("google.protobuf.json_format", "protobuf")
    make_class = import_extra("google.protobuf.message_factory", "protobuf").GetMessageClass
    pool, names = read_descriptors(expand_home(path))
    try:
        message_type = make_class(pool.FindMessageTypeByName(name))
    except KeyError:
        similar = find_similar(name, names)
        hint = f"did you mean {similar!r}?" if similar else f"it has {', '.join(sorted(names)[:20])}"
        raise ValueError(f"{path}: there is no message type {name!r}: {hint}") from None
    return lambda body: json_format.MessageToDict(
        message_type.FromString(body), preserving_proto_field_name=True, descriptor_pool=pool
    )


def read_descriptors(path: Path) -> tuple[Any, list[str]]:
    """Return the pool with the types of a FileDescriptorSet, and the names of its message types. Raises: ValueError."""
    descriptor_pb2 = import_extra("google.protobuf.descriptor_pb2", "protobuf")
    pool = import_extra("google.protobuf.descriptor_pool", "protobuf").DescriptorPool()
    data = path.read_bytes()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
        for file in files:
            pool.Add(file)
    except Exception as error:  # protobuf's own class, TypeError, or KeyError, by its release and implementation
        advice = "write it with protoc --include_imports --descriptor_set_out=FILE.desc"
        raise ValueError(f"{path}: is no complete FileDescriptorSet ({error}): {advice}".replace("\n", " ")) from None
    if not files:
        raise ValueError(f"{path}: has no types: it is no FileDescriptorSet")
    return pool, [name for file in files for name in type_names(file.package, file.message_type)]


def type_names(prefix: str, types: Iterable[Any]) -> Iterable[str]:
    """Yield the full names of message types, also of those inside other types."""
    for message_type in types:
        name = f"{prefix}.{message_type.name}" if prefix else message_type.name
        yield name
        yield from type_names(name, message_type.nested_type)


# ---- values ------------------------------------------------------------------------------------------------


def json_value(value: Any) -> Any:
    """Return a value of a decoder as a value of JSON. Bytes are text if they are UTF-8, else base64.

    An object that is none of Python's own types is its text. Raises: RecursionError for a value that contains itself.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)  # JSON has no infinity
        case bytes() | bytearray() | memoryview():
            data = bytes(value)
            try:
                return data.decode()
            except UnicodeDecodeError:
                return f"base64:{base64.b64encode(data).decode()}"
        case Mapping():
            return {str(key): json_value(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_value(item) for item in value]
        case _:
            return str(value)
