"""BrokerStores: several open stores, which answer questions together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from rocketstore.brokers.broker_rows import BrokerRows
from rocketstore.brokers.broker_scan import BrokerScan, explain_all, raise_first
from rocketstore.brokers.find_stores import FAILURES, FoundStores, find_stores, list_of_paths, text_about
from rocketstore.config import StoreConfig, require_config
from rocketstore.dataset.dataset_reader import Conditions, DatasetReader
from rocketstore.disk.closable import Closable
from rocketstore.disk.store_path import StorePath
from rocketstore.extras import import_extra
from rocketstore.kernels.column_names import Names
from rocketstore.kernels.message_columns import BROKER, message_fields_of_brokers
from rocketstore.keywords import suggests_keywords
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import NOT_GIVEN, NotGiven, describe_empty, list_if_iterator, text_list, text_set
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.preview import Preview, Previewed
from rocketstore.progress import Progress
from rocketstore.query.query_messages import (
    QueryMessageResult,
    QueryMessagesResult,
    join_results,
    limit_reason,
    topic_and_key,
)
from rocketstore.query.read_few import FEW
from rocketstore.state.config_values import TopicConfig
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_group, explain_unknown_topic
from rocketstore.store.pending.pending_message import due_order
from rocketstore.survey.requirements import begin_entry
from rocketstore.text_values import Time, Zone, find_time_zone, format_count

if TYPE_CHECKING:
    from rocketstore.dataset.store_dataset import StoreDataset
    from rocketstore.sql.statement import SqlResult
    from rocketstore.store.usage.metrics import Metrics

R = TypeVar("R")
OF_ONE_LOG = {"begin_offset", "end_offset"}  # parameters of a scan that mean nothing for several logs


class Answers(NamedTuple, Generic[R]):
    """The answers of stores.

    Attributes: parts: by the name of the broker, one at least. problems: why other stores have no answer. errors: those
    of the other stores that are open.
    """

    parts: dict[str, R]
    problems: list[str]
    errors: list[Exception]


def open_many(
    paths: str | os.PathLike[str] | StorePath | Iterable[Any],
    *,
    config: StoreConfig | None = None,
    leftovers: bool = False,
    tiered: bool = False,
    compacted: bool = False,
) -> BrokerStores:
    """Open several stores for reading, such as those of the brokers over which the messages of a topic are spread.

    Parameters
    ----------
    paths : roots of stores, or patterns that match them: ``"stores/*"``, ``["/data/a", "/data/b"]``,
        ``"s3://bucket/brokers/*/store"``. ``**`` matches directories at any depth. A path that a pattern matches and
        that is no store is left out; ``skipped`` of the result names it.
    config, leftovers, tiered, compacted : as for ``rocketstore.open``, for all stores. The settings may not name the
        directories of a log.

    Returns: BrokerStores. A store that cannot be opened gives a UserWarning, and hides no other store.
    Raises: FileNotFoundError if a pattern matches nothing; StoreError if it matches no store; the error of the first
    store if no store can be opened; ValueError without a path.
    Source: none.

    Examples:
    >>> with rocketstore.open_many("dem*") as brokers:
    ...     found = brokers.query_message("Orders", "order-7")
    >>> found[0].broker, found[0].body
    ('demo', b'order 7')
    """
    require_config(config)
    if config is not None and (config.store_path_commit_log or config.read_only_commit_log_store_paths):
        raise ValueError("config: names the directories of one log: open that store with rocketstore.open")
    options = {"leftovers": leftovers, "tiered": tiered, "compacted": compacted}
    found = find_stores(
        list_of_paths(paths),
        lambda root: begin_entry("open r", root, config),
        lambda survey: MessageStore.of_survey(survey, **options),
    )
    for problem in found.problems:
        warnings.warn(f"{problem}: the store is left out", stacklevel=2)
    return BrokerStores(found)


@made_by("rocketstore.open_many(paths)")
class BrokerStores(Previewed, Closable):
    """Several stores that are open for reading. ``rocketstore.open_many`` makes it.

    Methods have the names and parameters of MessageStore's. Each answer has a column ``broker``: the brokerName if the
    files of a store have it, else the name of its directory. ``stores["broker-a"]`` is one store.

    Messages that a query finds, and pending messages, are in one order by time. All other answers are store after
    store. A store that cannot answer hides no other: the answer's ``reasons`` name it.

    Attributes: stores: MessageStore by the name of the broker. skipped: texts about paths that a pattern matches and
    that are no stores. problems: why stores could not be opened.

    Examples:
    >>> brokers = rocketstore.open_many(["demo"])
    >>> [*brokers.stores], brokers.scan().count()
    (['demo'], 101)
    """

    _word = "stores"

    def __init__(self, found: FoundStores) -> None:
        self.stores = found.stores
        self.skipped = found.skipped
        self.problems = found.problems

    def __len__(self) -> int:
        return len(self.stores)

    def __iter__(self) -> Iterator[MessageStore]:
        return iter(self.stores.values())

    def close(self) -> None:
        """Close all stores."""
        with ExitStack() as stack:  # closes each store, even if closing another one raises
            for store in self.stores.values():
                stack.callback(store.close)

    def _preview(self) -> Preview:
        rows = [[broker, str(store.path)] for broker, store in self.stores.items()]
        title = f"BrokerStores: {format_count(len(self), 'store')}"
        return Preview(title, (BROKER, "path"), rows, self.problems)

    # ---- asking all stores ---------------------------------------------------------------------------------

    def _ask(self, question: Callable[[MessageStore], R]) -> Answers[R]:
        """Ask each store. Raises: the error of the first store if no store can answer."""
        parts: dict[str, R] = {}
        problems = [*self.problems]
        errors: list[Exception] = []
        with warnings.catch_warnings(action="ignore"):  # about names that one store lacks: see _warn_unknown
            for broker, store in self.stores.items():
                try:
                    parts[broker] = question(store)
                except FAILURES as error:
                    errors.append(error)
                    problems.append(text_about(store.path, error))
        if not parts:
            raise errors[0]
        return Answers(parts, problems, errors)

    def _rows(self, question: Callable[[MessageStore], Any], **options: Any) -> BrokerRows:
        found = self._ask(question)
        return BrokerRows(found.parts, found.problems, **options)

    def _warn_unknown(self, topic: Any = None, group: Any = None) -> None:
        """Give a UserWarning for each topic and each group that no store has, and for an empty list."""
        for text in describe_empty({"topic": topic, "group": group}):
            warnings.warn(text, stacklevel=3)
        topics, groups = text_set(topic, "topic") or (), text_set(group, "group") or ()
        questions = [partial(explain_unknown_topic, topic=name) for name in sorted(topics)]
        questions += [partial(explain_unknown_group, group=name) for name in sorted(groups)]
        for question in questions:
            texts = [*self._ask(question).parts.values()]
            if None not in texts:
                warnings.warn(f"no store has it: {texts[0]}", stacklevel=3)

    # ---- messages ------------------------------------------------------------------------------------------

    def scan(
        self, *, columns: str | Iterable[str] | None = None, limit: int | None = None, **options: Any
    ) -> BrokerScan:
        """Return the messages of all stores, store after store, each in the order of its log.

        Parameters: as for ``MessageStore.scan``, without physical offsets: each store has its own. limit: the largest
        number of messages of all stores together. columns: ``broker`` is the first, unless it is among them.
        Returns: BrokerScan. Raises: as ``MessageStore.scan``; if a store cannot be read, its error comes after the
        messages of the other stores.
        """
        if wrong := OF_ONE_LOG & options.keys():
            raise ValueError(f"{min(wrong)}: each store has offsets of its own: scan one of them, as in stores[NAME]")
        options = reusable(options)
        topics = text_list(options.get("topic"), "topic")
        fields = message_fields_of_brokers(text_list(columns, "columns"))
        own = [name for name in fields if name != BROKER] or ["phy_offset"]
        found: Answers[Scan] = self._ask(lambda store: store.scan(columns=own, limit=limit, **options))
        self._warn_unknown(topics)
        return BrokerScan(found.parts, fields, limit, found.problems)

    def query_message(
        self,
        topic: str | None = None,
        key: str | NotGiven = NOT_GIVEN,
        limit: int | None = None,
        *times: Any,
        **options: Any,
    ) -> QueryMessageResult:
        """Find the messages of a key in all stores, newest first by store time.

        Parameters, returns, raises: as ``MessageStore.query_message``.
        """
        name, word = topic_and_key(topic, key)
        return self._query(lambda store: store.query_message(name, word, limit, *times, **options), name, limit)

    def query_message_by_unique_key(
        self, topic: str | None = None, uniq_key: str | NotGiven = NOT_GIVEN, *, verify_crc: bool = True
    ) -> QueryMessageResult:
        """Find the messages with a unique key. Parameters, returns, raises: as ``query_message``."""
        name, word = topic_and_key(topic, uniq_key)
        question = lambda store: store.query_message_by_unique_key(name, word, verify_crc=verify_crc)  # noqa: E731
        return self._query(question, name, None)

    def query_message_by_tag(
        self,
        topic: str | None = None,
        tag: str | NotGiven = NOT_GIVEN,
        limit: int | None = None,
        *times: Any,
        **options: Any,
    ) -> QueryMessageResult:
        """Find the messages with these tags. Parameters, returns, raises: as ``MessageStore.query_message_by_tag``."""
        name, word = topic_and_key(topic, tag)
        return self._query(lambda store: store.query_message_by_tag(name, word, limit, *times, **options), name, limit)

    def _query(
        self, question: Callable[[MessageStore], QueryMessageResult], topic: str | None, limit: int | None
    ) -> QueryMessageResult:
        def read(store: MessageStore) -> QueryMessageResult:
            found = question(store)
            len(found)  # reads the messages: an error belongs to this store
            return found

        found = self._ask(read)
        parts = found.parts.values()
        count = sum(map(len, parts))
        has_more = any(part.has_more for part in parts) or (limit is not None and count > limit)
        reasons = [*found.problems, *(text for part in parts for text in part.reasons)]
        reasons += [limit_reason(limit)] if has_more else []
        is_complete = not reasons and all(part.complete for part in parts)
        if not count and topic is not None:
            self._warn_unknown(topic)

        def join() -> MessageBatch:
            return join_newest_first({broker: part.messages for broker, part in found.parts.items()})[:limit]

        def explain() -> str:
            return explain_all({broker: part.why for broker, part in found.parts.items()})

        rows = rows_newest_first(found.parts)[:limit] if count <= FEW else None
        messages = join if rows is not None else join()
        texts = [*dict.fromkeys(reasons)]
        return QueryMessageResult(messages, is_complete, texts, rows, has_more=has_more, explain=explain)

    def query_messages(
        self, topic: Any = None, key: Any = NOT_GIVEN, limit: int | None = None, *times: Any, **options: Any
    ) -> QueryMessagesResult:
        """Find the messages of many keys in all stores, those of a key newest first by store time.

        Parameters, returns, raises: as ``MessageStore.query_messages``.
        """
        topics, keys = map(list_if_iterator, topic_and_key(topic, key))

        def read(store: MessageStore) -> QueryMessagesResult:
            found = store.query_messages(topics, keys, limit, *times, **options)
            _ = found.messages  # reads them: an error belongs to this store
            return found

        found = self._ask(read)

        def explain(missing: Sequence[int]) -> str:
            return explain_all({broker: part.why for broker, part in found.parts.items()})

        return join_answers(found, limit).explained_by(explain)

    def query_message_by_id(self, msg_id: str, *, verify_crc: bool = True) -> Message | None:
        """Read the message of an offset message id from the store that has it; None if no store has it.

        Parameters: as ``MessageStore.query_message_by_id``.
        Raises: ValueError for an invalid id; the error of a store that cannot be read, if no other has the message.
        """
        found = self._ask(lambda store: store.query_message_by_id(msg_id, verify_crc=verify_crc))
        for broker, message in found.parts.items():
            if message is not None:
                message.broker = broker
                return message
        raise_first(found.errors)
        return None

    @suggests_keywords
    def dataset(
        self,
        *,
        columns: str | Iterable[str] | None = None,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        limit: int | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
        charset: str = "utf-8",
        names: Names = "rocketmq",
        verify_crc: bool = True,
        containers: bool = False,
        progress: Progress = False,
    ) -> StoreDataset:
        """Return the messages of all stores as one ``pyarrow.dataset.Dataset``, store after store.

        A filter on ``broker`` reads only the wanted stores; the other filters are those of ``MessageStore.dataset``.

        Parameters, raises: as ``MessageStore.dataset``. limit: the largest number of messages of all stores together.
        A store that cannot be read is left out, with a UserWarning. Damage in a log is an error, which comes after the
        messages of the other stores, unless on_corrupt is "skip".
        """
        import_extra("pyarrow.dataset", "arrow")
        from rocketstore.brokers.broker_reader import BrokerReader
        from rocketstore.dataset.store_dataset import StoreDataset

        asked = Conditions.of(topic, tag, key, since, until, limit, tz)
        options: dict[str, Any] = {"on_corrupt": on_corrupt, "charset": charset, "progress": progress}
        self._ask(lambda store: store.commit_log.scan(**options))  # raises errors of these arguments
        options |= {"verify_crc": verify_crc, "containers": containers}
        readers = {broker: DatasetReader(store, asked, **options) for broker, store in self.stores.items()}
        return StoreDataset(BrokerReader(readers, limit), columns, names=names)

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Any] | None = None,
        files: bool = False,
        on_corrupt: Literal["raise", "skip"] = "raise",
        tz: Zone = "UTC",
        verify_crc: bool = True,
        containers: bool = False,
    ) -> SqlResult:
        """Return the rows that a SELECT or EXPLAIN of DuckDB finds. All tables have a column ``broker``.

        Parameters, returns, raises: as ``MessageStore.sql``. A store that cannot be read is left out, with a
        UserWarning.

        Examples:
        >>> with rocketstore.open_many(["demo"]) as brokers:
        ...     found = brokers.sql("SELECT broker, count(*) AS n FROM messages GROUP BY broker")
        >>> found.to_arrow().to_pylist()
        [{'broker': 'demo', 'n': 101}]
        """
        from rocketstore.brokers.sql_tables import tables_of_brokers
        from rocketstore.sql.statement import run_statement, user_tables

        options: dict[str, Any] = {"on_corrupt": on_corrupt, "verify_crc": verify_crc, "containers": containers}
        own = tables_of_brokers(self.stores, partial(self.dataset, **options), on_corrupt)
        return run_statement(statement, own | user_tables(tables or {}), files=files, zone=find_time_zone(tz))

    # ---- topics and groups ---------------------------------------------------------------------------------

    @property
    def topic_configs(self) -> dict[str, dict[str, TopicConfig]]:
        """The topics of all brokers: by name, the configuration of each broker that has the topic."""
        found: dict[str, dict[str, TopicConfig]] = {}
        for broker, topics in self._ask(lambda store: store.topic_configs).parts.items():
            for name, topic in topics.items():
                found.setdefault(name, {})[broker] = topic
        return found

    def consumer_lag(
        self,
        group: str | Iterable[str] | None = None,
        *,
        topic: str | Iterable[str] | None = None,
        log_bytes: bool = False,
    ) -> BrokerRows:
        """Return how far consumer groups are behind, one row for each queue of each store.

        Parameters, raises: as ``MessageStore.consumer_lag``.
        """
        groups, topics = text_list(group, "group"), text_list(topic, "topic")
        found = self._rows(lambda store: store.consumer_lag(groups, topic=topics, log_bytes=log_bytes))
        self._warn_unknown(topics, groups)
        return found

    def pending(self, *, limit: int | None = None, **options: Any) -> BrokerRows:
        """Return the messages that wait, of all stores by due time. Parameters, raises: as ``MessageStore.pending``."""
        options = reusable(options)
        found = self._rows(lambda store: store.pending(limit=limit, **options), order=due_order, limit=limit)
        self._warn_if_empty(found, options)
        return found

    def dead_letters(self, *, limit: int | None = None, **options: Any) -> BrokerRows:
        """Return the messages that consumer groups could not process. Parameters: as ``MessageStore.dead_letters``."""
        options = reusable(options)
        found = self._rows(lambda store: store.dead_letters(limit=limit, **options), limit=limit)
        self._warn_if_empty(found, options)
        return found

    def unconsumed(self, group: str, *, limit: int | None = None, **options: Any) -> BrokerRows:
        """Return the messages that a group still gets. Parameters, raises: as ``MessageStore.unconsumed``."""
        options = reusable(options)
        found = self._rows(lambda store: store.unconsumed(group, limit=limit, **options), limit=limit)
        if not found and options.get("subscribe") is None:
            self._warn_unknown(group=group)
        return found

    def trace(self, key: str | None = None, **options: Any) -> BrokerRows:
        """Return the life of a message, the events of all stores together: message after message, each by time.

        Parameters, raises: as ``MessageStore.trace``.
        """
        options = reusable(options)
        found = self._ask(lambda store: store.trace(key, **options))
        first: dict[str | None, int] = {}
        for event in (event for part in found.parts.values() for event in part):
            if event.timestamp is not None:
                first[event.uniq_key] = min(event.timestamp, first.get(event.uniq_key, event.timestamp))
        order = lambda event: trace_order(event.uniq_key, event.timestamp, first)  # noqa: E731
        rows = BrokerRows(found.parts, found.problems, order)
        self._warn_if_empty(rows, options)
        return rows

    def _warn_if_empty(self, rows: BrokerRows, options: Mapping[str, Any]) -> None:
        if not rows:
            self._warn_unknown(options.get("topic"), options.get("group"))

    # ---- numbers -------------------------------------------------------------------------------------------

    def du(self, **options: Any) -> BrokerRows:
        """Return what takes the space, store after store. ``share`` is that of a store. ``parts[broker]`` has more.

        Parameters, raises: as ``MessageStore.du``.
        """
        options = reusable(options)
        found = self._rows(lambda store: store.du(**options))
        self._warn_unknown(options.get("topic"))
        return found

    def count(self, by: str | Iterable[str], **options: Any) -> BrokerRows:
        """Count messages, store after store. Parameters, raises: as ``MessageStore.count``."""
        names = text_list(by, "by") or ()
        options = reusable(options)
        found = self._rows(lambda store: store.count(names, **options))
        self._warn_unknown(options.get("topic"))
        return found

    def metrics(self) -> Metrics:
        """Return the numbers of all stores for a monitoring system, each with the label ``broker``."""
        from rocketstore.store.usage.metrics import join_metrics

        found = self._ask(lambda store: store.metrics())
        return join_metrics(found.parts, found.problems)


def reusable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a question that several stores are asked: lists in place of iterators."""
    return {name: list_if_iterator(value) for name, value in options.items()}


