"""rebuild: consume queues and index from the commit log alone, beside the old ones, then in their place."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.errors import StoreLockedError
from rocketstore.files.broker_config import BrokerConfig, replace_file
from rocketstore.files.checkpoint import StoreCheckpoint
from rocketstore.files.index_file import IndexFile, IndexHeader, file_size
from rocketstore.files.lock_file import StoreLock, is_held
from rocketstore.files.mapped_file import make_directory, sync_directory
from rocketstore.kernels.dispatch import INNER_DISPATCH
from rocketstore.store.dispatch import Dispatcher, Queue, batch_topics, is_file_name
from rocketstore.store.geometry import known_config, save_geometry, writing_config
from rocketstore.store.index_service import IndexService, index_file_name, index_paths
from rocketstore.store.recovery_complete import Completion, open_completion, plan_completion
from rocketstore.store.recovery_index import HEADER, IndexCut, cut_index, look_at_index
from rocketstore.store.recovery_queues import find_queues
from rocketstore.store.request_pieces import RequestPieces

__all__ = ["RebuildReport", "rebuild"]

STAGING = "rocketstore-rebuild"
STATE = "state.json"
QUEUE_PARTS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
MIN_PIECE, MAX_PIECE = 1 << 20, 64 << 20
SAVE_SECONDS = 30.0  # between two notes of how far it is
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class RebuildReport:
    """What was built, of which part of the log, bytes, and where the old directories are now."""

    min_phy_offset: int
    max_phy_offset: int
    queues: int
    index_files: int
    index_items: int
    backups: tuple[Path, ...]
    out: Path


def rebuild(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    consume_queue: bool = True,
    index: bool = True,
    topics: Iterable[str] | None = None,
    config: StoreConfig | None = None,
    memory: int = 1 << 30,
    threads: int | None = None,
    tz: str | None = None,
    progress: Progress | None = None,
) -> RebuildReport:
    """Build consume queues and index from the commit log as a broker of ``config.compat`` does that has neither.

    They are built beside the old ones, which then are renamed to ``*.bak-<time>``; killed before that, nothing has
    changed, and killed at any time, the next call goes on. A torn tail of the log is cut as ``recover`` does, and the
    checkpoint is written, so that a broker's next start deletes nothing of it.

    Parameters
    ----------
    path : the root of the store, which no broker and no rocketstore may be writing.
    out : a new directory for what is built; the store is only read then. It need not be at rest.
    consume_queue, index : what to build.
    topics : only the queues of these, and no index.
    config : sizes of files where none shows them, as for ``open``.
    memory : about the most to use besides file mappings, bytes.
    threads : that read the log; None for one for each processor.
    tz : zone of the index files' names, which are the store time of their first item; None for the local one.
    progress : called with bytes of log that are done, and all.

    Raises
    ------
    ValueError : a size is not known, or nothing is to be built. CorruptFileError : the log is damaged before its tail.
    StoreLockedError, StoreError, FileExistsError, OSError.

    Source: ReputMessageService.doReput; a broker reads at most commitLogRecoverMaxNum files again.
    """
    root, build = Path(path), Build(consume_queue, index and topics is None, None if topics is None else {*topics})
    os.scandir(root).close()
    build.require()
    zone = None if tz is None else ZoneInfo(tz)
    given = known_config(root, config)
    config = writing_config(root, config)
    build.require_sizes(given, config, root)
    if not config.message_index_enable:
        build.index = False
    rebuilder = Rebuilder(root, build, config, memory, threads or os.cpu_count() or 1, zone, progress)
    if out is not None:
        if is_held(root / "lock"):
            raise StoreLockedError(f"{root}: is being written: stop the broker, or the rocketstore writer, first")
        return rebuilder.build_in(Path(out))
    lock = StoreLock(root / "lock")
    lock.acquire()
    try:
        return rebuilder.build_and_swap()
    finally:
        lock.release()


@dataclass
class Build:
    """What is to be built."""

    consume_queue: bool
    index: bool
    topics: Collection[str] | None

    def require(self) -> None:
        """Raise ValueError unless it is something."""
        if not self.consume_queue and not self.index:
            raise ValueError("consume_queue and index: one of them must be built; of some topics, only queues can be")
        for topic in self.topics or ():
            if not is_file_name(topic):
                raise ValueError(f"topic {topic!r}: cannot be the name of a directory, so it has no queues")

    def require_sizes(self, given: StoreConfig, config: StoreConfig, root: Path) -> None:
        """Raise ValueError for sizes that no file shows: what is built with another the broker would not load."""
        names = ["mapped_file_size_consume_queue"] * self.consume_queue
        names += ["mapped_file_size_consume_queue_ext"] * (self.consume_queue and config.enable_consume_queue_ext)
        names += ["max_hash_slot_num", "max_index_num"] * (self.index and config.message_index_enable)
        unknown = [name for name in names if getattr(given, name) is None]
        if unknown:
            raise ValueError(
                f"{root}: no file shows {', '.join(unknown)}: give them, or the broker's configuration "
                "(StoreConfig.from_broker_conf, on the command line --broker-conf)"
            )

    def parts(self) -> list[str]:
        """The directories to be replaced, under the root."""
        topics = self.topics
        queues = QUEUE_PARTS if topics is None else [f"{part}/{topic}" for part in QUEUE_PARTS for topic in topics]
        return [*(queues if self.consume_queue else ()), *(["index"] if self.index else ())]


@dataclass
class Rebuilder:
    """One rebuild of a store."""

    root: Path
    build: Build
    config: Any  # every size is set
    memory: int
    threads: int
    zone: ZoneInfo | None
    progress: Progress | None
    seen_batches: set[str] = field(default_factory=set)  # topics of which topics.json says nothing

    def build_in(self, out: Path) -> RebuildReport:
        """Build in a directory of its own."""
        make_directory(out)
        if any(out.iterdir()) and not (out / STATE).exists():
            raise FileExistsError(f"{out}: is not empty: give a directory that does not exist")
        plan = self._look()
        with plan.log:
            self._build(plan, out)
        (out / STATE).unlink()
        return self._report(plan, out, ())

    def build_and_swap(self) -> RebuildReport:
        """Build beside the store's own files, and put it in their place."""
        staging = self.root / STAGING
        plan = self._look()
        with plan.log:
            state = read_state(staging)
            if state.get("phase") != "swap" or state["parts"] != self.build.parts():
                if plan.steps:
                    plan.apply_steps()
                self._build(plan, staging)
                state = {"phase": "swap", "parts": self.build.parts(), "time": time.strftime("%Y%m%d%H%M%S")}
                for part in state["parts"]:
                    if (self.root / part).exists():
                        make_directory(staging / part)
                save_state(staging, state)
            plan.steps, plan.tails = [], []
            plan.apply_steps()  # abort: a broker that starts in the middle looks at everything
            backups = swap(self.root, staging, state)
            self._finish(plan)
        shutil.rmtree(staging)
        (self.root / "abort").unlink()
        sync_directory(self.root)
        return self._report(plan, self.root, backups)

    def _look(self) -> Completion:
        plan = open_completion(self.root, self.config)
        plan.look_at_log()
        return plan

    def _finish(self, plan: Completion) -> None:
        """Have a broker's next start keep all of it."""
        save_geometry(self.root, self.config)
        is_all = self.build.consume_queue and self.build.topics is None
        if is_all and self.build.index:
            paths = index_paths(self.root / "index")
            if paths:
                with IndexFile.open(paths[-1], **self._index_geometry()) as newest:
                    plan.checkpoint.index_msg_timestamp = newest.header.end_timestamp
            plan.save_checkpoint()
        else:  # what was not built may be behind the log, or beyond its end
            plan_completion(self.root, self.config, thorough=False).apply()

    def _report(self, plan: Completion, out: Path, backups: tuple[Path, ...]) -> RebuildReport:
        paths = index_paths(out / "index") if self.build.index and (out / "index").is_dir() else []
        items = 0
        for path in paths:
            with IndexFile.open(path, **self._index_geometry()) as file:
                items += max(file.header.index_count - 1, 0)
        queues = find_queues(out, self.config) if self.build.consume_queue else []
        if self.build.topics is not None:
            queues = [queue for queue in queues if queue.queue[0] in self.build.topics]
        return RebuildReport(plan.log.min_phy_offset, plan.end, len(queues), len(paths), items, backups, out)

    def _index_geometry(self) -> dict[str, Any]:
        return {"hash_slot_num": self.config.max_hash_slot_num, "index_num": self.config.max_index_num}

    # ---- build ---------------------------------------------------------------------------------------------

    def _build(self, plan: Completion, staging: Path) -> None:
        """Build all, from where a killed call was, or from the beginning; again if a topic proves to be of batches."""
        state = read_state(staging)
        if state.get("options") != self._options() or state["done"] > plan.end or self.config.enable_consume_queue_ext:
            state = self._begin(plan, staging)
        while state["phase"] == "build":
            state = self._build_from(plan, staging, state["done"]) or self._begin(plan, staging)
        if self.build.index:
            name_index_files(staging, self.zone)

    def _options(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self.config).items() if isinstance(value, str | int | None)}
        return {"parts": self.build.parts(), "zone": str(self.zone), "batches": sorted(self.seen_batches), **values}

    def _begin(self, plan: Completion, staging: Path) -> dict[str, Any]:
        for name in ("index-made", "index", *QUEUE_PARTS):
            shutil.rmtree(staging / name, ignore_errors=True)
        make_directory(staging)
        return self._save(staging, plan.log.min_phy_offset, "build")

    def _save(self, staging: Path, done: int, phase: str) -> dict[str, Any]:
        state = {"phase": phase, "options": self._options(), "done": done}
        save_state(staging, state)
        return state

    def _build_from(self, plan: Completion, staging: Path, begin: int) -> dict[str, Any] | None:
        """Build from an offset of the log to its end. None: what was built before has to be built in another way."""
        size = max(MIN_PIECE, min(MAX_PIECE, self.memory // (8 * (self.threads + 1))))
        pieces = RequestPieces(plan.log, self.config, begin, plan.end, size=size, threads=self.threads)
        with contextlib.closing(self._dispatcher(plan, staging, begin)) as dispatcher:
            waiting = Waiting(dispatcher, pieces.queues, self.memory // 4)
            saved = time.monotonic()
            for piece in pieces:
                if self._is_of_batches(piece.requests, pieces.queues):
                    return None
                waiting.add(self._wanted(piece.requests, pieces.queues))
                if piece.last is not None:
                    dispatcher.build_index(piece.items, piece.last[0])
                if self.progress is not None:
                    self.progress(piece.end - plan.log.min_phy_offset, plan.end - plan.log.min_phy_offset)
                if time.monotonic() - saved > SAVE_SECONDS:
                    waiting.put()
                    dispatcher.flush()
                    self._save(staging, piece.end, "build")
                    saved = time.monotonic()
            waiting.put()
            dispatcher.flush()
        return self._save(staging, plan.end, "name")

    def _dispatcher(self, plan: Completion, staging: Path, begin: int) -> Dispatcher:
        """Open what was built up to an offset, and nothing of what is behind it."""
        index = None
        if self.build.index:
            make_directory(staging / "index-made")
            cut_index_files(staging / "index-made", self.config, plan, begin)
            index = IndexService.open(
                staging / "index-made", "a", **self._index_geometry(), compat=self.config.compat,
                checkpoint=StoreCheckpoint(staging / "checkpoint"),
            )
        batches = batch_topics(BrokerConfig.open(self.root).topics) | self.seen_batches
        dispatcher = Dispatcher(staging, self.config, plan.log, index, batches)
        for queue in find_queues(staging, self.config):
            dispatcher.queue(*queue.queue).truncate(begin, zero=True)
        return dispatcher

    def _is_of_batches(self, requests: np.ndarray, queues: Sequence[Queue]) -> bool:
        """Whether a topic that topics.json does not know has inner batches here, for the first time."""
        numbers = requests["queue"][requests["flags"] & INNER_DISPATCH != 0]
        found = {queues[number][0] for number in np.unique(numbers).tolist()} - self.seen_batches
        found -= BrokerConfig.open(self.root).topics.keys() if found else set()
        self.seen_batches |= found
        return bool(found)

    def _wanted(self, requests: np.ndarray, queues: Sequence[Queue]) -> np.ndarray:
        if not self.build.consume_queue:
            return requests[:0]
        if self.build.topics is None or self.config.enable_multi_dispatch:  # which is for any topics
            return requests
        is_wanted = np.array([topic in self.build.topics for topic, _ in queues], bool)
        wanted: np.ndarray = requests[is_wanted[requests["queue"]]]
        return wanted


class Waiting:
    """Requests that are put together, so that each of many queues is written to seldom."""

    def __init__(self, dispatcher: Dispatcher, queues: Sequence[Queue], most: int) -> None:
        self._dispatcher, self._queues, self._most = dispatcher, queues, most
        self._parts: list[np.ndarray] = []

    def add(self, requests: np.ndarray) -> None:
        self._parts.append(requests)
        if sum(part.nbytes for part in self._parts) > self._most:
            self.put()

    def put(self) -> None:
        if self._parts:
            self._dispatcher.build_consume_queues(np.concatenate(self._parts), self._queues)
            self._parts.clear()


# ---- index files -------------------------------------------------------------------------------------------


def cut_index_files(directory: Path, config: Any, plan: Completion, end: int) -> None:
    """Take back the items of records from ``end`` on, which a killed call has put."""
    slots, items = config.max_hash_slot_num, config.max_index_num
    for path in index_paths(directory):
        found = look_at_index(path, slots, items, end, lambda header: False)
        if found.total and not found.sound:
            path.unlink()
        elif found.sound < found.total or not found.slots_agree:
            cut = IndexCut(path, found.sound, file_size(slots, found.sound + 1), 0)
            cut_index(cut, slots, items, config.compat, plan.store_timestamp_of)


def name_index_files(staging: Path, zone: ZoneInfo | None) -> None:
    """Name each file by the store time of its first item, and always after the one before it."""
    made, named = staging / "index-made", staging / "index"
    make_directory(named)
    last = max((path.name for path in index_paths(named)), default="")
    for path in index_paths(made):
        with path.open("rb") as file:
            header = IndexHeader(*HEADER.unpack(file.read(HEADER.size)))
        first = header.begin_timestamp or header.end_timestamp  # one without items has the end of the one before it
        last = index_file_name(datetime.fromtimestamp(max(first, 0) / 1000, zone), last)
        path.rename(named / last)
    sync_directory(named)


# ---- state and swap ----------------------------------------------------------------------------------------


def read_state(staging: Path) -> dict[str, Any]:
    """Give what a killed call has left, nothing if there is none."""
    try:
        state: dict[str, Any] = json.loads((staging / STATE).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return state


def save_state(staging: Path, state: dict[str, Any]) -> None:
    replace_file(staging / STATE, json.dumps(state).encode())


def swap(root: Path, staging: Path, state: dict[str, Any]) -> tuple[Path, ...]:
    """Put what was built in the place of the old directories. Killed in the middle, it is done again."""
    backups = []
    for part in state["parts"]:
        first, *rest = Path(part).parts
        made, old, kept = staging / part, root / part, Path(root, f"{first}.bak-{state['time']}", *rest)
        if made.exists():
            make_directory(old.parent)
            make_directory(kept.parent)
            if old.exists():
                old.rename(kept)
            made.rename(old)
            for directory in {old.parent, kept.parent}:
                sync_directory(directory)
        if kept.exists():
            backups.append(kept)
    return tuple(backups)
