"""The configuration of a store without credentials."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from rocketstore.bundle.blanking import BLANKED, blank_credentials, blank_uri, is_name_of_credential
from rocketstore.config import FIELD_NAMES, StoreConfig, camel_case
from rocketstore.disk.small_file import read_small_file
from rocketstore.errors import StoreError
from rocketstore.state.config_json import parse_json
from rocketstore.state.config_values import GROUPS, LMQ_OFFSETS, OFFSETS, TOPICS
from rocketstore.state.json_tables import MAX_SIZE
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.sizes import SAVED

SHOWN_FILES = (
    TOPICS, GROUPS, OFFSETS, LMQ_OFFSETS, "delayOffset.json", "consumerFilter.json", "consumerOrderInfo.json",
    "messageRequestMode.json", "topicQueueMapping.json",
)  # fmt: skip
PLAIN_VALUE = re.compile(r"\s*(-?[0-9]{1,19}|(?i:true|false)|[A-Z]+(_[A-Z]+)*)\s*")


def config_files(places: LocalPlaces, known: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the tables of ``config`` by name, as JSON, and the sizes of all other files.

    Files that cannot be parsed, and files of users and permissions, are among the others.
    Parameters: known: names of topics and groups.
    """
    others = []
    for path in sorted(places.config.rglob("*")) if places.config.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            data = _read_table(path, places, known)
            if data is None:
                others.append({"path": str(path.relative_to(places.root)), "size": path.stat().st_size})
            else:
                yield f"config/{path.name}", data
    yield "config/others.json", encode(others)


def _read_table(path: Path, places: LocalPlaces, known: Collection[str]) -> bytes | None:
    """Return the JSON of a table; None if the file is no table, or cannot be parsed."""
    is_saved = path == places.saved_settings
    if path.parent != places.config or (path.name not in SHOWN_FILES and not is_saved):
        return None
    try:
        root = parse_json(read_small_file(path, MAX_SIZE))
    except (OSError, StoreError, ValueError, RecursionError):
        return None
    if is_saved and isinstance(root, dict):
        root = {name: value for name, value in root.items() if name in SAVED}
    return encode(blank_credentials(root, known))


def blank_uris(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without users and passwords in URIs."""
    return {name: blank_uri(value) if isinstance(value, str) else value for name, value in settings.items()}


def broker_settings(config: StoreConfig) -> dict[str, object]:
    """Return the settings of a broker by RocketMQ's names.

    Of properties that rocketstore does not know, values that are no number, boolean or upper-case word are blanked.
    """
    shown = blank_uris({camel_case(name): getattr(config, name) for name in FIELD_NAMES.values()})
    for name, text in config.other.items():
        is_plain = PLAIN_VALUE.fullmatch(text) is not None and not is_name_of_credential(name)
        shown[name] = text if is_plain else BLANKED
    return shown | {"compat": config.compat}


def encode(value: object) -> bytes:
    """Return a value as JSON."""
    return (json.dumps(value, ensure_ascii=True, indent=1, sort_keys=True, default=_plain) + "\n").encode()


def _plain(value: object) -> object:
    """Return a number of NumPy as one of Python, and any other value as text."""
    return value.item() if isinstance(value, np.generic) else str(value)
