"""Messages with a delay level, and delayed retries of consumers. Source: ScheduleMessageService."""

from __future__ import annotations

from rocketstore.messages.topics import RETRY_PREFIX, SCHEDULE_TOPIC
from rocketstore.store.pending.deliveries import Candidate, find_undelivered, targets_of
from rocketstore.store.pending.found import Found
from rocketstore.store.pending.pending_message import DELAY, RETRY, PendingMessage
from rocketstore.store.pending.system_queues import QueueRecord, read_queue, real_place
from rocketstore.store.readable_store import ReadableStore


def find_delayed(store: ReadableStore) -> Found:
    """Find the messages of the schedule topic that are not delivered.

    delayOffset.json has the queue offset of each level from which on messages wait. A broker saves it every ten
    seconds, so the first messages behind it may be delivered: then the real topic has them.
    """
    offsets = store.broker_config.delay_offsets
    candidates, problems = [], []
    for queue_id in store.queue_ids(SCHEDULE_TOPIC):
        found = read_queue(store, SCHEDULE_TOPIC, queue_id, offsets.get(queue_id + 1, 0))
        candidates += [_candidate_of(record) for record in found.records]
        problems += found.problems
    return Found(find_undelivered(store, candidates), problems)


def _candidate_of(record: QueueRecord) -> Candidate:
    """Return a delayed message as a candidate. The third field of its unit is the due time, epoch ms."""
    message = record.message
    topic, queue_id = real_place(message)
    is_retry = topic.startswith(RETRY_PREFIX)
    row = PendingMessage(
        kind=RETRY if is_retry else DELAY,
        topic=topic,
        queue_id=queue_id,
        keys=tuple(message.keys),
        uniq_key=message.uniq_key,
        due_timestamp=record.tags_code,
        check_times=None,
        group=topic.removeprefix(RETRY_PREFIX) if is_retry else None,
        queue_offset=record.queue_offset if is_retry else None,
        popped_topic=None,
        born_timestamp=message.born_timestamp,
        phy_offset=message.phy_offset,
    )
    return Candidate(row, targets_of(message), message.reconsume_times, record.tags_code)
