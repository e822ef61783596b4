"""What tests of single records compare: the same bytes through RocketMQ, the oracle and rocketstore."""

import itertools

from reference.commit_log import parse_record
from support.releases import numbers_of

from interop import records
from rocketstore.kernels.record import check_message_and_return_size

# Fields of ours and of Java's DispatchRequest.
FIELDS = {
    "topic": "topic",
    "queue_id": "queueId",
    "phy_offset": "commitLogOffset",
    "size": "msgSize",
    "tags_code": "tagsCode",
    "store_timestamp": "storeTimestamp",
    "queue_offset": "consumeQueueOffset",
    "keys": "keys",
    "uniq_key": "uniqKey",
    "sys_flag": "sysFlag",
    "prepared_transaction_offset": "preparedTransactionOffset",
    "properties": "properties",
    "msg_base_offset": "msgBaseOffset",
    "batch_size": "batchSize",
}


def outcome(answer):
    """Java's (success, size); whatever it throws is no record."""
    dispatch = answer["dispatch"]
    return (dispatch["success"], dispatch["msgSize"]) if dispatch else (False, -1)


def is_refused_on_purpose(data, success, size):
    """Whether Java takes bytes for more than they are: a negative length, a blank longer than its file."""
    if success and size == 0:
        return len(data) < 8 or not 8 <= int.from_bytes(data[:4], "big", signed=True) <= len(data)
    return has_negative_length(data)


def has_negative_length(data):
    """Whether the body length is negative, or the properties length: both say "none" to Java."""
    sys_flag = int.from_bytes(data[36:40], "big")
    pos = 84 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    body_length = int.from_bytes(data[pos : pos + 4], "big", signed=True)
    pos += 4 + max(body_length, 0)
    width = 1 if data[7] == 0xA7 else 2
    pos += width + int.from_bytes(data[pos : pos + width], "big")
    return body_length < 0 or int.from_bytes(data[pos : pos + 2], "big", signed=True) < 0


def refused_otherwise(java, data, success, size):
    """Whether Java refuses a record by the sum of its lengths that others refuse because its array is too short.

    From 5.5.1 on the array is kept from one record to the next, so that it may be longer than the record.
    """
    return numbers_of(java.release) >= (5, 5, 1) and not success and size == int.from_bytes(data[:4], "big")


def check_records(java, datas, **flags):
    """Compare Java, the oracle and rocketstore on each of the byte strings."""
    ours_take = {name: given for name, given in flags.items() if name != "read_body"}
    for data, answer in zip(datas, java.parse(datas, **flags), strict=True):
        success, size = outcome(answer)
        oracle = parse_record(data, **flags, negative_blank=numbers_of(java.release) < (5, 5, 1))
        if refused_otherwise(java, data, success, size):
            size = oracle.size
        assert (oracle.success, oracle.size) == (success, size), (data.hex(), flags, answer)
        ours = check_message_and_return_size(data, **ours_take)
        if ours[:2] != (success, size):
            assert not ours[0], (data.hex(), flags, answer, ours)
            assert is_refused_on_purpose(data, success, size), (data.hex(), flags, answer, ours)
        elif success and size > 0:
            assert_same_fields(ours[2], answer["dispatch"], data)


def assert_same_fields(ours, dispatch, data):
    java = {name: dispatch[javas] for name, javas in FIELDS.items()}
    # Java says "" where a record has no properties, null where they lack KEYS.
    java |= {"keys": java["keys"] or None, "properties": java["properties"] or {}}
    assert ours == java, data.hex()


def check_random_records(javas, rng, count):
    for crc, dup, force in itertools.product((True, False), repeat=3):
        flags = {"check_crc": crc, "check_dup": dup, "force_verify_prop_crc": force}
        datas = records.records(rng, count)
        for java in javas:
            check_records(java, datas, **flags)
