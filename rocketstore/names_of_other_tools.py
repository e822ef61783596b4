"""Names of attributes that other tools have, and the line to type in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn

from rocketstore.text_values import find_similar

RESULT = "result"  # stands for the objects of several classes
OPERATIONS = {f"len({RESULT})": "__len__", f"{RESULT}[": "__getitem__"}  # in a line, and the method for it
# The line to type for a name, by the word that stands for the object. ``X`` in a line is that word.
OF_ALL = {  # of objects with messages or rows
    "arrow": "X.to_arrow()",
    "collect": "X.to_polars()",
    "df": "X.to_pandas()",
    "fetchall": "X.to_arrow().to_pylist()",
    "fetchone": "X.to_arrow().to_pylist()",
    "pl": "X.to_polars()",
    "polars": "X.to_polars()",
    "pandas": "X.to_pandas()",
    "dtypes": "X.to_pandas().dtypes",
    "shape": "X.to_pandas().shape",
    "to_csv": "X.to_pandas().to_csv(PATH)",
    "to_df": "X.to_pandas()",
    "to_dicts": "X.to_polars().to_dicts()",
    "to_excel": "X.to_pandas().to_excel(PATH)",
    "to_json": "X.to_pandas().to_json(PATH)",
    "to_dict": "X.to_arrow().to_pydict()",
    "to_duckdb": "table = X.to_arrow(); duckdb.sql('FROM table')",
    "to_list": "X.to_arrow().to_pylist()",
    "to_parquet": "X.to_polars().write_parquet(PATH)",
    "to_pylist": "X.to_arrow().to_pylist()",
    "to_table": "X.to_arrow()",
    "write_csv": "X.to_polars().write_csv(PATH)",
    "write_parquet": "X.to_polars().write_parquet(PATH)",
}
OF_TABLES = {  # of a store and of a topic
    "consumer_groups": "X.lag()",
    "consumers": "X.lag()",
    "describe": "X.info()",
    "filter": "X.scan(tag=, key=, since=, until=)",
    "groups": "X.lag()",
    "iter": "X.scan()",
    "limit": "X.scan(limit=N)",
    "messages": "X.scan()",
    "read": "X.scan()",
    "schema": "X.to_arrow().schema",
    "columns": "X.to_arrow().column_names",
    "select": "X.sql(SELECT)",
    "status": "X.info()",
    "stats": "X.info()",
    "where": "X.sql(SELECT)",
}
LINES: Mapping[str, Mapping[str, str]] = {
    "rocketstore": {
        "Consumer": "rocketstore.open(PATH).follow()",
        "MessageStoreConfig": "rocketstore.StoreConfig",
        "Producer": "rocketstore.open(PATH, 'a').put_message(MESSAGE)",
        "RocketStore": "rocketstore.open(PATH)",
        "Store": "rocketstore.open(PATH)",
        "backup": "rocketstore.copy(PATH, NEW)",
        "check": "rocketstore.verify(PATH)",
        "clone": "rocketstore.copy(PATH, NEW)",
        "compare": "rocketstore.diff(PATH, OTHER)",
        "connect": "rocketstore.open(PATH)",
        "count": "rocketstore.open(PATH).count()",
        "dataset": "rocketstore.open(PATH).dataset()",
        "du": "rocketstore.open(PATH).du()",
        "export": "rocketstore export STORE TARGET in a shell",
        "fsck": "rocketstore.verify(PATH)",
        "fix": "rocketstore.recover(PATH)",
        "import_": "rocketstore import SOURCE STORE in a shell",
        "info": "rocketstore.open(PATH).info()",
        "lag": "rocketstore.open(PATH).lag()",
        "load": "rocketstore.open(PATH)",
        "query": "rocketstore.open(PATH).query_message(TOPIC, KEY)",
        "query_message": "rocketstore.open(PATH).query_message(TOPIC, KEY)",
        "read": "rocketstore.open(PATH).scan()",
        "read_arrow": "rocketstore.open(PATH).to_arrow()",
        "read_pandas": "rocketstore.open(PATH).to_pandas()",
        "read_polars": "rocketstore.scan_polars(PATH)",
        "read_store": "rocketstore.open(PATH)",
        "repair": "rocketstore.recover(PATH)",
        "report": "rocketstore report STORE --output report.html in a shell",
        "scan": "rocketstore.open(PATH).scan()",
        "scan_arrow": "rocketstore.open(PATH).dataset()",
        "scan_duckdb": "rocketstore.open(PATH).sql(SELECT)",
        "scan_pandas": "rocketstore.open(PATH).to_pandas()",
        "sql": "rocketstore.open(PATH).sql(SELECT)",
        "store": "rocketstore.open(PATH)",
        "to_pandas": "rocketstore.open(PATH).to_pandas()",
        "topics": "rocketstore.open(PATH).topics",
        "version": "rocketstore.__version__",
    },
    "store": {
        **OF_ALL,
        **OF_TABLES,
        "append": "store.put_message(MESSAGE)",
        "backup": "rocketstore.copy(PATH, NEW)",
        "check": "rocketstore.verify(PATH)",
        "consume": "store.get_message(TOPIC, QUEUE, OFFSET)",
        "copy": "rocketstore.copy(PATH, NEW)",
        "delete": "store.expiry()",
        "diff": "rocketstore.diff(PATH, OTHER)",
        "disk_usage": "store.du()",
        "dlq": "store.dead_letters()",
        "expire": "store.expiry()",
        "export": "store.export_new(DIRECTORY, STATE)",
        "fetch": "store.get_message(TOPIC, QUEUE, OFFSET)",
        "find": "store.query_message(KEY)",
        "get": "store.get_message(TOPIC, QUEUE, OFFSET)",
        "get_topic": "store[TOPIC]",
        "items": "store.topics.items()",
        "keys": "store.topics",
        "list_topics": "store.topics",
        "offset": "store.get_offset_by_time(TOPIC, TIME)",
        "produce": "store.put_message(MESSAGE)",
        "put": "store.put_message(MESSAGE)",
        "query": "store.query_message(TOPIC, KEY)",
        "read_message": "store.get_message(TOPIC, QUEUE, OFFSET)",
        "recover": "rocketstore.recover(PATH)",
        "repair": "rocketstore.recover(PATH)",
        "report": "rocketstore report STORE --output report.html in a shell",
        "search": "store.query_message(KEY)",
        "send": "store.put_message(MESSAGE)",
        "size": "store.du()",
        "tables": "store.topics",
        "topic": "store[TOPIC]",
        "topic_names": "list(store.topics)",
        "values": "store.topics.values()",
        "verify": "rocketstore.verify(PATH)",
        "write": "store.put_message(MESSAGE)",
    },
    "topic": {
        **OF_ALL,
        **OF_TABLES,
        "consume": "topic.store.get_message(topic.name, QUEUE, OFFSET)",
        "dataset": "topic.store.dataset(topic=topic.name)",
        "dlq": "topic.store.dead_letters(topic=topic.name)",
        "du": "topic.store.du(by='queue', topic=topic.name)",
        "export": "topic.to_polars().write_parquet(PATH)",
        "find": "topic.query(KEY)",
        "follow": "topic.store.follow()",
        "get": "topic.store.get_message(topic.name, QUEUE, OFFSET)",
        "get_message": "topic.store.get_message(topic.name, QUEUE, OFFSET)",
        "offsets": "topic.queues",
        "partitions": "topic.queues",
        "put": "topic.store.put_message(MESSAGE)",
        "query_message": "topic.query(KEY)",
        "send": "topic.store.put_message(MESSAGE)",
        "size": "len(topic)",
        "verify": "rocketstore.verify(PATH)",
    },
    "scan": {
        **OF_ALL,
        "filter": "store.scan(topic=, tag=, key=, since=, until=)",
        "first": "scan.head(1)",
        "limit": "store.scan(limit=N)",
        "schema": "scan.to_arrow().schema",
        "select": "store.scan(columns=[...])",
        "where": "store.sql(SELECT)",
    },
    RESULT: {
        **OF_ALL,
        "count": "len(result)",
        "first": "result[0]",
        "size": "len(result)",
        "tail": "result[-N:]",
        "head": "result[:N]",
    },
    "batch": {
        **OF_ALL,
        "first": "batch[0]",
        "head": "batch[:N]",
        "key": "batch.keys",
        "num_rows": "len(batch)",
        "offset": "batch.queue_offset, or batch.phy_offset",
        "partition": "batch.queue_id",
        "rows": "list(batch)",
        "schema": "batch.to_arrow().schema",
        "tag": "batch.tags",
        "tail": "batch[-N:]",
        "timestamp": "batch.store_timestamp, or batch.store_time",
        "value": "batch.body",
    },
    "message": {
        "as_dict": "dict(message)",
        "asdict": "dict(message)",
        "content": "message.body",
        "data": "message.body",
        "decode": "message.body_text",
        "get": "dict(message).get(NAME)",
        "headers": "message.properties",
        "id": "message.msg_id, or message.uniq_key",
        "items": "dict(message).items()",
        "json": "message.body_json",
        "key": "message.keys",
        "message_id": "message.msg_id, or message.uniq_key",
        "offset": "message.queue_offset, or message.phy_offset",
        "partition": "message.queue_id",
        "payload": "message.body",
        "tag": "message.tags",
        "text": "message.body_text",
        "time": "message.store_time",
        "timestamp": "message.store_timestamp",
        "value": "message.body",
    },
}  # fmt: skip


def find_line(word: str, name: str, known: list[str]) -> str | None:
    """Return the line that is probably meant by an attribute that an object does not have; None if none is near.

    Parameters: word: that stands for the object. known: the names that the object has.
    """
    line = LINES.get(word, {}).get(name, "").replace("X", word)
    if line and (word != RESULT or names_in(line).issubset(known)):
        return line
    similar = find_similar(name, [each for each in known if not each.startswith("_")])
    return None if similar is None else f"{word}.{similar}"


def names_in(line: str) -> set[str]:
    """Return the names that a result must have so that a line about it runs: not all results are tables or lists."""
    names = set(re.findall(rf"\b{RESULT}\.(\w+)", line))
    return names | {name for text, name in OPERATIONS.items() if text in line}


def describe_line(word: str, name: str, known: list[str]) -> str:
    """Return the end of an error text: the line that is probably meant; an empty text if none is near."""
    line = find_line(word, name, known)
    return "" if line is None else f": did you mean {line}?"


class SuggestsNames:
    """An object whose error of an unknown attribute has the line to type. ``_word`` stands for it in the line."""

    __slots__ = ()
    _word: ClassVar[str] = RESULT

    def _raise_unknown(self, name: str) -> NoReturn:
        kind = type(self)
        if hasattr(kind, name):
            object.__getattribute__(self, name)  # a property raised the error: it raises it again
        hint = "" if name.startswith("_") else self._describe_unknown(name)
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")

    def _describe_unknown(self, name: str) -> str:
        return describe_line(self._word, name, dir(self))

    if not TYPE_CHECKING:  # a type checker knows the declared names alone
        __getattr__ = _raise_unknown
