"""config/*.json: what a broker writes, what fastjson allows, files that are damaged, and their repair."""

import contextlib
import itertools
import json
import os
import random
import time

import pytest
from support.broker_tables import check, extend_topics, read_topics, repair
from support.stores import GOLDEN, extract
from support.waiting import replace_sleep

from rocketstore import BrokerConfig, StoreError
from rocketstore.disk.small_file import read_small_file
from rocketstore.state import config_checks, config_values, json_tables
from rocketstore.state.broker_tables import ConfigProblem
from rocketstore.state.config_json import parse_json
from rocketstore.state.config_values import SubscriptionGroupConfig, TopicConfig

MAIN_FILES = [*config_values.TYPED_FILES, *config_checks.OTHER_FILES]
GOOD = b'{"topicConfigTable":{"T":{"topicName":"T"}}}'
OLDER = b'{"topicConfigTable":{"Older":{"topicName":"Older"}}}'
BAD = {
    "empty": b"",
    "blank": b" \n",
    "cut": GOOD[:-1],
    "zeros": bytes(100),
    "not an object": b"[1,2]",
    "junk behind": GOOD + b"}",
    "two objects": GOOD + GOOD,
    "utf-16": GOOD.decode().encode("utf-16"),
    "objects in objects": b'{"a":' * 200_000,
    "objects in objects, closed": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lists in lists": b'{"a":' + b"[" * 200_000,
    "strings that do not end": b'{"' + b'\\"' * 200_000,
    "a number that is none": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "the table is a list": b'{"topicConfigTable":[]}',
    "the table is a text": b'{"topicConfigTable":"T"}',
    "a topic is a number": b'{"topicConfigTable":{"T":1}}',
    "a number is no int": b'{"topicConfigTable":{"T":{"readQueueNums":2147483648}}}',
    "a topic is null": b'{"topicConfigTable":{"T":null}}',
    "the table is null": b'{"topicConfigTable":null}',
    "the version is null": b'{"dataVersion":null,"topicConfigTable":{"T":{}}}',
    "attributes are a list": b'{"topicConfigTable":{"T":{"attributes":[]}}}',
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(json_tables, "PAUSE", 0)
    monkeypatch.setattr(json_tables, "LIVE_SECONDS", 0)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path


@pytest.fixture
def topics(store):
    return store / "config" / "topics.json"


@pytest.fixture
def golden(tmp_path):
    extract(GOLDEN / "broker-5.5.0.tar.xz", tmp_path, lambda name: name.startswith("broker-5.5.0/config/"))
    return tmp_path / "broker-5.5.0"


def bak(path):
    return path.with_name(path.name + ".bak")


def tree(directory):
    """Name, bytes and mtime of every file."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def consumer_offsets(store, text):
    (store / "config" / "consumerOffset.json").write_text(text)
    return BrokerConfig.open(store)


def test_a_brokers_own_configuration_is_read(golden):
    config = BrokerConfig.open(golden)
    assert config.problems == []
    assert len(config.topics) == 17
    assert config.topics["LabTopic"] == TopicConfig("LabTopic", 4, 4, 6)
    assert config.topics["lab"] == TopicConfig("lab", 1, 1, 7)
    assert config.topics["SCHEDULE_TOPIC_XXXX"].write_queue_nums == 18
    assert config.subscription_groups["SELF_TEST_C_GROUP"] == SubscriptionGroupConfig("SELF_TEST_C_GROUP")
    assert config.consumer_offsets == {
        "CID_RMQ_SYS_TRANS": {"RMQ_SYS_TRANS_HALF_TOPIC": {0: 4}, "RMQ_SYS_TRANS_OP_HALF_TOPIC": {0: 1}}
    }
    assert config.delay_offsets == {1: 18, 2: 22}
    assert config.others["consumerFilter.json"] == {"filterDataByTopic": {}}
    assert config.others["consumerOrderInfo.json"]["orderedConsumptionLevel"] == "QUEUE"
    assert config.others["timermetrics"]["timingCount"] == {}
    assert config.others["transactionMetrics"]["transactionCount"]["LabTopic"]["count"] == 0
    assert config.others["lmqConsumerOffset.json"] == {}


def test_every_topic_and_group_has_the_name_it_is_found_by(golden):
    config = BrokerConfig.open(golden)
    assert all(topic.topic_name == name for name, topic in config.topics.items())
    assert all(group.group_name == name for name, group in config.subscription_groups.items())


def test_reading_and_checking_change_nothing(golden):
    before = tree(golden / "config")
    assert check(golden) == []
    assert repair(golden) == []
    assert tree(golden / "config") == before


def test_every_broker_file_cut_anywhere_is_read_from_its_bak(golden):
    for name in ("delayOffset.json", "consumerOffset.json"):
        path = golden / "config" / name
        whole = path.read_bytes()
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            config = BrokerConfig.open(golden)
            assert [problem.path for problem in config.problems] == [path]
            assert config.delay_offsets == {1: 18, 2: 22}
        path.write_bytes(whole)


def test_a_bit_flip_in_a_file_is_no_other_exception(golden, seed):
    rng = random.Random(seed)
    for name in MAIN_FILES:
        path = golden / "config" / name
        if not path.exists():
            continue
        whole = path.read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
            assert {problem.path for problem in check(golden)} <= {path}
        path.write_bytes(whole)


def test_a_store_without_a_broker_has_no_configuration_and_no_problem(tmp_path):
    config = BrokerConfig.open(tmp_path)
    empty = {name: {} for name in config_checks.OTHER_FILES}
    assert config == BrokerConfig({}, {}, {}, {}, empty, [])
    assert (check(tmp_path), repair(tmp_path)) == ([], [])
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_not_there_is_an_error(tmp_path):
    for call in (BrokerConfig.open, check, repair):
        with pytest.raises(FileNotFoundError):
            call(tmp_path / "none")


def test_every_member_of_a_topic_is_read(store, topics):
    topics.write_text(
        '{"dataVersion":{"counter":1},"topicConfigTable":{"T":{"attributes":{"queue.type":"BatchCQ"},"order":true,'
        '"perm":4,"readQueueNums":5,"topicFilterType":"MULTI_TAG","topicName":"T","topicSysFlag":3,'
        '"writeQueueNums":6,"later":[]}}}'
    )
    assert BrokerConfig.open(store).topics == {
        "T": TopicConfig("T", 5, 6, 4, "MULTI_TAG", 3, True, {"queue.type": "BatchCQ"})
    }


def test_every_member_of_a_group_is_read(store):
    given = {
        "groupName": "G",
        "consumeEnable": False,
        "consumeFromMinEnable": False,
        "consumeBroadcastEnable": False,
        "consumeMessageOrderly": True,
        "retryQueueNums": 2,
        "retryMaxTimes": 3,
        "groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000}},
        "brokerId": 2**40,
        "whichBrokerWhenConsumeSlowly": 2**41,
        "notifyConsumerIdsChangedEnable": False,
        "groupSysFlag": 4,
        "consumeTimeoutMinute": 5,
        "subscriptionDataSet": [{"topic": "T"}],
        "attributes": {"a": "b"},
    }
    (store / "config" / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": {"G": given}}))
    config = BrokerConfig.open(store)
    assert config.problems == []
    assert config.subscription_groups["G"] == SubscriptionGroupConfig(*given.values())


def test_members_that_an_older_release_did_not_write_have_rocketmqs_defaults(store, topics):
    topics.write_text('{"topicConfigTable":{"T":{"perm":2,"attributes":null},"U":{}}}')
    assert BrokerConfig.open(store).topics == {"T": TopicConfig("T", perm=2), "U": TopicConfig("U", 16, 16, 6)}


def test_a_table_that_is_missing_is_empty(store, topics):
    for text in ("null", "{}", '{"topicConfigTable":{}}'):
        topics.write_text(text)
        config = BrokerConfig.open(store)
        assert (config.topics, config.problems) == ({}, [])


def test_consumer_offsets_are_read_with_and_without_the_table_of_pull_offsets_that_5_5_1_leaves_out(store):
    table = '"offsetTable":{"T@G":{0:5}},"resetOffsetTable":{}'
    for text in (f"{{{table}}}", f'{{{table},"pullOffsetTable":{{"T@G":{{0:9}}}}}}'):
        assert consumer_offsets(store, text).consumer_offsets == {"G": {"T": {0: 5}}}


def test_offsets_are_by_group_topic_and_queue(store):
    config = consumer_offsets(
        store, '{"groupTopicMap":{"G":["T"]},"offsetTable":{"T@G":{0:5,2:3,10:7},"U@G":{"1":-1},"T@H":{}}}'
    )
    assert config.consumer_offsets == {"G": {"T": {0: 5, 2: 3, 10: 7}, "U": {1: -1}}, "H": {"T": {}}}
    assert config.problems == []


def test_a_group_is_what_follows_the_first_at(store):
    assert consumer_offsets(store, '{"offsetTable":{"T@G@g":{0:1},"x":{0:2},"@":{}}}').consumer_offsets == {
        "G@g": {"T": {0: 1}},
        "": {"x": {0: 2}, "": {}},
    }


@pytest.mark.parametrize(
    "offsets",
    [
        '{"0 ":1}',
        '{"x":1}',
        '{"":1}',
        '{"٣":1}',
        "{99999999999:1}",
        "{0:null}",
        "{0:{}}",
        "null",
        "{2147483648:1}",
        '{"2147483648":1}',
        "{null:1}",
        "[1]",
        "7",
        "{0:9223372036854775808}",
    ],
)
def test_offsets_that_are_none_are_a_problem_of_the_file(store, offsets):
    config = consumer_offsets(store, '{"offsetTable":{"T@G":' + offsets + "}}")
    assert config.consumer_offsets == {}
    assert [problem.path.name for problem in config.problems] == ["consumerOffset.json", "consumerOffset.json.bak"]


def test_extreme_offsets_are_read(store):
    text = '{"offsetTable":{"T@G":{2147483647:9223372036854775807,0:-9223372036854775808}}}'
    assert consumer_offsets(store, text).consumer_offsets["G"]["T"] == {2**31 - 1: 2**63 - 1, 0: -(2**63)}


# (as fastjson may write it, as JSON)
INTEGER_KEYS = [
    ("{0:5,10:7}", {"0": 5, "10": 7}),
    ("{ 0 : 5 ,\n\t10\r\n:\t7 }", {"0": 5, "10": 7}),
    ("{-1:2}", {"-1": 2}),
    ('{"a":{1:{2:[{3:4}]}}}', {"a": {"1": {"2": [{"3": 4}]}}}),
    ('{"a":[1,2,3],"b":1}', {"a": [1, 2, 3], "b": 1}),
    ('{1:[2,3],4:"5"}', {"1": [2, 3], "4": "5"}),
    ('{"{1:2,3:4}":5}', {"{1:2,3:4}": 5}),
    ('{"a":"{1:2,3:4}"}', {"a": "{1:2,3:4}"}),
    ('{"\\"{1:":",2:\\\\"}', {'"{1:': ",2:\\"}),
    ('{"\\\\":{1:2}}', {"\\": {"1": 2}}),
    ('{"\\\\\\"":"{1:2,","x":{3:4}}', {'\\"': "{1:2,", "x": {"3": 4}}),
    ('{"":"",1:""}', {"": "", "1": ""}),
    ('{"T@%RETRY%G":{0:1},"中😀":{1:2}}', {"T@%RETRY%G": {"0": 1}, "中😀": {"1": 2}}),
    ('{"\\ud83d\\ude00":1}', {"😀": 1}),
]


@pytest.mark.parametrize(("text", "expected"), INTEGER_KEYS, ids=[text for text, _ in INTEGER_KEYS])
def test_integers_need_no_quotes_as_names_and_strings_stay_as_they_are(text, expected):
    """Corner 107."""
    assert parse_json(text.encode()) == expected


@pytest.mark.parametrize("text", ["{1}", "{1,2}", "[1:2]", '{"a,1:2}', '{"a{1:2}', '{"a":1:2}', "{1:2:3}", "{:1}"])
def test_an_integer_in_another_place_is_refused(text):
    with pytest.raises(ValueError, match=r"line 1"):
        parse_json(text.encode())


def fastjson(value, rng):
    """A value as JSON with random blanks, and its integer names with or without quotes."""
    blank = "".join(rng.choices(" \t\r\n", k=rng.choice([0, 0, 0, 1, 2])))
    if isinstance(value, dict):
        members = []
        for name, member in value.items():
            bare = name.isascii() and name.isdigit() and rng.random() < 0.7
            members.append(f"{blank}{name if bare else json.dumps(name)}{blank}:{fastjson(member, rng)}")
        return blank + "{" + ",".join(members) + blank + "}"
    if isinstance(value, list):
        return blank + "[" + ",".join(fastjson(member, rng) for member in value) + blank + "]" + blank
    return blank + json.dumps(value, ensure_ascii=rng.random() < 0.5) + blank


def any_value(rng, depth):
    if depth and rng.random() < 0.7:
        names = {any_text(rng) if rng.random() < 0.5 else str(rng.randrange(10**6)) for _ in range(rng.randrange(4))}
        members = [any_value(rng, depth - 1) for _ in names]
        return dict(zip(sorted(names), members, strict=True)) if rng.random() < 0.7 else members
    return rng.choice([any_text(rng), rng.randrange(-(2**63), 2**63), rng.random(), True, False, None])


def any_text(rng):
    return "".join(rng.choices('{}[],:"\\0123 \n\t\x01aé中😀/', k=rng.randrange(12)))


def test_any_object_comes_back_whatever_its_strings_hold(seed):
    rng = random.Random(seed)
    for _ in range(2000):
        value = {any_text(rng): any_value(rng, 4) for _ in range(rng.randrange(4))}
        assert parse_json(fastjson(value, rng).encode()) == value


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_bad_file_is_read_from_its_bak(store, topics, data):
    """Corner 108."""
    topics.write_bytes(data)
    bak(topics).write_bytes(GOOD)
    config = BrokerConfig.open(store)
    assert config.topics == {"T": TopicConfig("T")}
    [(path, what)] = config.problems
    assert path == topics
    assert what.endswith("topics.json.bak is used")


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_where_both_are_bad_the_part_is_empty_and_the_rest_is_read(store, topics, data):
    topics.write_bytes(data)
    bak(topics).write_bytes(data)
    (store / "config" / "delayOffset.json").write_text('{"offsetTable":{1:2}}')
    config = BrokerConfig.open(store)
    assert (config.topics, config.delay_offsets) == ({}, {1: 2})
    assert [path for path, _ in config.problems] == [topics, bak(topics)]
    assert all(len(what) < 400 and what.isprintable() for _, what in config.problems)


def test_a_good_file_is_read_whatever_its_bak_is(store, topics):
    topics.write_bytes(GOOD)
    for older in (OLDER, b"", b"{"):
        bak(topics).write_bytes(older)
        config = BrokerConfig.open(store)
        assert (list(config.topics), config.problems) == (["T"], [])


def test_a_missing_file_is_read_from_its_bak(store, topics):
    bak(topics).write_bytes(OLDER)
    config = BrokerConfig.open(store)
    assert list(config.topics) == ["Older"]
    assert config.problems == [ConfigProblem(topics, "is missing; topics.json.bak is used")]


def test_a_missing_file_whose_bak_is_bad_is_two_problems(store, topics):
    bak(topics).write_bytes(b"")
    assert check(store) == [ConfigProblem(topics, "is missing"), ConfigProblem(bak(topics), "is empty")]


@pytest.mark.parametrize("name", MAIN_FILES)
def test_every_file_of_a_broker_is_checked(store, name):
    path = store / "config" / name
    path.write_bytes(b"x")
    assert [problem.path for problem in check(store)] == [path, bak(path)]


@pytest.mark.parametrize("name", MAIN_FILES)
def test_a_bad_bak_of_a_good_file_is_checked_and_is_no_problem_of_reading(store, name):
    path = store / "config" / name
    path.write_bytes(b"{}")
    assert check(store) == []
    bak(path).write_bytes(b"")
    assert check(store) == [ConfigProblem(bak(path), "is empty")]
    assert BrokerConfig.open(store).problems == repair(store) == []
    bak(path).write_bytes(b"{}")
    assert check(store) == []


@pytest.mark.parametrize("name", [name for name in config_checks.OTHER_FILES if name != "lmqConsumerOffset.json"])
def test_another_file_is_given_as_it_parses(store, name):
    (store / "config" / name).write_text('{"offsetTable":{"a@b":{7:[1,2.5,null]}}}')
    assert BrokerConfig.open(store).others[name] == {"offsetTable": {"a@b": {"7": [1, 2.5, None]}}}


def test_a_message_names_the_member_and_shortens_what_it_quotes(store, topics):
    topics.write_text(json.dumps({"topicConfigTable": {"T": {"perm": "x\n" * 10_000}}}))
    problem = check(store)[0]
    assert "perm of 'T'" in problem.what
    assert len(problem.what) < 200
    assert problem.what.isprintable()


def test_a_pipe_in_place_of_a_file_is_a_problem_and_never_waited_for(store, topics):
    topics.mkdir()
    os.mkfifo(bak(topics))
    assert [problem.path for problem in check(store)] == [topics, bak(topics)]
    assert all("no regular file" in problem.what for problem in check(store))


def test_a_file_that_is_too_large_is_not_read(store, topics):
    with topics.open("wb") as file:
        file.truncate(1 << 40)
    bak(topics).write_bytes(GOOD)
    config = BrokerConfig.open(store)
    assert list(config.topics) == ["T"]
    assert "268435456 bytes" in config.problems[0].what


def test_a_config_that_is_no_directory_is_a_problem(tmp_path):
    (tmp_path / "config").write_text("x")
    config = BrokerConfig.open(tmp_path)
    assert config.topics == {}
    assert all("Not a directory" in problem.what for problem in config.problems)


def test_a_link_in_a_circle_is_a_problem(store, topics):
    topics.symlink_to(topics)
    assert "symbolic links" in check(store)[0].what


def test_a_file_that_a_broker_is_writing_is_read_again(store, topics, monkeypatch):
    bak(topics).write_bytes(OLDER)
    topics.write_bytes(GOOD[:9])
    replace_sleep(monkeypatch, json_tables, lambda _: topics.write_bytes(GOOD) if topics.exists() else None)
    config = BrokerConfig.open(store)
    assert (list(config.topics), config.problems) == (["T"], [])


@pytest.mark.parametrize("data", [None, *BAD.values()], ids=["missing", *BAD])
def test_repair_makes_a_bad_or_missing_file_from_a_good_bak(store, topics, data):
    bak(topics).write_bytes(GOOD)
    if data is not None:
        topics.write_bytes(data)
    problem = check(store)[0]
    [(path, what)] = repair(store)
    assert path == topics
    assert what.startswith(problem.what.removesuffix("; topics.json.bak is used"))
    assert (topics.read_bytes(), bak(topics).read_bytes()) == (GOOD, GOOD)
    assert (check(store), repair(store)) == ([], [])
    kept = [entry for entry in (store / "config").iterdir() if entry not in (topics, bak(topics))]
    if data is None:
        assert kept == []
    else:
        assert kept[0].name.removeprefix("topics.json.bad-").isdigit()
        assert what.endswith(kept[0].name)
        assert [entry.read_bytes() for entry in kept] == [data]


def test_a_dry_run_says_the_same_and_changes_nothing(golden):
    config = golden / "config"
    (config / "topics.json").write_bytes(b"")
    (config / "delayOffset.json").unlink()
    before = tree(config)
    planned = repair(golden, dry_run=True)
    assert tree(config) == before
    done = repair(golden)
    assert [path.name for path, _ in planned] == ["topics.json", "delayOffset.json"]
    assert [path for path, _ in done] == [path for path, _ in planned]
    assert planned[1] == done[1]


def test_repair_touches_no_good_file_and_none_without_a_good_bak(golden):
    config = golden / "config"
    before = tree(config)
    for name in ("topics.json", "topics.json.bak", "consumerOffset.json.bak"):
        (config / name).write_bytes(b"x")
    (config / "timermetrics").unlink()
    changed = tree(config)
    assert [path.name for path, _ in repair(golden)] == ["timermetrics"]
    assert tree(config).keys() == before.keys()
    for name, state in changed.items():
        assert tree(config)[name] == state
    assert (config / "timermetrics").read_bytes() == before["timermetrics.bak"][0]


def test_repair_leaves_what_it_cannot_judge(store, topics):
    topics.mkdir()
    bak(topics).write_bytes(GOOD)
    assert repair(store) == []
    assert topics.is_dir()
    topics.rmdir()
    with topics.open("wb") as file:
        file.truncate(1 << 40)
    assert repair(store) == []
    assert topics.stat().st_size == 1 << 40


def test_a_repaired_file_has_the_mode_of_its_bak(store, topics):
    bak(topics).write_bytes(GOOD)
    bak(topics).chmod(0o640)
    repair(store)
    assert topics.stat().st_mode & 0o7777 == 0o640


def test_a_file_that_may_not_be_read_is_a_problem_and_is_not_repaired(store, topics, monkeypatch):
    topics.write_bytes(b"x")
    bak(topics).write_bytes(GOOD)

    def refuse(path, max_size):
        if path == topics:
            raise PermissionError(13, "Permission denied", str(path))
        return read_small_file(path, max_size)

    with monkeypatch.context() as patch:
        patch.setattr("rocketstore.state.json_tables.read_small_file", refuse)
        assert check(store) == [ConfigProblem(topics, "cannot be read: Permission denied; topics.json.bak is used")]
        assert list(BrokerConfig.open(store).topics) == ["T"]
        assert repair(store) == []
    assert topics.read_bytes() == b"x"


@pytest.mark.parametrize("call", ["fsync", "fchmod"])
def test_a_repair_that_fails_leaves_everything_as_it_was(store, topics, monkeypatch, call):
    topics.write_bytes(b"x")
    bak(topics).write_bytes(GOOD)
    before = tree(store / "config")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        repair(store)
    assert tree(store / "config") == before


def test_at_every_moment_of_a_repair_the_main_file_is_the_old_or_the_new(store, topics, monkeypatch):
    topics.write_bytes(b"x")
    bak(topics).write_bytes(GOOD)
    steps = []
    for name in ("fchmod", "fsync", "link", "rename", "replace", "open", "close"):
        call = getattr(os, name)

        def watched(*args, _call=call, _name=name, **kwargs):
            steps.append((_name, topics.read_bytes()))
            answer = _call(*args, **kwargs)
            steps.append((_name, topics.read_bytes()))
            return answer

        monkeypatch.setattr(os, name, watched)
    repair(store)
    monkeypatch.undo()
    names = [name for name, _ in steps]
    assert {data for _, data in steps} == {b"x", GOOD}
    # On the disk before it has the name, and the name on the disk at the end.
    assert names.index("fsync") < names.index("link") < names.index("replace")
    assert names.index("replace") < len(names) - 1 - names[::-1].index("fsync")
    assert steps[-1][1] == GOOD


def test_repair_never_writes_through_a_link_in_the_place_of_its_temporary_file(store, topics):
    outside = store / "outside"
    outside.write_text("mine")
    bak(topics).write_bytes(GOOD)
    topics.with_name(f"topics.json.tmp-{os.getpid()}").symlink_to(outside)
    repair(store)
    assert outside.read_text() == "mine"
    assert topics.read_bytes() == GOOD
    assert not topics.is_symlink()


# As a broker of 5.5.0 writes it, but for the time.
NEW_TOPICS = """{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":TIME
\t},
\t"topicConfigTable":{
\t\t"T":{
\t\t\t"attributes":{},
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":4,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"T",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":4
\t\t},
\t\t"批":{
\t\t\t"attributes":{
\t\t\t\t"queue.type":"BatchCQ"
\t\t\t},
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":2,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"批",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":2
\t\t}
\t}
}"""


def version_of(path):
    return json.loads(path.read_bytes())["dataVersion"]


def test_topics_are_made_as_a_broker_writes_them(tmp_path):
    before = time.time_ns() // 1_000_000
    assert extend_topics(tmp_path, {"T": 4, "批": 2}, {"批": "BatchCQ"}) is True
    path = tmp_path / "config" / "topics.json"
    now = version_of(path)["timestamp"]
    assert before <= now <= time.time_ns() // 1_000_000
    assert path.read_text("utf-8") == NEW_TOPICS.replace("TIME", str(now))
    assert [file.name for file in path.parent.iterdir()] == ["topics.json"]
    assert BrokerConfig.open(tmp_path).topics["批"] == TopicConfig("批", 2, 2, attributes={"queue.type": "BatchCQ"})


def test_only_the_version_and_the_requested_values_of_a_brokers_topics_change(golden):
    path = golden / "config" / "topics.json"
    before = path.read_bytes()
    assert extend_topics(golden, {"new": 3}) is True
    assert bak(path).read_bytes() == before
    old, new = json.loads(before), json.loads(path.read_bytes())
    added = new["topicConfigTable"].pop("new")
    assert list(added) == list(old["topicConfigTable"]["LabTopic"])
    assert added == old["topicConfigTable"]["LabTopic"] | {"topicName": "new", "readQueueNums": 3, "writeQueueNums": 3}
    version = new["dataVersion"]
    assert version["counter"] == old["dataVersion"]["counter"] + 1
    assert version["timestamp"] != old["dataVersion"]["timestamp"]
    # With these two undone the rest is the same, byte for byte.
    new["dataVersion"] = old["dataVersion"]
    assert json_tables._pretty(new) == before


def test_topics_that_have_their_queues_change_nothing(golden):
    before = tree(golden / "config")
    assert extend_topics(golden, {"LabTopic": 4, "lab": 1, "SCHEDULE_TOPIC_XXXX": 5}) is False
    assert extend_topics(golden, {}) is False
    assert tree(golden / "config") == before


def test_without_topics_nothing_is_made(tmp_path):
    assert extend_topics(tmp_path, {}) is False
    assert list(tmp_path.iterdir()) == []


def test_queues_are_raised_each_kind_by_itself_and_never_lowered(store, topics):
    topics.write_text('{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":9,"writeQueueNums":2,"perm":4}}}')
    assert extend_topics(store, {"T": 5})
    assert json.loads(topics.read_bytes())["topicConfigTable"]["T"] == {
        "topicName": "T",
        "readQueueNums": 9,
        "writeQueueNums": 5,
        "perm": 4,
    }


def test_numbers_that_are_left_out_are_rocketmqs_default(store, topics):
    topics.write_bytes(GOOD)
    assert not extend_topics(store, {"T": 16})
    assert extend_topics(store, {"T": 17})
    assert BrokerConfig.open(store).topics["T"] == TopicConfig("T", 17, 17)


def test_what_rocketstore_does_not_know_is_kept(store, topics):
    topics.write_text('{"z":{3:[1,{}]},"topicConfigTable":{"T":{"new":1.5,"topicName":"T","order":null}},"a":"é\\n"}')
    assert extend_topics(store, {"U": 1})
    root = json.loads(topics.read_bytes())
    assert list(root) == ["z", "topicConfigTable", "a", "dataVersion"]
    assert (root["z"], root["a"]) == ({"3": [1, {}]}, "é\n")
    assert root["topicConfigTable"]["T"] == {"new": 1.5, "topicName": "T", "order": None}
    assert root["dataVersion"].keys() == {"counter", "timestamp"}


@pytest.mark.parametrize("text", ['{"topicConfigTable":{"T":null}}', '{"dataVersion":null}'])
def test_a_null_at_which_a_broker_gives_up_is_not_written_over(store, topics, text):
    topics.write_text(text)
    with pytest.raises(StoreError, match="repair or remove"):
        extend_topics(store, {"T": 1})
    assert topics.read_text() == text


@pytest.mark.parametrize("there", [{}, {"attributes": {"queue.type": "SimpleCQ"}}, {"attributes": {}}], ids=str)
def test_a_topic_never_changes_the_type_of_its_queues(store, topics, there):
    topics.write_text(json.dumps({"topicConfigTable": {"T": there}}))
    before = tree(store / "config")
    with pytest.raises(ValueError, match="'T' has queues of type SimpleCQ, which cannot become BatchCQ"):
        extend_topics(store, {"U": 1, "T": 20}, {"T": "BatchCQ"})
    assert tree(store / "config") == before
    assert extend_topics(store, {"T": 20}, {"T": "SimpleCQ"})


@pytest.mark.parametrize(
    ("topics", "types"),
    [({"T": 0}, {}), ({"T": -1}, {}), ({"T": 2**31}, {}), ({"T": 1}, {"T": "RocksDBCQ"}), ({"\ud800": 1}, {})],
)
def test_topics_that_cannot_be_are_refused_and_nothing_is_made(tmp_path, topics, types):
    with pytest.raises(ValueError):  # noqa: PT011 - which of them is in the message, in its own words
        extend_topics(tmp_path, topics, types)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_bad_topics_are_kept_aside_and_their_bak_extended(store, topics, data):
    topics.write_bytes(data)
    bak(topics).write_bytes(OLDER)
    assert extend_topics(store, {"T": 1})
    assert BrokerConfig.open(store).topics == {"Older": TopicConfig("Older"), "T": TopicConfig("T", 1, 1)}
    assert bak(topics).read_bytes() == OLDER
    assert [file.read_bytes() for file in topics.parent.glob("topics.json.bad-*")] == [data]
    assert extend_topics(store, {"T": 1}) is False


def test_missing_topics_with_a_bak_are_the_bak_extended(store, topics):
    bak(topics).write_bytes(OLDER)
    assert extend_topics(store, {"Older": 1}) is False
    assert not topics.exists()
    assert extend_topics(store, {"T": 1})
    assert BrokerConfig.open(store).topics.keys() == {"Older", "T"}
    assert bak(topics).read_bytes() == OLDER


@pytest.mark.parametrize(("main", "spare"), [(b"x", None), (b"x", b"y"), (None, b"y"), (b"", b"")])
def test_where_no_good_topics_are_left_nothing_is_made_up(store, topics, main, spare):
    for path, data in ((topics, main), (bak(topics), spare)):
        if data is not None:
            path.write_bytes(data)
    before = tree(store / "config")
    with pytest.raises(StoreError, match=rf"{topics} .*topics.json.bak .*repair"):
        extend_topics(store, {"T": 1})
    assert tree(store / "config") == before


def test_topics_that_cannot_be_read_are_not_replaced(store, topics):
    topics.mkdir()
    bak(topics).write_bytes(GOOD)
    with pytest.raises(StoreError, match="no regular file"):
        extend_topics(store, {"T": 1})
    assert topics.is_dir()


@pytest.mark.parametrize("counter", ["x", [], {}, 2**63, None])
def test_a_version_that_is_none_makes_the_file_bad(store, topics, counter):
    topics.write_text(json.dumps({"dataVersion": {"counter": counter}}))
    bak(topics).write_bytes(OLDER)
    assert extend_topics(store, {"T": 1})
    assert BrokerConfig.open(store).topics.keys() == {"Older", "T"}


def test_a_version_wraps_as_java_s_does(store, topics):
    topics.write_text(json.dumps({"dataVersion": {"counter": 2**63 - 1}}))
    assert extend_topics(store, {"T": 1})
    assert version_of(topics)["counter"] == -(2**63)
    assert BrokerConfig.open(store).problems == []


def test_extended_topics_keep_their_mode(store, topics):
    topics.write_bytes(GOOD)
    topics.chmod(0o640)
    assert extend_topics(store, {"U": 1})
    assert {path.stat().st_mode & 0o777 for path in (topics, bak(topics))} == {0o640}


@pytest.mark.parametrize("data", [GOOD, b"x"], ids=["good", "bad"])
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_at_every_failure_good_topics_are_left(store, topics, monkeypatch, data, call):
    """The n-th call fails, for every n: what can be read is the topics of before, or with the new one."""
    really = getattr(os, call)
    for n in itertools.count(1):
        for path in topics.parent.iterdir():
            path.unlink()
        topics.write_bytes(data)
        bak(topics).write_bytes(OLDER)
        before = BrokerConfig.open(store).topics
        error = OSError(5, "Input/output error")
        answers = itertools.chain([None] * (n - 1), [error], itertools.repeat(None))

        def failing(*args, _answers=answers, **kwargs):
            if error := next(_answers):
                raise error
            return really(*args, **kwargs)

        done = False
        with monkeypatch.context() as patch, contextlib.suppress(OSError):
            patch.setattr(os, call, failing)
            done = extend_topics(store, {"New": 1})
        after = BrokerConfig.open(store).topics
        assert after in ([] if done else [before]) + [before | {"New": TopicConfig("New", 1, 1)}]
        assert not list(topics.parent.glob("*tmp*"))
        extend_topics(store, {"New": 1})
        assert BrokerConfig.open(store).topics == before | {"New": TopicConfig("New", 1, 1)}
        if done:
            break
    assert n > 1 or (call, data) == ("link", GOOD)


def test_what_a_killed_process_left_is_no_hindrance(store, topics):
    topics.with_name(f"topics.json.tmp-{os.getpid()}").write_bytes(b"x")
    assert extend_topics(store, {"T": 1})
    assert [path.name for path in topics.parent.iterdir()] == ["topics.json"]


@pytest.mark.parametrize("broken", [False, True], ids=["good", "from .bak"])
def test_topics_are_read_without_the_other_files(tmp_path, broken, monkeypatch):
    extend_topics(tmp_path, {"A": 1})
    extend_topics(tmp_path, {"B": 2})
    if broken:
        (tmp_path / "config" / "topics.json").write_text("{")
    expected, seen, real = BrokerConfig.open(tmp_path).topics, [], json_tables._read
    monkeypatch.setattr(json_tables, "_read", lambda path, *more: (seen.append(path.name), real(path, *more))[1])
    assert read_topics(tmp_path) == expected != {}
    assert {*seen} <= {"topics.json", "topics.json.bak"}


def test_ctrl_c_when_a_file_has_its_name_already_is_raised_as_what_it_is(tmp_path, monkeypatch):
    real = os.replace

    def replace(*arguments, **options):
        real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        extend_topics(tmp_path, {"T": 1})
    assert list(read_topics(tmp_path)) == ["T"]
