"""rebuild and recover of a store with topics that were deleted."""

import shutil

import pytest
from support.deleted import LIVE, OLD, bodies, delete_topic, put, store_with_deleted_topic

import rocketstore
from rocketstore import StoreConfig, rebuild, recover, verify

OTHER = {("Other", 0): [(b"other", 3)]}
LEFT_OUT = {("Orders", 0): OLD, ("Orders", 1): OLD}


@pytest.fixture(params=[False, True], ids=["deleted", "made again"])
def made_again(request):
    return request.param


@pytest.fixture
def store(tmp_path, made_again):
    return store_with_deleted_topic(tmp_path / "store", is_made_again=made_again)


@pytest.fixture
def expected(made_again):
    return OTHER | ({("Orders", 0): [(b"live", LIVE)]} if made_again else {})


@pytest.mark.parametrize("options", [{}, {"topic": "Orders"}, {"consume_queue": False}], ids=str)
def test_rebuild_makes_no_units_of_deleted_topics(store, made_again, expected, options):
    report = rebuild(store, **options)
    assert bodies(store) == expected
    is_recovered = made_again and options == {"consume_queue": False}  # queue 0 is there and stays
    assert report.deleted == ({("Orders", 1): OLD} if is_recovered else LEFT_OUT)
    assert report.undeclared == ()
    assert [finding for finding in verify(store).findings if finding.severity != "info"] == []


def test_the_new_queues_of_a_topic_do_not_make_others_look_deleted(store, made_again):
    """Before the rebuild no topic had queues, which says nothing about any topic."""
    shutil.rmtree(store / "consumequeue")
    report = rebuild(store, topic="Other")
    assert report.deleted == ({("Orders", 0): OLD} if made_again else {})
    assert (report.doubtful, {*bodies(store)}) == ((), {("Other", 0), ("Orders", 0), ("Orders", 1)})


def test_rebuild_elsewhere_leaves_out_the_same(store, expected, tmp_path):
    assert rebuild(store, out=tmp_path / "out").deleted == LEFT_OUT
    shutil.rmtree(store / "consumequeue")
    (tmp_path / "out" / "consumequeue").rename(store / "consumequeue")
    assert bodies(store) == expected


def test_deleted_topics_are_brought_back(store, made_again):
    report = rebuild(store, deleted=True)
    assert report.deleted == {}
    found = bodies(store)
    assert found["Orders", 1] == [(b"deleted", OLD)]
    assert found["Orders", 0][0] == (b"deleted", OLD)  # of a topic that was made again, the earlier messages are first


def test_recover_after_a_clean_stop_brings_back_no_topic(store, made_again, expected):
    report = recover(store)
    assert report.actions == ()
    assert report.deleted == ({("Orders", 1): OLD} if made_again else LEFT_OUT)
    assert bodies(store) == expected
    assert recover(store, deleted=True).deleted == {}
    assert bodies(store)["Orders", 1] == [(b"deleted", OLD)]


def test_opening_for_writing_after_a_clean_stop_brings_back_no_topic(store, expected):
    rocketstore.open(store, "a").close()
    assert bodies(store) == expected
    shutil.rmtree(store / "index")
    rocketstore.open(store, "a").close()
    assert bodies(store) == expected
    with rocketstore.open(store) as opened:
        found = opened.query_messages("Orders", "deleted-1")
        assert len(found.messages) == 2  # the index has the whole log


@pytest.mark.parametrize("made_again", [False], indirect=True)
@pytest.mark.parametrize("function", [rebuild, recover])
def test_after_a_crash_a_topic_is_kept_and_named(store, function):
    (store / "abort").touch()
    report = function(store)
    assert (report.deleted, report.undeclared) == ({}, ("Orders",))
    assert bodies(store)["Orders", 0] == [(b"deleted", OLD)]


@pytest.mark.parametrize("made_again", [False], indirect=True)
def test_a_topic_is_kept_and_named_if_all_queues_are_missing(store):
    shutil.rmtree(store / "consumequeue")
    assert rebuild(store).undeclared == ("Orders",)
    assert bodies(store)["Orders", 0] == [(b"deleted", OLD)]


@pytest.mark.parametrize("made_again", [True], indirect=True)
def test_recover_makes_a_lost_queue_of_the_live_messages(store):
    shutil.rmtree(store / "consumequeue" / "Orders")
    report = recover(store)
    assert bodies(store)["Orders", 0] == [(b"live", LIVE)]
    assert report.deleted == {("Orders", 0): OLD}


@pytest.mark.parametrize("made_again", [True], indirect=True)
def test_after_a_second_deletion_only_the_last_life_is_left(store):
    delete_topic(store, "Orders")
    put(store, "Orders", b"last", 1, [0])
    assert rebuild(store).deleted == {("Orders", 0): OLD + LIVE, ("Orders", 1): OLD}
    assert bodies(store) == OTHER | {("Orders", 0): [(b"last", 1)]}
    assert {finding.kind for finding in verify(store).findings} == {"topic-deleted"}


@pytest.fixture
def doubtful_store(tmp_path):
    """Orders was deleted, and made again with queue 2 alone. In its first life, it had queues 0 and 1 alone."""
    store = store_with_deleted_topic(tmp_path / "store", is_made_again=False)
    put(store, "Orders", b"live", LIVE, [2])
    return store


@pytest.mark.parametrize("function", [rebuild, recover])
def test_queues_that_may_be_of_a_deleted_topic_are_kept_and_named(doubtful_store, function):
    """No file shows whether the topic was deleted, or the directories of its queues 0 and 1 were lost."""
    report = function(doubtful_store)
    assert (report.deleted, report.undeclared, report.doubtful) == ({}, (), (("Orders", 0), ("Orders", 1)))
    kept = {("Orders", queue_id): [(b"deleted", OLD)] for queue_id in (0, 1)}
    assert bodies(doubtful_store) == OTHER | kept | {("Orders", 2): [(b"live", LIVE)]}
    assert function(doubtful_store).doubtful == ()


def test_opening_for_writing_names_the_queues_in_doubt_that_it_builds(doubtful_store):
    with rocketstore.open(doubtful_store, "a") as store:
        assert store.opening_notes == ()
    assert ("Orders", 0) not in bodies(doubtful_store)  # after a clean stop, nobody looks for missing queues
    shutil.rmtree(doubtful_store / "index")
    with rocketstore.open(doubtful_store, "a") as store:
        (note,) = (note for note in store.opening_notes if "kept" in note)
    assert note.startswith("kept 2 queues without a directory (Orders/0, Orders/1)")
    assert bodies(doubtful_store)["Orders", 1] == [(b"deleted", OLD)]


def test_verify_says_that_a_missing_queue_may_be_of_a_deleted_topic(doubtful_store):
    findings = verify(doubtful_store).findings
    assert [finding.kind for finding in findings] == ["queue-missing"] * 2
    assert all(
        finding.detail.endswith("lost, or the topic was deleted and created again without this queue")
        for finding in findings
    )


def test_a_lost_queue_of_a_topic_that_was_not_made_again_is_built_without_doubt(tmp_path):
    put(tmp_path / "store", "Orders", b"kept", OLD, [0, 1], StoreConfig.small())
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "Orders" / "1")
    report = rebuild(tmp_path / "store")
    assert (report.deleted, report.doubtful) == ({}, ())
    assert bodies(tmp_path / "store")["Orders", 1] == [(b"kept", OLD)]
