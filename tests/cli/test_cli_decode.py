"""``--decode``: bodies as values in cat, get, query and export; none that cannot be decoded is dropped."""

import base64
import json
import sys
import textwrap
from importlib import metadata

import pytest
from support.cli import on_terminal, rows, run
from support.puts import open_store

from rocketstore import Message
from rocketstore.messages.decoders import find_decoder, json_value

BODIES = [b'{"n": 1, "x": [1.5, null]}', b"plain", b"\xff\x00", b"", b'"text"', b"NaN", "größe".encode()]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("decode") / "store"
    with open_store(root) as store:
        for n, body in enumerate(BODIES):
            store.put_message(Message("T", body, keys=[f"k{n}"], queue_id=0, compress="zlib" if n % 2 else None))
    return root


def expected(decode):
    """What plain Python decodes: the body, and the bytes that it cannot decode."""
    found = []
    for body in BODIES:
        try:
            found.append((decode(body), None))
        except ValueError:
            found.append((None, base64.b64encode(body).decode()))
    return found


def strict_json(body):
    def refuse(text):
        raise ValueError(text)

    return json.loads(body.decode(), parse_constant=refuse)


DECODERS = {"json": strict_json, "text": bytes.decode, "hex": bytes.hex, "base64:b64encode": base64.b64encode}


@pytest.mark.parametrize("name", DECODERS)
def test_bodies_are_what_python_decodes(root, name):
    result = run("cat", root, "--decode", name)
    found = rows(result)
    values = [(json_value(value), data) for value, data in expected(DECODERS[name])]
    assert [(row["body"], row["bodyBase64"]) for row in found] == values
    failed = [row for row in found if row["bodyBase64"] is not None]
    assert all(row["bodyError"].startswith(f"{name}: ") for row in failed)
    assert ("that --decode cannot decode" in result.stderr) == bool(failed)
    if failed:
        assert f"{len(failed)} message" in result.stderr


def test_get_query_and_export_decode_too(root, tmp_path):
    want = {"n": 1, "x": [1.5, None]}
    assert rows(run("get", root, "T", 0, 0, "--decode", "json"))[0]["body"] == want
    assert rows(run("query", root, "--topic", "T", "--key", "k0", "--decode", "json"))[0]["body"] == want
    result = run("export", root, tmp_path / "out.json", "--decode", "json")
    assert "5 messages have bodies that --decode cannot decode" in result.stderr
    assert (tmp_path / "out.json").read_text() == run("cat", root, "--decode", "json").stdout


def test_csv_and_columns_have_the_decoded_body(root):
    assert run("cat", root, "--decode", "hex", "--columns", "body", "--format", "csv", "--limit", 2).stdout == (
        f"body,bodyBase64\n{BODIES[0].hex()},\n{BODIES[1].hex()},\n"
    )
    found = run("cat", root, "--decode", "json", "--columns", "body", "--format", "csv", "--limit", 1).stdout
    assert found.splitlines()[1] == '"{""n"": 1, ""x"": [1.5, null]}",'
    assert rows(run("cat", root, "--decode", "json", "--columns", "keys", "--limit", 1)) == [{"keys": ["k0"]}]


@pytest.mark.parametrize("option", [["--decode", "json"], ["--iso"]])
def test_columns_on_request_are_in_rows_of_any_kind(root, option):
    found = rows(run("cat", root, "--columns", "damaged,body_json", "--format", "json", "--limit", 1, *option))
    assert [*found[0]] == ["damaged", "body_json"]
    assert found[0]["damaged"] is False


def test_a_table_shows_values_as_json(root):
    status, text = on_terminal("cat", root, "--decode", "json", "--limit", 2, "--columns", "keys,body")
    assert status == 0
    assert '{"n": 1, "x": [1.5, null]}' in text
    assert "<5 bytes>" in text


