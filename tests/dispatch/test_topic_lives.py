"""Records of deleted topics and of earlier lives of topics."""

import json

import numpy as np
import pytest

from rocketstore import StoreConfig
from rocketstore.dispatch.topic_lives import KnownTopics, Restarts, TopicLives, topic_notes
from rocketstore.kernels.queue_id import QueueId
from rocketstore.survey.places import StorePlaces

QUEUE = QueueId("T", 0)


def earlier(offsets, counts=None, *, parts=1):
    """The places of the records of earlier lives in a queue that has these queue offsets."""
    columns = 100 + np.arange(len(offsets)) * 10, np.array(offsets, np.int64), np.array(counts or [1] * len(offsets))
    restarts = Restarts()
    for rows in np.array_split(np.arange(len(offsets)), parts):
        restarts.add(QUEUE, *(column[rows] for column in columns))
        restarts.add(QUEUE, *(column[rows] for column in columns))  # a second time they are ignored
    restarts.finish()
    return np.flatnonzero(restarts.are_earlier(QUEUE, *columns[:2])).tolist()


CASES = {
    "one life": ([0, 1, 2, 3], []),
    "a queue that begins late, with gaps": ([7, 8, 20, 21], []),
    "made again": ([0, 1, 2, 0, 1], [0, 1, 2]),
    "made again with more messages": ([0, 1, 0, 1, 2, 3], [0, 1]),
    "made again with one message": ([0, 1, 2, 0], [0, 1, 2]),
    "one message in each life": ([0, 0, 0], [0, 1]),
    "made again twice": ([0, 1, 2, 0, 1, 0, 1, 2, 3], [0, 1, 2, 3, 4]),
    "offsets given again after a crash": ([0, 1, 2, 3, 4, 3, 4, 5], [3, 4]),
    "given again twice, higher": ([0, 1, 2, 3, 1, 2, 3, 4, 3, 4], [1, 2, 3, 6, 7]),
    "the last offset given again": ([0, 1, 2, 2, 3], [2]),
    "the last offset given again to the last record": ([0, 1, 2, 2], [2]),
    "the last two offsets given again": ([0, 1, 2, 3, 2], [2, 3]),
    "one damaged offset that is too low": ([0, 1, 2, 0, 4, 5], []),
    "one damaged offset that is too high": ([0, 1, 9, 3, 4], []),
    "a last offset that is far too low": ([0, 1, 2, 3, 1], []),
    "no offset": ([0, 1, -1, 2, -5], []),
    "an offset that no queue has": ([0, 1, 2**62, 3], []),
}


@pytest.mark.parametrize("parts", [1, 2, 9])
@pytest.mark.parametrize("name", CASES)
def test_records_belong_to_an_earlier_life_if_offsets_began_again(name, parts):
    offsets, expected = CASES[name]
    assert earlier(offsets, parts=parts) == expected


def test_batches_take_as_many_offsets_as_they_have_messages():
    assert earlier([0, 5, 0, 7], [5, 2, 7, 1]) == [0, 1]


def known(root, declared, *, is_stopped=True, queues=("Kept/0",)):
    (root / "config").mkdir()
    table = {topic: {"topicName": topic} for topic in declared}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    for queue in queues:
        (root / "consumequeue" / queue).mkdir(parents=True)
    return KnownTopics.of(StorePlaces.of(root), StoreConfig(), is_stopped=is_stopped)


