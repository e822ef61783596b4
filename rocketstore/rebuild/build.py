"""Build: which parts of a store a rebuild builds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rocketstore.messages.arguments import text_list
from rocketstore.messages.topics import is_file_name
from rocketstore.root_places import INDEX, QUEUE_PARTS, ROCKSDB_QUEUES

QUEUE_SIZES = (
    "mapped_file_size_consume_queue",
    "mapper_file_size_batch_consume_queue",
    "mapped_file_size_consume_queue_ext",
)
INDEX_SIZES = ("max_hash_slot_num", "max_index_num")


def topics_of(topic: str | Iterable[str] | None) -> set[str] | None:
    """Return one topic or several as a set. Raises: TypeError."""
    names = text_list(topic, "topic")
    return None if names is None else {*names}


@dataclass
class Build:
    """The parts of a store that a rebuild builds."""

    consume_queue: bool
    index: bool
    topics: Collection[str] | None
    is_in_place: bool  # the other parts are recovered then

    def require(self) -> None:
        """Raise ValueError if nothing can be built."""
        if not (self.consume_queue or self.index) or self.topics == set():
            only = "of some topics, and where message_index_enable is false, only queues can be"
            raise ValueError(f"consume_queue, index: one of them must be built; {only}")
        for topic in self.topics or ():
            if not is_file_name(topic):
                raise ValueError(f"topic {topic!r}: cannot be the name of a directory, so it has no queues")

    def parts(self) -> list[str]:
        """Return the directories to replace, relative to the root."""
        topics = self.topics and sorted(self.topics)
        queues = [*QUEUE_PARTS, ROCKSDB_QUEUES]
        if topics is not None:
            queues = [f"{part}/{topic}" for part in QUEUE_PARTS for topic in topics]
        return [*(queues if self.consume_queue else ()), *([INDEX] if self.index else ())]

    def replaced_sizes(self) -> list[str]:
        """Return the names of the sizes of files that are all replaced, so that they may be damaged."""
        queues = QUEUE_SIZES if self.consume_queue and self.topics is None else ()
        return [*queues, *(INDEX_SIZES if self.index else ())]

    def has_queues_of(self, topics: Collection[str]) -> bool:
        return self.consume_queue and any(self.topics is None or topic in self.topics for topic in topics)