def test_json_and_text_have_the_charset(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", '{"a": "支付"}'.encode("gbk")))
    assert rows(run("cat", tmp_path / "store", "--decode", "json", "--charset", "gbk"))[0]["body"] == {"a": "支付"}


def test_a_function_of_a_module_may_return_anything(tmp_path, monkeypatch):
    (tmp_path / "own_decoders.py").write_text(
        textwrap.dedent("""
            import datetime, decimal, math

            class Codec:
                @staticmethod
                def decode(body):
                    if body == b"plain":
                        raise KeyError("no plain text")
                    day = datetime.date(2026, 1, 2)
                    return {1: {body}, "d": decimal.Decimal("1.10"), "t": day, "inf": math.inf, "b": (b"\\xff",)}

            def loop(body):
                value = []
                value.append(value)
                return value

            NUMBER = 5
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with open_store(tmp_path / "store") as store:
        store.put_messages([Message("T", b"a"), Message("T", b"plain")])
    found = rows(run("cat", tmp_path / "store", "--decode", "own_decoders:Codec.decode"))
    assert found[0]["body"] == {"1": ["a"], "d": "1.10", "t": "2026-01-02", "inf": "inf", "b": ["base64:/w=="]}
    assert (found[1]["body"], found[1]["bodyBase64"]) == (None, base64.b64encode(b"plain").decode())
    assert "no plain text" in found[1]["bodyError"]
    assert all(row["bodyBase64"] for row in rows(run("cat", tmp_path / "store", "--decode", "own_decoders:loop")))
    assert "NUMBER is no function" in run("cat", tmp_path / "store", "--decode", "own_decoders:NUMBER").stderr
    sys.modules.pop("own_decoders")


def test_a_plug_in_gets_its_argument(root, monkeypatch):
    class Entry:
        def load(self):
            return lambda argument: lambda body: [argument, len(body)]

    def entry_points(*, group, name):
        return [Entry()] if (group, name) == ("rocketstore.decoders", "sizes") else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert rows(run("cat", root, "--decode", "sizes:a:b", "--limit", 1))[0]["body"] == ["a:b", 26]
    assert rows(run("cat", root, "--decode", "sizes", "--limit", 1))[0]["body"] == [None, 26]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jsn", "did you mean 'json'?"),
        ("xyz", "or MODULE:FUNCTION"),
        ("", "or MODULE:FUNCTION"),
        ("json:x", "takes no argument"),
        ("no_such_module:f", "No module named"),
        ("json.decoder:f", "has no attribute"),
        ("base64:", "MODULE:FUNCTION"),
        (":f", "MODULE:FUNCTION"),
        ("protobuf", "protobuf:FILE.desc:TYPE"),
        ("protobuf:x.desc", "protobuf:FILE.desc:TYPE"),
    ],
)
def test_a_wrong_decoder_is_one_line_of_wrong_usage(root, name, words):
    result = run("cat", root, "--decode", name)
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: Invalid value for --decode: ")
    assert words in line


def test_tables_keep_the_bytes(root, tmp_path):
    result = run("export", root, tmp_path / "out.parquet", "--decode", "json")
    assert result.exit_code == 2
    assert "--decode writes JSON and CSV" in result.stderr


# ---- protobuf ----------------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path):
    """The path of a FileDescriptorSet with shop.Order, and the class of that type."""
    pytest.importorskip("google.protobuf", reason="needs protobuf, from the extra 'protobuf'")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    item = file.message_type.add(name="Item")
    item.field.add(name="unit_price", number=1, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="items", number=2, type=kinds.TYPE_MESSAGE, type_name=".shop.Item", label=kinds.LABEL_REPEATED)
    path = tmp_path / "shop.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return path, message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_bodies_are_decoded(orders, tmp_path):
    path, order_type = orders
    body = order_type(order_id="o-1", items=[{"unit_price": 1.5}, {"unit_price": 2.0}]).SerializeToString()
    with open_store(tmp_path / "store") as store:
        store.put_messages([Message("T", body), Message("T", b"\xff\xff\xff")])
    good, bad = rows(run("cat", tmp_path / "store", "--decode", f"protobuf:{path}:shop.Order"))
    assert good["body"] == {"order_id": "o-1", "items": [{"unit_price": 1.5}, {"unit_price": 2.0}]}
    assert (bad["body"], bad["bodyBase64"]) == (None, base64.b64encode(b"\xff\xff\xff").decode())
    assert bad["bodyError"].startswith("protobuf:")


def test_wrong_descriptors_are_refused(orders, tmp_path):
    path, _ = orders
    with pytest.raises(ValueError, match=r"did you mean 'shop\.Order'\?"):
        find_decoder(f"protobuf:{path}:shop.Ordr")
    with pytest.raises(FileNotFoundError):
        find_decoder(f"protobuf:{tmp_path / 'none.desc'}:shop.Order")
    for data in (b"no descriptors", b""):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="FileDescriptorSet"):
            find_decoder(f"protobuf:{path}:shop.Order")
