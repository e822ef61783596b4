"""Check compacted topics: the logs and units from which their consumers are served."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.kernels.layout import BATCH_UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.compacted_queue import CompactedQueue
from rocketstore.queue.queue_directories import queue_ids_in
from rocketstore.queue.unit_run import BatchUnitRun
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.survey.compacted_topics import open_compacted_log
from rocketstore.survey.places import StorePlaces
from rocketstore.verify.findings import Findings
from rocketstore.verify.unit_records import choose_samples, find_bad_units

UNIT_SIZE = BATCH_UNIT.itemsize


def check_compacted_topics(
    places: StorePlaces[Path], config: StoreConfig, topics: tuple[str, ...], findings: Findings, *, quick: bool
) -> None:
    """Report units of compacted topics that lead to no record of their message, and files that do not match.

    Parameters: topics: those that have a directory of compacted logs. quick: check some units of the first and of the
    last file of each queue only.
    """
    for topic in topics:
        logs, units = places.compacted_logs / topic, places.compacted_queues / topic
        of_log, of_units = set(queue_ids_in(logs)), set(queue_ids_in(units))
        for queue_id in sorted(of_log ^ of_units):
            path = (logs if queue_id in of_log else units) / str(queue_id)
            other = units if queue_id in of_log else logs
            findings.add("compaction-queue-missing", path, 0, f"{other / str(queue_id)} is missing")
        for queue_id in sorted(of_log & of_units):
            path = units / str(queue_id)
            _check_files(logs / str(queue_id), path, findings)
            with findings.reporting_errors(path):
                log = open_compacted_log(logs / str(queue_id), config)
                with CompactedQueue(BatchUnitRun(path, None), log, None) as queue:
                    check = _sample_units if quick else _check_units
                    check(queue, QueueId(topic, queue_id), findings)


def _check_files(log: Path, units: Path, findings: Findings) -> None:
    """Compare the names of a queue's log files with those of its files of units.

    Source: CompactionLog.TopicPartitionLog.sanityCheck.
    """
    of_log, of_units = (_list_loaded(directory, findings) for directory in (log, units))
    for name in sorted(of_log ^ of_units):
        path, other = (log, units) if name in of_log else (units, log)
        findings.add("compaction-file-missing", path / name, 0, f"{other / name} is missing")


def _list_loaded(directory: Path, findings: Findings) -> set[str]:
    """Return the names of the files that a broker loads: those before the first one of another length.

    A broker makes the length of both kinds of files a multiple of the length of a unit. Source: MappedFileQueue.load.
    """
    loaded: set[str] = set()
    with findings.reporting_errors(directory):
        for path in sorted(path for path in directory.iterdir() if is_offset_name(path.name)):
            size = path.stat().st_size
            if not size or size % UNIT_SIZE:
                findings.add("compaction-file-size", path, 0, f"{size} bytes are no multiple of {UNIT_SIZE}")
                break
            loaded.add(path.name)
    return loaded


def _check_units(queue: CompactedQueue, queue_id: QueueId, findings: Findings) -> None:
    before = -1
    for file in queue.run.list_files().files:
        for position, units in queue.units_of(file):
            offsets = units.queue_offsets
            falls = np.flatnonzero(np.diff(np.concatenate([[before], offsets])) <= 0)
            for row in falls.tolist():
                place = position - file.file_from_offset + row * queue.unit_size
                findings.add("compaction-unit", file.path, place, f"queue offset {offsets[row]} does not rise")
            _compare_units(queue, file, position, units, queue_id, findings)
            before = int(offsets[-1])


def _sample_units(queue: CompactedQueue, queue_id: QueueId, findings: Findings) -> None:
    """Check the first, the last and some other units of the first and of the last file that have units."""
    spans = list(queue.spans())
    for begin, end in dict.fromkeys(spans[:1] + spans[-1:]):
        file = queue.run.file_run.find(begin)
        assert file is not None
        for number in choose_samples(0, (end - begin) // queue.unit_size):
            position = begin + number * queue.unit_size
            units = queue.run.decode([(position, position + queue.unit_size)])
            _compare_units(queue, file, position, units, queue_id, findings)


def _compare_units(
    queue: CompactedQueue,
    file: RunFile,
    position: int,
    units: ConsumeQueueUnits,
    queue_id: QueueId,
    findings: Findings,
) -> None:
    """Report units, the first one at a position, that lead to no sound record of their message."""
    for row, detail in sorted(find_bad_units(queue.log, units, queue_id).items()):
        place = position - file.file_from_offset + row * queue.unit_size
        findings.add("compaction-unit", file.path, place, detail)
