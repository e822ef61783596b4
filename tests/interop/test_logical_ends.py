"""The ends of log and queues of stores that RocketMQ restarted and stopped, against its own next start."""

import random
import shutil

import pytest
from support import damages

import rocketstore
from interop.test_recovery import ONE_INDEX_FILE, batch_topics, config_of
from rocketstore.limits import LONG_MAX

pytestmark = pytest.mark.interop

CASES = [
    ("5.5.1", "basic"),
    ("5.5.1", "rich"),
    ("5.5.1", "batch"),
    ("5.5.1", "lmq"),
    ("5.3.3", "basic"),
    ("5.3.3", "batch"),
    ("4.9.8", "basic"),
]
KEPT = [what for what in damages.OF_LOG + damages.OF_QUEUES if what is not damages.missing_log]


@pytest.mark.parametrize(("release", "profile"), CASES)
def test_log_and_queues_end_where_rocketmq_s_next_start_ends_them(store_of, tmp_path, seed, release, profile):
    store = store_of(release, profile, **ONE_INDEX_FILE)
    rng, looked_at = random.Random(f"{seed} {release} {profile}"), 0
    for what in rng.sample(KEPT, 12):
        root = shutil.copytree(store.root, tmp_path / what.__name__)
        if store.options["batchTopics"]:
            batch_topics(root, store.options["batchTopics"])
        what(root, rng)
        damages.clean(root, rng)
        if not store.java.recover(root, store.options)["loaded"]:
            continue
        answer = store.java.recover(shutil.copytree(root, tmp_path / "next"), store.options, start=False)
        shutil.rmtree(tmp_path / "next")
        assert answer["loaded"]
        compare(root, config_of(store, release), answer, what)
        looked_at += 1
        shutil.rmtree(root)
    assert looked_at > 3


def compare(root, config, answer, what):
    """Records behind RocketMQ's end are shown: it wrote none since it cut the log, so that nothing proves the cut.

    Without such records log and queues end where RocketMQ ends them.
    """
    with rocketstore.open(root, config=config) as ours, rocketstore.open(root, config=config, leftovers=True) as all_of:
        log = ours.commit_log
        has_later = log.reader.find_later(answer["maxOffset"], LONG_MAX) is not None
        assert phy_offsets(ours) >= phy_offsets(all_of), what  # which may take the last record for a torn one
        # A blank behind which no file is ends the log at its beginning; here it counts as the rest of its file.
        ends = (answer["maxOffset"], log.file_run.files[-1].end_offset)
        assert log.max_phy_offset in ends or has_later, what
        assert log.max_phy_offset >= answer["maxOffset"], what
        for queue in answer["queues"]:
            if queue["max"] > 0 and queue["maxPhysicOffset"] > 0:
                found = ours.consume_queue(queue["topic"], queue["queueId"])
                # The zeros at the beginning of a queue's last file count as a unit for RocketMQ alone.
                is_phantom = found._end_finder.find_end() % found.mapped_file_size == 0
                ends = (queue["max"], queue["max"] - is_phantom)
                assert found.max_queue_offset in ends or has_later, (what, queue)
                assert found.max_queue_offset >= min(ends), (what, queue)


def phy_offsets(store):
    return {at for batch in store.scan(columns=["phy_offset"], on_corrupt="skip") for at in batch.phy_offset.tolist()}
