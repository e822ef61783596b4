"""A store against a dictionary: whatever is put, killed, expired and opened again, both answer the same."""

import shutil
import tempfile
from pathlib import Path

import pytest
from support.crash_writer import BATCH_QUEUES, BATCH_TOPIC, QUEUES, make_topics, message, plan, store_config
from support.sound_store import check_files, only_message

import rocketstore
from rocketstore import Message

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

hypothesis = pytest.importorskip("hypothesis", reason="needs hypothesis, from the group 'test'")
stateful = pytest.importorskip("hypothesis.stateful")
st = hypothesis.strategies
rule, precondition = stateful.rule, stateful.precondition

TOPICS = st.sampled_from(sorted(QUEUES))
FEW = st.integers(1, 12)
BEGIN = 1_700_000_000_000


class Entry:
    """A message as the model has it."""

    def __init__(self, ident, topic, queue_id, queue_offset, phy_offset, size, store_timestamp):
        self.ident, self.plan = ident, plan(ident)
        self.topic, self.queue_id, self.queue_offset = topic, int(queue_id), int(queue_offset)
        self.phy_offset, self.size, self.store_timestamp = int(phy_offset), int(size), int(store_timestamp)


class StoreMachine(stateful.RuleBasedStateMachine):
    """The store, and of each queue the list of its messages from offset 0 on; what has expired is None."""

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="rocketstore-model-"))
        self.root = self.directory / "store"
        self.config = store_config("ASYNC_FLUSH")
        self.queues = {}
        self.turn = self.moves = 0
        self.clock = BEGIN

    @stateful.initialize()
    def make(self):
        make_topics(self.root)
        self.open()

    def open(self):
        self.store = rocketstore.open(self.root, "a", config=self.config)

    def teardown(self):
        if not hasattr(self, "store"):
            return
        self.store.close()
        check_files(self.root, self.config)
        shutil.rmtree(self.directory)

    # ---- writing -----------------------------------------------------------------------------------------------

    def idents(self, many, topic=None, queue_id=None):
        self.turn += 1
        self.clock += 1_000
        suffix = "" if topic is None else f"/{topic}/{queue_id}"
        return [f"{self.turn}.{n}{suffix}" for n in range(many)]

    def remember(self, ident, queue_id, queue_offset, phy_offset, size):
        planned = plan(ident)
        queue = self.queues.setdefault((planned.topic, int(queue_id)), [])
        assert planned.queue_id in (None, queue_id)
        assert queue_offset == len(queue), "a queue offset that is not the next one"
        queue.append(Entry(ident, planned.topic, queue_id, queue_offset, phy_offset, size, self.clock))

    def remember_all(self, idents, results):
        columns = (results.queue_ids, results.queue_offsets, results.phy_offsets, results.sizes)
        assert len(results) == len(idents)
        assert set(results.store_timestamps.tolist()) <= {self.clock}
        for row in zip(idents, *columns, strict=True):
            self.remember(*row)

    @rule()
    def put(self):
        (ident,) = self.idents(1)
        result = self.store.put_message(message(plan(ident)), store_timestamp=self.clock)
        assert result.store_timestamp == self.clock
        self.remember(ident, result.queue_id, result.queue_offset, result.phy_offset, result.size)

    @rule(many=FEW)
    def put_messages(self, many):
        idents = self.idents(many)
        messages = [message(plan(ident)) for ident in idents]
        self.remember_all(idents, self.store.put_messages(messages, store_timestamp=self.clock))

    @rule(many=st.integers(1, 4), topic=TOPICS)
    def put_batch(self, many, topic):
        idents = self.idents(many, topic, 0)
        batch = Message(topic, b"", queue_id=0)
        messages = [message(plan(ident)) for ident in idents]
        self.remember_all(idents, self.store.put_batch(batch, messages, store_timestamp=self.clock))

    @rule(many=st.integers(1, 4), queue_id=st.integers(0, BATCH_QUEUES - 1))
    def put_inner_batch(self, many, queue_id):
        idents = self.idents(many, BATCH_TOPIC, queue_id)
        batch = Message.batch(BATCH_TOPIC, [message(plan(ident)) for ident in idents])
        batch.queue_id = queue_id
        result = self.store.put_message(batch, store_timestamp=self.clock)
        for number, ident in enumerate(idents):
            self.remember(ident, queue_id, result.queue_offset + number, result.phy_offset, result.size)

    @rule()
    def flush(self):
        self.store.flush()

    # ---- ends and beginnings -----------------------------------------------------------------------------------

    @rule()
    def close_and_reopen(self):
        self.store.close()
        assert not (self.root / "abort").exists()
        check_files(self.root, self.config)
        self.open()

    @rule()
    def kill_and_reopen(self):
        """The bytes in the files at this moment are those that a killed process leaves."""
        self.moves += 1
        killed = self.directory / f"killed{self.moves}"
        shutil.copytree(self.root, killed)
        self.store.close()
        self.root = killed
        self.open()

    @precondition(lambda self: self.queues)
    @rule(share=st.floats(0, 1))
    def expire(self, share):
        """Files of the log that end before an offset go, and with them their messages. The last file stays."""
        end = self.store.commit_log.max_phy_offset
        before = self.store.commit_log.min_phy_offset
        would = self.store.delete_expired_files(before_phy_offset=int(share * end), dry_run=True)
        assert would.min_phy_offset >= self.store.commit_log.min_phy_offset
        assert self.store.delete_expired_files(before_phy_offset=int(share * end)) == would
        assert self.store.commit_log.min_phy_offset == would.min_phy_offset
        least = self.store.commit_log.min_phy_offset
        assert least <= max(int(share * end), before)
        for queue in self.queues.values():
            queue[:] = [entry if entry is not None and entry.phy_offset >= least else None for entry in queue]

    # ---- reading -----------------------------------------------------------------------------------------------

    def entries(self):
        return [entry for queue in self.queues.values() for entry in queue if entry is not None]

    @rule(number=st.integers(0, 10**6))
    def get(self, number):
        for (topic, queue_id), queue in self.queues.items():
            offset = number % (len(queue) + 1)
            expected = [entry for entry in queue[offset : offset + 5] if entry is not None]
            if offset == len(queue) or queue[offset] is None:
                assert len(self.store.get_message(topic, queue_id, offset, 5).messages) == 0
                continue
            got = self.store.get_message(topic, queue_id, offset, 5).messages
            assert len(got) > 0
            for entry in expected[:1]:
                check_entry(entry, only_message(got[0], entry))
            if topic != BATCH_TOPIC:
                assert got.queue_offset.tolist() == [entry.queue_offset for entry in expected]

    @precondition(lambda self: self.entries())
    @rule(number=st.integers(0, 10**6))
    def query_by_key(self, number):
        entries = self.entries()
        keys = entries[number % len(entries)].plan.keys
        topic = entries[number % len(entries)].topic
        for key in keys if topic != BATCH_TOPIC else ():
            expected = {entry.phy_offset for entry in entries if entry.topic == topic and key in entry.plan.keys}
            found = self.store.query_message(topic, key, 1_000).messages.phy_offset.tolist()
            assert found == sorted(expected, reverse=True)
        assert len(self.store.query_message(topic, f"no such key {number}").messages) == 0

    @rule(number=st.integers(0, 10**6))
    def query_by_time(self, number):
        for (topic, queue_id), queue in self.queues.items():
            known = [entry for entry in queue if entry is not None]
            if not known or topic == BATCH_TOPIC:
                continue
            time = known[number % len(known)].store_timestamp
            first = next(entry for entry in known if entry.store_timestamp >= time)
            offset = self.store.consume_queue(topic, queue_id).get_offset_by_time(time)
            assert offset == first.queue_offset

    @rule()
    def scan(self):
        expected = sorted({entry.phy_offset for entry in self.entries()})
        assert [offset for batch in self.store.scan() for offset in batch.phy_offset.tolist()] == expected

    @rule()
    def read_by_another(self):
        """A reader that is opened beside the writer sees all messages."""
        self.store.flush()
        with rocketstore.open(self.root, config=self.config) as reader:
            for (topic, queue_id), queue in self.queues.items():
                assert reader.consume_queue(topic, queue_id).max_queue_offset == len(queue)

    @stateful.invariant()
    def queues_end_where_the_model_does(self):
        for (topic, queue_id), queue in self.queues.items():
            assert self.store.consume_queue(topic, queue_id).max_queue_offset == len(queue)


def check_entry(entry, found):
    assert (found.topic, found.queue_id, found.queue_offset) == (entry.topic, entry.queue_id, entry.queue_offset)
    assert found.body == entry.plan.body
    assert found.store_timestamp == entry.store_timestamp


def run_machine(number, examples, steps):
    """The same seed gives the same sequences."""
    options = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}
    stateful.run_state_machine_as_test(
        hypothesis.seed(number)(StoreMachine),
        settings=hypothesis.settings(max_examples=examples, stateful_step_count=steps, **options),
    )


def test_a_store_answers_as_a_dictionary_does(seed):
    run_machine(seed, 10, 25)


@pytest.mark.slow
def test_a_store_answers_as_a_dictionary_does_for_long(seed):
    run_machine(seed, 60, 60)
