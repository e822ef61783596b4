"""RocketMQ does itself what the tests of its odd restarts say it does."""

import shutil

import pytest
import store.test_rocketmq_behaviour as behaviour
from store.test_rocketmq_behaviour import (  # noqa: F401 - they are run here too
    test_a_broker_does_not_begin_recovery_in_a_file_of_only_a_blank_but_passes_over_it,
    test_a_broker_rebuilds_queues_from_the_last_ten_files_of_the_log_and_rocketstore_from_all,
    test_a_clean_restart_of_a_broker_drops_a_blank_that_nothing_follows,
    test_a_file_of_zeros_that_was_made_ahead_is_removed,
    test_a_lost_unit_comes_back,
    test_a_message_of_a_negative_queue_offset_is_in_no_queue_of_a_broker,
    test_a_queue_of_only_fillers_keeps_a_broker_from_rebuilding_the_others,
    test_a_restart_of_a_broker_cuts_the_log_at_a_record_that_it_cannot_read,
    test_after_a_clean_stop_a_broker_loses_a_message_whose_unit_was_the_newest,
    test_an_empty_last_log_file_goes_and_one_in_the_middle_is_refused,
    test_nothing_revives_behind_what_rocketstore_writes,
    test_old_records_revive_behind_one_of_the_same_size_after_a_broker_cut_them_off,
    test_queues_of_a_log_without_its_beginning_are_rebuilt_with_fillers,
    test_without_its_log_a_broker_destroys_the_queues_and_begins_at_0_again,
)
from support.puts import files_under

from interop import stores

pytestmark = pytest.mark.interop
OPTIONS = stores.options(**behaviour.BROKER_SIZES)


@pytest.fixture(autouse=True)
def java_restarts_too(java_of, monkeypatch):
    """A copy of each store that is left as a broker leaves it is left by RocketMQ's own start."""
    java, as_broker = java_of("5.5.1"), behaviour.as_broker

    def as_both(root):
        copy = shutil.copytree(root, root.with_name("java"))
        answer = java.recover(copy, OPTIONS, start=False)
        end = as_broker(root)
        assert (answer["loaded"], answer["maxOffset"]) == (True, end)
        assert files_under(root) == files_under(copy)
        shutil.rmtree(copy)
        return end

    monkeypatch.setattr(behaviour, "as_broker", as_both)
