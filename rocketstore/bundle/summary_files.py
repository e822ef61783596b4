"""What a store's directory has, what verify found, and with which versions, as JSON."""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import os
import platform
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from rocketstore.bundle.blanking import blank_text, blank_uri
from rocketstore.disk.storage import local_path
from rocketstore.errors import StoreError
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.places import LocalPlaces
from rocketstore.verify.findings import VerifyReport

PACKAGES = (
    "rocketstore", "numpy", "pyarrow", "pandas", "polars", "pyspark", "duckdb", "click", "rich", "fsspec", "lz4",
    "zstandard", "rocksdict",
)  # fmt: skip
MOST_FILES = 100_000  # in the listing
FAILURES = (OSError, StoreError, ValueError, OverflowError, IndexError, KeyError)  # of reading damaged files
BLOCK = 512  # bytes, the unit of st_blocks


def describe_versions() -> dict[str, Any]:
    """Return the versions of rocketstore, Python, its packages and the system."""
    packages: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = None
    return {
        "python": sys.version,
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
        "cpus": os.cpu_count(),
        "pageSize": os.sysconf("SC_PAGE_SIZE"),
        "packages": packages,
    }


def describe_files(places: LocalPlaces) -> dict[str, Any]:
    """Return path, length, used bytes, mode and time of change of each file of a store, and the number of files.

    At most MOST_FILES files are listed; the others are counted.
    """
    files = _find_files(places)
    rows: list[dict[str, Any]] = []
    for name, path in itertools.islice(files.items(), MOST_FILES):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            rows.append(
                {
                    "path": name,
                    "length": status.st_size,
                    "used": status.st_blocks * BLOCK,
                    "mode": f"{status.st_mode:o}",
                    "changed": status.st_mtime_ns // 1_000_000,
                }
            )
    return {"count": len(files), "files": rows}


def _find_files(places: LocalPlaces) -> dict[str, Path]:
    """Return all files and links of a store by their paths relative to the root."""
    directories = [places.root, *map(local_path, places.log_directories)]
    found = (path for directory in directories if directory.is_dir() for path in sorted(directory.rglob("*")))
    return {os.path.relpath(path, places.root): path for path in found if path.is_symlink() or not path.is_dir()}


def describe_state(places: LocalPlaces) -> dict[str, Any]:
    """Return the numbers of the checkpoint, and which files of a running or killed broker exist."""
    checkpoint = StoreCheckpoint.open(places.checkpoint)
    numbers = {name: value for name, value in vars(checkpoint).items() if type(value) is int}
    return {"checkpoint": numbers, "abort": places.abort.exists(), "lock": places.lock.exists()}


def describe_store(store: MessageStore, known: Collection[str]) -> dict[str, Any]:
    """Return the summary of a store. Parameters: known: names that may be shown."""
    summary = store.summary()._asdict()
    for name in ("problems", "notes"):
        summary[name] = [blank_text(text, known) for text in summary[name]]
    return summary | {"formats": describe_formats(store), "queueEnds": describe_queues(store)}


def describe_formats(store: MessageStore) -> dict[str, Any]:
    formats = store.formats
    return {
        "isDledger": formats.is_dledger,
        "queuesInDatabase": formats.are_queues_in_database,
        "configInDatabase": sorted(formats.config_databases),
        "indexInDatabase": formats.index_database is not None,
        "isTiered": formats.is_tiered,
        "compactedTopics": list(formats.compacted_topics),
    }


def describe_queues(store: MessageStore) -> list[dict[str, Any]]:
    """Return the bounds of each queue."""
    found = []
    for topic, queue_id in store.queues():
        queue = store.consume_queue(topic, queue_id)
        bounds = {"min": queue.min_queue_offset, "max": queue.max_queue_offset}
        found.append({"topic": topic, "queueId": queue_id, **bounds})
    return found


def describe_findings(report: VerifyReport, places: LocalPlaces, known: Collection[str]) -> dict[str, Any]:
    """Return the numbers and the findings of verify, with paths below the root.

    Lists of messages have keys and tags, and are left out. Parameters: known: names that may be shown.
    """
    findings = [
        {
            "kind": finding.kind,
            "severity": finding.severity,
            "path": relative_path(str(finding.path), places),
            "offset": finding.offset,
            "detail": blank_text(finding.detail, known),
            "more": finding.more,
        }
        for finding in report.findings
    ]
    numbers = {name: value for name, value in report.to_dict().items() if isinstance(value, int)}
    return numbers | {"findings": findings}


def relative_path(text: str, places: LocalPlaces) -> str:
    """Return a path below the root of a store, relative to it. Others have no user and no password of a URI."""
    path = Path(text)
    return str(path.relative_to(places.root)) if path.is_relative_to(places.root) else blank_uri(text)


def or_error(describe: Callable[[], Any], known: Collection[str]) -> Any:
    """Return a description, or the error that it raised: a bug report needs the other parts too."""
    try:
        return describe()
    except FAILURES as error:
        return {"error": type(error).__name__, "text": blank_text(str(error), known)}
