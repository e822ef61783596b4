"""The directories of a build. The result appears under its name when all files in it are complete."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rocketstore.disk.durable import sync_path
from rocketstore.disk.storage import local_path
from rocketstore.kernels.queue_id import QueueId
from rocketstore.survey.owners import lock_owner_of
from rocketstore.text_values import format_count

SWEEPS = 5  # attempts to remove a directory


@dataclass
class BuildReport:
    """The result of a build.

    Attributes: files: paths, oldest first. items: the number of items or units in them. seconds: the time of the build.
    assumptions: the broker's settings that nothing states, and on which the bytes of the files depend.
    deleted, undeclared, doubtful: of a build of queues, as in ``RebuildReport``.
    """

    files: list[Path]
    items: int
    seconds: float
    assumptions: tuple[str, ...] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def __repr__(self) -> str:
        where = f" in {os.path.commonpath([path.parent for path in self.files])!r}" if self.files else ""
        files = format_count(len(self.files), "file")
        return f"<BuildReport: {format_count(self.items, 'item')}, {files}{where}, {self.seconds:.1f} s>"


class BuildDirectories(NamedTuple):
    """The directories of a build.

    Attributes: work: contains all others, except ``spills`` with a scratch directory. spills: files between the passes.
    attempts: files that tasks are writing. files: complete files.
    """

    work: Path
    spills: Path
    attempts: Path
    files: Path


def new_place(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a new directory. Raises: FileExistsError; io.UnsupportedOperation if it is remote."""
    place = real_path(path)
    refuse_existing(place)
    return place


def real_path(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(local_path(path)))


def refuse_existing(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise FileExistsError(errno.EEXIST, "exists already, and is not an empty directory", str(out))


@contextmanager
def working_directories(out: Path, scratch: str | os.PathLike[str] | None) -> Iterator[BuildDirectories]:
    """Make the directories of a build for a ``with`` block: a hidden one beside ``out``, and one in ``scratch``."""
    name = f".{out.name}.{uuid.uuid4().hex}"
    work = out.parent / name
    spills = work / "spills" if scratch is None else real_path(scratch) / name
    directories = BuildDirectories(work, spills, work / "attempts", work / "files")
    try:
        with lock_owner_of(out):
            for place in directories:
                place.mkdir(parents=True, exist_ok=True)
            yield directories
    finally:
        sweep([work, spills])


def sweep(directories: Iterable[Path]) -> None:
    """Remove directories. Repeat this, since a late attempt of a task may still add files."""
    for _ in range(SWEEPS):
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def publish(files: Path, out: Path) -> None:
    """Rename the finished directory to ``out`` after all names in it are on the disk."""
    for directory in (files, *(path for path in files.rglob("*") if path.is_dir())):
        sync_path(directory)
    try:
        files.rename(out)
    except OSError as error:
        refuse_existing(out)
        raise error
    sync_path(out.parent)