def test_a_topic_is_deleted_if_it_is_neither_declared_nor_has_a_queue(tmp_path):
    topics = known(tmp_path, ["Kept", "Lost"], queues=("Kept/0", "Undeclared/3"))
    assert topics.was_deleted("Gone")
    for topic in ("Kept", "Lost", "Undeclared", "%LMQ%a", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        assert not topics.was_deleted(topic)


@pytest.mark.parametrize(
    "doubt", [{"is_stopped": False}, {"declared": []}, {"queues": ()}], ids=["crash", "no topics.json", "no queues"]
)
def test_in_doubt_no_topic_is_deleted(tmp_path, doubt):
    assert not known(tmp_path, **{"declared": ["Kept"]} | doubt).was_deleted("Gone")


def test_a_damaged_topics_json_says_nothing_even_with_a_good_bak(tmp_path):
    known(tmp_path, ["Kept"])
    path = tmp_path / "config" / "topics.json"
    path.with_name("topics.json.bak").write_bytes(path.read_bytes())
    path.write_text("{")
    assert not KnownTopics.of(StorePlaces.of(tmp_path), StoreConfig(), is_stopped=True).was_deleted("Gone")


def test_a_queue_without_which_the_topic_was_made_again_is_left_out(tmp_path):
    lives = TopicLives(known(tmp_path, ["T"], queues=("T/0",)))
    lives.add(QUEUE, np.array([0, 100, 300]), np.array([0, 1, 0]), np.ones(3, int))
    lives.add(QueueId("T", 1), np.array([50]), np.array([0]), np.ones(1, int))
    lives.add(QueueId("T", 2), np.array([60, 400]), np.array([0, 1]), np.ones(2, int))
    assert lives.finish()
    assert lives.is_queue_left_out(QueueId("T", 1))
    assert not lives.is_queue_left_out(QueueId("T", 2))  # it has a newer record: its directory was lost


# Records of a topic in the order of the log: (queue id, queue offset). Queue 9 has no directory, the others have one.
EVIDENCE = {
    "created again, and a queue began again at 0": ([(9, 0), (0, 0), (0, 0)], "left out"),
    "created again, and no other queue has messages of both lives": ([(9, 0), (2, 0), (2, 1)], "doubtful"),
    "created again, and a queue that began again has no message": ([(9, 0), (9, 1)], "doubtful"),
    "a queue that is older than the last record": ([(0, 0), (9, 0), (0, 1)], "kept"),
    "a queue that is older than the log": ([(9, 0), (0, 7), (0, 8)], "kept"),
    "a newer record than the last creation": ([(0, 0), (0, 0), (9, 0)], "kept"),
    "the last offsets of another queue assigned again": ([(0, 0), (0, 1), (9, 0), (0, 1), (0, 2)], "kept"),
    "a queue began again at 0, but another one did not": ([(0, 0), (1, 0), (9, 0), (0, 0), (1, 1)], "doubtful"),
    "a queue began again, and then its last offset": ([(0, 0), (9, 0), (0, 0), (0, 1), (0, 1), (0, 2)], "left out"),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_queue_without_a_directory_is_left_out_only_with_proof(tmp_path, name):
    records, expected = EVIDENCE[name]
    lives = TopicLives(known(tmp_path, ["T"], queues=("T/0", "T/1", "T/2")))
    for place, (queue_id, offset) in enumerate(records):
        lives.add(QueueId("T", queue_id), np.array([100 * place]), np.array([offset]), np.ones(1, int))
    lives.finish()
    queue = QueueId("T", 9)
    assert lives.is_queue_left_out(queue) == (expected == "left out")
    assert lives.result({}).doubtful == ((queue,) if expected == "doubtful" else ())


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "%LMQ%light", "a/b"], ids=["broker", "light", "no name"])
def test_a_topic_that_no_user_deletes_or_that_has_no_directory_is_not_in_doubt(tmp_path, topic):
    lives = TopicLives(known(tmp_path, ["Kept", topic]))
    lives.add(QueueId(topic, 1), np.array([0]), np.array([0]), np.ones(1, int))
    lives.finish()
    assert lives.result({}).doubtful == ()


@pytest.mark.parametrize("doubt", [{"is_stopped": False}, {"queues": ()}], ids=["crash", "no queues"])
def test_queues_are_not_in_doubt_where_a_missing_directory_shows_nothing(tmp_path, doubt):
    lives = TopicLives(known(tmp_path, ["T"], **{"queues": ("T/2",)} | doubt))
    lives.add(QUEUE, np.array([0]), np.array([0]), np.ones(1, int))
    lives.finish()
    assert lives.result({}).doubtful == ()


def test_notes_name_some_queues_and_the_number_of_the_others():
    messages = {QueueId("T", i): 2 for i in range(12)}
    (note,) = topic_notes(messages, (), ())
    assert note.startswith("24 messages of deleted topics left out (T/0: 2, ")
    assert note.endswith(" and 2 more); --deleted brings them back")
    assert topic_notes({}, ["A", "B"], ())[0].startswith("kept 2 topics (A, B) that topics.json lacks")
    assert topic_notes({}, (), [*messages])[0].startswith("kept 12 queues without a directory (T/0, T/1, ")