def trace_order(uniq_key: str | None, timestamp: int | None, first: Mapping[str | None, int]) -> tuple[Any, ...]:
    """Return the key by which events are sorted: message after message, those of a message by time.

    Parameters: uniq_key, timestamp: of the event. first: the time of the first event of each message, epoch ms.
    """
    begin = first.get(uniq_key)
    return begin is None, begin or 0, uniq_key or "", timestamp is None, timestamp or 0


def rows_newest_first(parts: Mapping[str, QueryMessageResult]) -> list[Message]:
    """Return the messages of ``join_newest_first`` one by one, which takes less time for a few messages."""
    rows: list[Message] = []
    for broker, part in parts.items():
        for message in part:
            message.broker = broker
            rows.append(message)
    return sorted(rows, key=lambda message: -message.store_timestamp)


def join_newest_first(batches: Mapping[str, MessageBatch]) -> MessageBatch:
    """Return the messages of several stores, newest first by store time, those of one time store after store."""
    joined = MessageBatch.join([batch.with_broker(broker) for broker, batch in batches.items()])
    return joined.take(np.argsort(-joined.store_timestamp, kind="stable"))


def join_answers(found: Answers[QueryMessagesResult], limit: int | None) -> QueryMessagesResult:
    """Return the answer of several stores to a query of many keys.

    Parameters: limit: the largest number of messages of a key; None for all.
    """
    parts = [*found.parts.values()]
    joined = MessageBatch.join([part.messages.with_broker(broker) for broker, part in found.parts.items()])
    return join_results(parts, joined, joined.store_timestamp, limit, found.problems)
