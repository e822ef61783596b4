"""Policy "complete": queues and index are completed from the log after any damage."""

import dataclasses
import random

import pytest
from reference.commit_log import CommitLog, read_files
from reference.message_store import make_store
from reference.record import PREPARED, ROLLBACK
from reference.recovery import Broker
from support import damages
from support.recovered import (
    CONFIG,
    CQ_FILE,
    FILE,
    ITEMS,
    REFUSED,
    SIZES,
    SLOTS,
    assert_complete,
    complete_store_of,
    contents,
    damage,
    everything,
    index_items,
    some_messages,
)

from rocketstore import StoreError, recover
from rocketstore.recovery.complete import complete_store
from rocketstore.survey.survey import survey_store


@pytest.mark.parametrize(
    "mode", [pytest.param(damages.clean, marks=pytest.mark.slow), damages.unclean], ids=lambda mode: mode.__name__
)
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_queues_and_index_are_completed_from_the_log(store, seed, what, mode):
    """Corners 43, 44 and 76."""
    root = store()
    damage(root, random.Random(f"{seed} {what.__name__}"), what, mode)
    before = everything(root)
    try:
        recover(root, config=CONFIG)
    except StoreError:
        assert what.__name__ in REFUSED
        assert everything(root) == before | {root / "lock": b"lock"}
        return
    assert not (root / "abort").exists()
    assert recover(root, config=CONFIG).actions == ()
    if what is not damages.missing_first_log_files and what.__name__ not in REFUSED:
        assert_complete(root)


@pytest.mark.slow
@pytest.mark.parametrize("what", damages.DAMAGES, ids=lambda what: what.__name__)
def test_a_broker_s_next_start_keeps_all_that_was_completed(store, seed, what):
    root = store()
    damage(root, random.Random(f"{seed} {what.__name__}"), what, damages.unclean)
    try:
        end = recover(root, config=CONFIG).max_phy_offset
    except StoreError:
        assert what.__name__ in REFUSED
        return
    before = contents(root)
    for mode in (damages.clean, damages.unclean):
        mode(root, None)
        index = index_items(root)
        assert Broker(root, SIZES, "5.5.1").restart()
        if what.__name__ not in REFUSED:  # whose checkpoint may lead before the damage
            assert {name: data for name, data in contents(root).items() if not name.startswith("index")} == {
                name: data for name, data in before.items() if not name.startswith("index")
            }
            log = CommitLog(read_files(root / "commitlog"))
            assert end == log.max_offset or (end % FILE == 0 and 0 < end - log.max_offset < FILE)  # a blank
        if mode is damages.clean:
            assert index_items(root) == index


def test_after_a_clean_stop_records_behind_the_queues_are_dispatched(store):
    """Corner 91."""
    root = store()
    damages.zeroed_newest_unit(root, None)
    report = complete_store(survey_store(root, CONFIG), CONFIG)
    assert report.actions[-1].what == "dispatch"
    assert (root / "abort").exists()
    assert_complete(root)


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
def test_last_records_without_a_unit_or_an_item_are_not_dispatched_again(tmp_path, seed, complete):
    rows = some_messages(random.Random(seed), 20)
    rows[17]["properties"] = {"TAGS": "A"}
    rows[18]["sys_flag"] = PREPARED
    rows[19]["sys_flag"] = ROLLBACK
    make_store(
        tmp_path, rows, file_size=FILE, cq_file_size=CQ_FILE, hash_slot_num=SLOTS, index_num=ITEMS, index_tags=False
    )
    config = dataclasses.replace(CONFIG, compat="5.3")
    assert complete(tmp_path, config=config).actions == ()
