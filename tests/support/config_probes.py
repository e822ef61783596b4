"""What RocketMQ's own decoders made of configuration files, and what rocketstore makes of them.

Rows of golden/config-probes.jsonl.xz: ``name`` of the file, ``what`` is special about it, ``data`` in base64, and for
each of RELEASES the answer of that release's manager: ``value``, or ``error`` where it throws, so that a broker goes on
to the .bak. interop/test_broker.py asks the managers again.
"""

import base64
import json
import lzma
from pathlib import Path

from rocketstore.config import camel_case
from rocketstore.state import json_tables
from rocketstore.state.config_values import decode_lmq_offset_table, decode_offset_table

RELEASES = ("5.5.0", "5.3.3")
PROBES = Path(__file__).parent.parent / "golden" / "config-probes.jsonl.xz"
GROUP_FIELDS = ("group_name", "consume_enable", "retry_queue_nums", "retry_max_times", "broker_id", "attributes")
BUILT_IN = ("CID_", "TOOLS_", "FILTERSRV_", "SELF_TEST_")  # groups that a manager makes itself
REFUSED = "refused"


def probes():
    with lzma.open(PROBES, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def data_of(probe):
    return base64.b64decode(probe["data"])


def ours(probe):
    """What rocketstore reads from the file, in the shape of ``theirs``; REFUSED where it would use the .bak."""
    name = probe["name"]
    try:
        root = json_tables._parse_root(data_of(probe))
        value = {**json_tables.TYPED_FILES, **json_tables.OTHER_FILES}[name](root)
    except (ValueError, RecursionError):
        return REFUSED
    if name == "topics.json":
        return {topic: {camel_case(key): member for key, member in vars(bean).items()} for topic, bean in value.items()}
    if name == "subscriptionGroup.json":
        return {group: {camel_case(key): vars(bean)[key] for key in GROUP_FIELDS} for group, bean in value.items()}
    if name == "delayOffset.json":
        return {str(level): offset for level, offset in value.items()}
    groups = decode_offset_table(root) if name == "consumerOffset.json" else decode_lmq_offset_table(root)
    return {
        f"{topic}@{group}": {str(queue): offset for queue, offset in offsets.items()}
        for group, topics in groups.items()
        for topic, offsets in topics.items()
    }


def theirs(probe, release):
    """What a release reads from the file; half surrogate pairs as it writes them again, and names that are null as it
    finds the bean by.
    """
    answer, name = probe[release], probe["name"]
    if "error" in answer:
        return REFUSED
    value = json.loads(json.dumps(answer["value"], ensure_ascii=False).encode("utf-8", "replace"))
    if name == "topics.json":
        return {topic: with_name(bean, "topicName", topic) for topic, bean in value.items()}
    if name == "subscriptionGroup.json":
        return {
            group: with_name(bean, "groupName", group)
            for group, bean in value.items()
            if not group.startswith(BUILT_IN)
        }
    if name == "lmqConsumerOffset.json":
        value = {**value["offsetTable"], **{key: {"0": offset} for key, offset in value["lmqOffsetTable"].items()}}
    if name == "delayOffset.json":
        return value
    return {key if "@" in key else f"{key}@": offsets for key, offsets in value.items()}


def with_name(bean, member, name):
    attributes = {key: value for key, value in (bean["attributes"] or {}).items() if value is not None}
    return {**bean, member: name if bean[member] is None else bean[member], "attributes": attributes}
