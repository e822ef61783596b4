"""The fields of a message are in slots or in a dict beside them. Python code sees no difference."""

import gc
import pickle
import sys
import weakref
from copy import copy, deepcopy
from functools import cached_property

import pytest

from rocketstore import Message
from rocketstore.kernels.message_slots import SLOTS, has_fields, make_messages, own_field, own_fields, set_fields
from rocketstore.kernels.record_encoder import RecordEncoder

FIELDS = {
    "topic": "T", "raw_body": b"x", "properties": {"KEYS": "k"}, "queue_id": 3, "flag": 1, "sys_flag": 0,
    "born_timestamp": 5, "born_host": "1.2.3.4:5",
}  # fmt: skip


def new_message(**more):
    return Message("T", b"x", keys="k", queue_id=3, flag=1, born_timestamp=5, born_host="1.2.3.4:5", **more)


def encoded(message):
    encoder = RecordEncoder("10.0.0.1:10911", lambda topic: 0)
    encoder.add(message)
    return encoder.dump()[0]


def test_a_new_message_has_its_fields_in_slots_and_no_dict():
    message = new_message()
    assert own_fields(message) == FIELDS
    assert tuple(FIELDS) == SLOTS
    assert sys.getsizeof(message) <= 120 + 16
    assert not any(isinstance(found, dict) and found is not message.properties for found in gc.get_referents(message))


@pytest.mark.parametrize("name", SLOTS)
def test_a_field_may_be_deleted_and_set_again(name):
    message = new_message()
    delattr(message, name)
    with pytest.raises(AttributeError, match=f"message.{name}: it is not among the columns that were read"):
        getattr(message, name)
    assert not has_fields(message, name)
    assert own_field(message, name, 7) == 7
    setattr(message, name, "any object")
    assert getattr(message, name) == own_field(message, name) == "any object"


def test_the_dict_of_a_message_has_all_fields_and_changes_them():
    message = new_message()
    message.extra = 6
    fields = message.__dict__
    assert fields == vars(message) == own_fields(message) == {**FIELDS, "extra": 6}
    fields["topic"], fields["other"] = "U", 7
    del fields["flag"]
    assert (message.topic, message.other, message.queue_id, message.raw_body) == ("U", 7, 3, b"x")
    assert not hasattr(message, "flag")
    message.topic, message.flag = "V", 2
    assert vars(message) == {**FIELDS, "extra": 6, "topic": "V", "flag": 2, "other": 7}
    assert encoded(message) == encoded(Message.of_fields({**FIELDS, "topic": "V", "flag": 2}))


def test_the_dict_outlives_its_message():
    assert new_message().__dict__ == FIELDS


def test_a_message_is_compared_by_value_and_not_hashed():
    one, two = new_message(), new_message()
    two.born_timestamp = one.born_timestamp
    assert one == two
    two.flag += 1
    assert one != two
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert weakref.ref(one)() is one


@pytest.mark.parametrize("has_dict", [False, True])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_new_message_is_pickled_and_copied(protocol, has_dict):
    message = new_message()
    message.extra = [1]
    if has_dict:
        assert vars(message)["extra"] == [1]
    for twin in (pickle.loads(pickle.dumps(message, protocol)), copy(message), deepcopy(message)):
        assert type(twin) is Message
        assert own_fields(twin) == {**FIELDS, "extra": [1]}
        assert encoded(twin) == encoded(message)


def test_a_pickle_of_a_release_without_slots_is_read():
    state = {**FIELDS, "body": b"x"}

    class Old:
        def __reduce__(self):
            return Message.__new__, (Message,), state

    message = pickle.loads(pickle.dumps(Old()))
    assert (message.topic, message.queue_id, message.body, message.keys) == ("T", 3, b"x", ["k"])
    assert own_fields(message) == state
    assert encoded(message) == encoded(new_message())


class Slotted(Message):
    __slots__ = ("own",)


class Open(Message):
    topic = "hides the slot"  # an instance's own value is in its dict

    @cached_property
    def made(self):
        return [self.queue_id]


def test_a_message_can_be_subclassed():
    slotted = Slotted("T", b"x", queue_id=1)
    slotted.own = 5
    assert pickle.loads(pickle.dumps(slotted)).own == 5
    message = Open("T", b"x", queue_id=1, born_timestamp=5)
    assert message.topic == "T"
    assert message.made is message.made
    assert own_fields(message)["topic"] == "T"
    assert encoded(message) == encoded(Message("T", b"x", queue_id=1, born_timestamp=5))


def test_a_field_that_is_removed_while_it_is_looked_up_is_still_encoded():
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            if fields:
                fields.clear()
                replaced.extend(range(6000, 6100))  # integers in the memory of the removed one
            return str.__eq__(self, other)

    replaced = []
    message = new_message()
    fields = vars(message)
    fields[Name("reconsume_times")] = int("5000")
    found = encoded(message)
    assert not fields
    expected = new_message()
    expected.reconsume_times = 5000
    assert found == encoded(expected)


def test_a_cycle_of_messages_is_collected():
    message = new_message()
    message.extra = message.properties["self"] = message
    found = weakref.ref(message)
    del message
    gc.collect()
    assert found() is None


def test_messages_are_made_of_rows():
    names = ["queue_id", "phy_offset", "".join(["to", "pic"])]  # a name that is not interned
    made = make_messages(Message, names, [(1, 2, "T"), (3, 4, "U")])
    assert [own_fields(message) for message in made] == [
        {"queue_id": 1, "phy_offset": 2, "topic": "T"}, {"queue_id": 3, "phy_offset": 4, "topic": "U"},
    ]  # fmt: skip


def test_what_is_no_message_has_no_fields():
    for other in (None, 5, {"topic": "T"}):
        for call in (own_fields, lambda it: own_field(it, "topic"), lambda it: set_fields(it, {}), encoded):
            with pytest.raises((AttributeError, TypeError)):
                call(other)
