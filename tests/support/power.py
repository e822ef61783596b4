"""Possible contents of a disk after a loss of power: the journal of tests/c/faults.c replayed, and images made of it.

A file has the bytes of its last sync, and of its other sectors any have reached the disk. A name is there as of the
last sync of its directory; what was done to it since may have reached the disk up to any point, for each name by
itself, but a rename is done whole or not at all.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
DIRECTORY = "directory"


@dataclass(eq=False)
class File:
    """One file, whatever its name: its bytes on the disk, and in memory once it is gone (None: in its place still)."""

    synced: bytes = b""
    current: bytes | None = None


@dataclass(eq=False)
class Change:
    """What one call did to names: name -> File, DIRECTORY, or None for gone."""

    names: dict


@dataclass
class Disk:
    """The names under a root that are surely on the disk, and the changes since."""

    root: Path
    durable: dict = field(default_factory=dict)
    live: dict = field(default_factory=dict)
    pending: list = field(default_factory=list)

    @classmethod
    def of(cls, root):
        """A directory whose present content is all on the disk."""
        disk = cls(Path(root))
        for path in sorted(disk.root.rglob("*")):
            disk.durable[str(path)] = DIRECTORY if path.is_dir() else File(path.read_bytes())
        disk.live = dict(disk.durable)
        return disk

    def change(self, names):
        self.live.update(names)
        self.pending.append(Change(names))

    def replay(self, shadow):
        """Do what the journal in a shadow directory says was done."""
        shadow = Path(shadow)
        for line in (shadow / "journal").read_text().splitlines():
            event, *fields = line.split("\t")
            copy = int(fields.pop()) if event in ("unlink", "rename", "sync") else 0
            saved = (shadow / str(copy)).read_bytes() if copy else b""
            getattr(self, event)(*fields, saved=saved)
        return self

    # ---- events ------------------------------------------------------------------------------------------------

    def create(self, path, saved):
        self.change({path: File()})

    def mkdir(self, path, saved):
        self.change({path: DIRECTORY})

    def rmdir(self, path, saved):
        self.change({path: None})

    def unlink(self, path, saved):
        self.live[path].current = saved
        self.change({path: None})

    def rename(self, source, target, saved):
        if self.live.get(target) not in (None, DIRECTORY):
            self.live[target].current = saved
        self.change({source: None, target: self.live[source]})

    def sync(self, path, saved):
        self.live[path].synced = saved

    def dirsync(self, path, saved):
        """All that was done to the names in a directory is on the disk, and both names of a rename with one of them."""
        left = []
        for change in self.pending:
            if any(os.path.dirname(name) == path for name in change.names):  # noqa: PTH120, fast
                self.durable.update(change.names)
            else:
                left.append(change)
        self.pending = left

    # ---- images ------------------------------------------------------------------------------------------------

    def image(self, target, rng):
        """Make the directory that a machine may find when it has power again."""
        target = Path(target)
        target.mkdir()
        names = self.names_after(rng)
        spread = rng.choice([0, 0.1, 0.5, 0.9, 1])  # the share of the unsynced bytes that reached the disk
        for name, entry in sorted(names.items()):
            path = target / os.path.relpath(name, self.root)
            if entry is None or not path.parent.is_dir():
                continue
            if entry is DIRECTORY:
                path.mkdir()
            else:
                path.write_bytes(after_power_loss(entry.synced, self.current(entry), rng, spread))
        return target

    def names_after(self, rng):
        names = dict(self.durable)
        for group in groups(self.pending):
            for change in group[: rng.randint(0, len(group))]:
                names.update(change.names)
        return names

    def current(self, file):
        """A file's bytes in memory."""
        if file.current is None:
            name = next(name for name, entry in self.live.items() if entry is file)
            file.current = Path(name).read_bytes()
        return file.current


def groups(changes):
    """The changes that have to do with each other, in their order: of one name, and of both names of a rename."""
    found = []
    for change in changes:
        related = [group for group in found if any(name in other.names for other in group for name in change.names)]
        found = [group for group in found if group not in related]
        found.append([*(other for group in related for other in group), change])
    return [sorted(group, key=changes.index) for group in found]


def after_power_loss(synced, current, rng, spread):
    """The bytes of a file: those that were synced, and some sectors as they are in memory."""
    length = len(rng.choice([synced, current, current]))
    data = bytearray(synced.ljust(length, b"\0")[:length])
    for start in range(0, min(length, len(current)), SECTOR):
        if rng.random() < spread:
            part = current[start : start + SECTOR][: length - start]
            data[start : start + len(part)] = part
    return bytes(data)
