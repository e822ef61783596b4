"""The bytes around the damage of a log, in which only the structure of records is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rocketstore.bundle.blanking import blank_bytes
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.kernels.layout import (
    BLANK_HEAD,
    MAGIC_BLANK,
    PROPERTIES_LENGTH,
    RECORD_HEAD,
    RECORD_MAGICS,
    read_field,
    record_head,
    topic_length_size,
)
from rocketstore.log.commit_log import CommitLog
from rocketstore.verify.findings import Finding

AROUND = 4096  # bytes before and behind the damage
MOST_PLACES = 64  # damaged places whose bytes are in the archive; the findings of verify name all
SEPARATORS = b"\1\2"
COLUMNS = ("phy_offset", "size")
SMALL, MAX_SIZE, MAX_QUEUE_OFFSET = 1 << 16, 64 << 20, 1 << 40  # larger numbers in a head may be bytes of a body
MAX_TIME = 1 << 42  # epoch ms, in the year 2109
# Names of properties that RocketMQ defines. Source: MessageConst.
PROPERTY_NAMES = frozenset(
    b"KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID "
    b"ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY "
    b"EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE DUP_INFO "
    b"CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES POP_CK "
    b"POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY TIMER_DELIVER_MS TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_ENQUEUE_MS "
    b"TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DEL_MS "
    b"INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# CLUSTER "
    b"INSTANCE_ID".split()
)


class DamagedBytes(NamedTuple):
    """Bytes of a file of the log. Attributes: begin: physical offset. findings: whose places are in the range."""

    file: RunFile
    begin: int
    data: bytes
    findings: Sequence[Finding]

    @property
    def name(self) -> str:
        """The name of a file for these bytes."""
        return f"{self.file.path.name}-{self.begin - self.file.file_from_offset}.bin"


def read_damage(log: CommitLog, findings: Sequence[Finding], topics: Collection[str]) -> Iterator[DamagedBytes]:
    """Yield the bytes around the first places of errors and warnings in the log. Bodies are blanked.

    Parameters: topics: names that may be shown.
    """
    known = {topic.encode() for topic in topics}
    files = {str(file.path): file for file in log.file_run.files}
    ranges: list[tuple[RunFile, int, int, list[Finding]]] = []
    places = [finding for finding in findings if finding.severity != "info" and str(finding.path) in files]
    for finding in sorted(places, key=lambda finding: (str(finding.path), finding.offset))[:MOST_PLACES]:
        file = files[str(finding.path)]
        begin, end = max(finding.offset - AROUND, 0), min(finding.offset + AROUND, file.size)
        if ranges and ranges[-1][0] == file and begin <= ranges[-1][2]:
            first = ranges.pop()
            ranges.append((file, first[1], max(end, first[2]), [*first[3], finding]))
        elif begin < end:
            ranges.append((file, begin, end, [finding]))
    for file, begin, end, found in ranges:
        start = file.file_from_offset
        yield DamagedBytes(file, start + begin, _read_blanked(log, start + begin, end - begin, known), found)


def _read_blanked(log: CommitLog, begin: int, size: int, topics: Collection[bytes]) -> bytes:
    """Return bytes of the log at a physical offset, with everything blanked that is no structure."""
    data = log.file_run.pread(begin, size)
    end, log_end = begin + len(data), log.max_phy_offset
    kept: list[tuple[int, int]] = []
    sound: list[tuple[int, int]] = []
    for batch in log.scan(begin, end, columns=COLUMNS, on_corrupt="skip", verify_crc=True):
        for place, length in zip(batch.phy_offset.tolist(), batch.size.tolist(), strict=True):
            record = log.file_run.pread(place, length)
            sound.append((place - begin, place - begin + length))
            shown = _shown_parts(record, place, log_end, topics)
            kept += [(place - begin + first, place - begin + last) for first, last in shown]
    return blank_bytes(data, [*kept, *_heads_between(data, begin, log_end, sound)])


def _shown_parts(record: bytes, place: int, log_end: int, topics: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a sound record that are shown: numbers, known names, and the separators of properties."""
    head = record_head(read_field(record, RECORD_HEAD, "sys_flag"))
    yield from _plausible_fields(record, 0, place, log_end, has_right_crc=True)
    at = head.itemsize + read_field(record, head, "body_length")
    width = topic_length_size(read_field(record, head, "magic"))
    begin, end = at + width, at + width + int.from_bytes(record[at : at + width], "big")
    yield at, begin
    if record[begin:end] in topics:
        yield begin, end
    begin = end + PROPERTIES_LENGTH.itemsize
    yield end, begin
    is_name = True
    for place in range(begin, len(record)):
        if record[place] in SEPARATORS:
            if is_name and record[place] == SEPARATORS[0] and record[begin:place] in PROPERTY_NAMES:
                yield begin, place
            yield place, place + 1
            begin, is_name = place + 1, record[place] == SEPARATORS[1]


def _plausible_fields(
    data: bytes, position: int, place: int, log_end: int, *, has_right_crc: bool
) -> Iterator[tuple[int, int]]:
    """Yield the positions of the fields of a head whose numbers can be right. Bytes of a body are no such numbers.

    Parameters: position: of the head in ``data``. place: its physical offset. has_right_crc: whether the CRC of the
    body is right. The addresses of hosts are not shown: any bytes can be an address.
    """
    head = record_head(read_field(data, RECORD_HEAD, "sys_flag", position))
    limits = {
        "size": MAX_SIZE, "queue_id": SMALL, "flag": SMALL, "queue_offset": MAX_QUEUE_OFFSET, "sys_flag": SMALL,
        "born_timestamp": MAX_TIME, "store_timestamp": MAX_TIME, "reconsume_times": SMALL,
        "prepared_transaction_offset": log_end, "body_length": MAX_SIZE,
    }  # fmt: skip
    for name in head.names or ():
        field, offset, *_ = head.fields[name]  # type: ignore[index]
        end = position + offset + field.itemsize
        if name.endswith("_host") or end > len(data):
            continue
        value = read_field(data, head, name, position)
        is_right = {"magic": value in RECORD_MAGICS, "phy_offset": value == place, "body_crc": has_right_crc}
        if is_right.get(name, 0 <= value < limits.get(name, 0)):
            yield position + offset, end


def _heads_between(
    data: bytes, begin: int, log_end: int, sound: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the heads of records that are not sound, but have their own physical offset, and of blanks."""
    place_of_magic = RECORD_HEAD.fields["magic"][1]  # type: ignore[index]
    for magic in (*RECORD_MAGICS, MAGIC_BLANK):
        text = magic.to_bytes(4, "big")
        at = data.find(text)
        while at >= 0:
            place = at - place_of_magic
            if place >= 0 and not any(first <= place < last for first, last in sound):
                if magic == MAGIC_BLANK:
                    yield at, at + BLANK_HEAD["magic"].itemsize
                elif len(data) - place >= RECORD_HEAD.itemsize and (
                    read_field(data, RECORD_HEAD, "phy_offset", place) == begin + place
                ):
                    yield from _plausible_fields(data, place, begin + place, log_end, has_right_crc=False)
            at = data.find(text, at + 1)
