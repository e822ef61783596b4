"""A broker's properties file, as StoreConfig and as RocketMQ's MixAll.properties2Object read it."""

import random
from dataclasses import fields

import pytest
from support.broker_files import LATER, LINES, UNUSABLE
from support.releases import numbers_of

from rocketstore import StoreConfig
from rocketstore.config import DEFAULT_SIZES, OUR_OWN, camel_case

RELEASES = ("5.5.0", "5.3.3", "4.9.8")

pytestmark = pytest.mark.interop


@pytest.fixture(params=RELEASES)
def java(request, java_of):
    return java_of(request.param)


def field_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_files(java, texts, tmp_path):
    """Compare each field that both have. Values that rocketstore cannot use must be reported."""
    path = tmp_path / "broker.conf"
    for text, answer in zip(texts, java.broker_files([text.encode("iso-8859-1") for text in texts]), strict=True):
        path.write_bytes(text.encode("iso-8859-1"))
        if answer is None:
            with pytest.raises(ValueError, match="hexadecimal digits"):
                StoreConfig.from_broker_conf(path, compat=java.release)
            continue
        config = StoreConfig.from_broker_conf(path, compat=java.release)
        for entry in (entry for entry in fields(config) if entry.name not in OUR_OWN):
            value, theirs = getattr(config, entry.name), answer.get(camel_case(entry.name))
            if entry.name == "message_delay_level":
                theirs = theirs.rstrip(" ")  # which String.split ignores
            if entry.name in config.other.unusable:
                shown = repr(theirs) if isinstance(getattr(StoreConfig, entry.name), str) else theirs
                assert shown in config.other.unusable[entry.name][1], text
            elif theirs is None or value is None:  # a property of later releases; the default log path
                assert value in (getattr(StoreConfig, entry.name), DEFAULT_SIZES.get(entry.name)), text
            else:
                assert field_text(value) == theirs, (text, entry.name)


def test_every_line_has_the_effect_that_it_has_on_the_broker(java, tmp_path):
    check_files(java, [line for line, *_ in (*LINES, *UNUSABLE, *LATER)], tmp_path)


def test_random_values_have_the_effect_that_they_have_on_the_broker(java, tmp_path, seed):
    rng = random.Random(f"broker files {seed}")
    names = (
        "maxIndexNum",
        "mappedFileSizeCommitLog",
        "mapedFileSizeCommitLog",
        "enableLmq",
        "checkCRCOnRecover",
        "flushDiskType",
        "fileReservedTime",
        "commitLogRecoverMaxNum",
        "messageDelayLevel",
    )
    values = (
        "1",
        "0",
        "9",
        "+",
        "-",
        " ",
        "\\t",
        "true",
        "FALSE",
        "x",
        "#",
        "SYNC_FLUSH",
        "1s 2h",
        "2147483647",
        "\\u0661",
        "\\u00a0",
        "\\n",
        "\\\n  ",
        "=",
        ":",
    )
    texts = []
    for _ in range(300):
        lines = (
            f"{rng.choice(names)}{rng.choice('=: ')}{''.join(rng.choices(values, k=rng.randrange(4)))}"
            for _ in range(rng.randrange(1, 4))
        )
        texts.append("\n".join(lines))
    check_files(java, texts, tmp_path)


@pytest.mark.parametrize(("line", "name", "before", "since"), LATER, ids=[line for line, *_ in LATER])
def test_a_property_comes_with_its_documented_release(java, line, name, before, since):
    (answer,) = java.broker_files([line.encode()])
    numbers = [numbers_of(release) for release in (java.release, since)]
    has_property = answer.get(line.partition("=")[0]) == line.partition("=")[2]
    assert has_property == (numbers[0] >= numbers[1])
