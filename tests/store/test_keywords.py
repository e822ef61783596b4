"""Keywords are the same in every function, and a wrong one names the right one."""

import pytest

import rocketstore
from rocketstore import Message, StoreConfig


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("keywords") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as writer:
        writer.put_messages([Message("A", b"x", keys=["k"], tags="t") for _ in range(3)])
    with rocketstore.open(root) as reader:
        yield reader


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        ("scan", "topics", "topic"),
        ("scan", "tags", "tag"),
        ("scan", "keys", "key"),
        ("scan", "begin_timestamp", "since"),
        ("scan", "end_timestamp", "until"),
        ("scan", "begin_time", "since"),
        ("scan", "Limit", "limit"),
        ("scan", "queue_id", "queue_ids"),
        ("dataset", "keys", "key"),
        ("query_messages", "max_num", "limit"),
        ("query_messages", "start", "since"),
        ("query_message", "end", "until"),
        ("query_message_by_tag", "tags", "tag"),
        ("get_message", "tags", "tag"),
        ("pending", "topics", "topic"),
        ("dead_letters", "consumer_group", "group"),
        ("consumer_lag", "groups", "group"),
    ],
)
def test_a_wrong_keyword_names_the_right_one(store, function, wrong, right):
    with pytest.raises(TypeError, match=rf"{function}\(\) has no parameter '{wrong}': did you mean {right}=\?$"):
        getattr(store, function)(**{wrong: "A"})


def test_functions_of_the_package_and_of_a_topic_name_it_too(store, tmp_path):
    for call in (
        lambda: rocketstore.rebuild(tmp_path, topics="A"),
        lambda: rocketstore.scan_polars(tmp_path, topics="A"),
    ):
        with pytest.raises(TypeError, match=r"did you mean topic=\?"):
            call()
    for call in (lambda: store["A"].scan(keys="k"), lambda: store.commit_log.scan(keys="k")):
        with pytest.raises(TypeError, match=r"did you mean key=\?"):
            call()
    with pytest.raises(TypeError, match=r"did you mean limit=\?"):
        store["A"].query("k", max_num=5)


def test_a_keyword_that_is_like_no_other_gives_the_parameters(store):
    with pytest.raises(TypeError, match=r"'zzz': the parameters are group, topic, log_bytes$"):
        store.consumer_lag(zzz="g")


def test_a_warning_names_the_line_of_the_call(store):
    for call in (
        lambda: store.scan(topic="Missing"),
        lambda: store.query_message("Missing", "k"),
        lambda: store.query_message_by_unique_key("Missing", "k"),
        lambda: store.query_messages("Missing", ["k"]),
        lambda: store.pending(topic="Missing"),
        lambda: store.dead_letters(topic="Missing"),
    ):
        with pytest.warns(UserWarning, match="Missing") as found:
            call()
        assert found[0].filename == __file__
