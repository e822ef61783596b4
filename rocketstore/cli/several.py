"""The stores of a command: one, or several whose rows have a column ``broker``."""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from rocketstore.brokers.find_stores import FAILURES, find_stores, has_pattern, text_about
from rocketstore.cli.formats import ForPeople
from rocketstore.cli.settings import begin_command, open_store, reader_of
from rocketstore.cli.store_notes import or_nothing_found, unknown_topics
from rocketstore.cli.text import BROKER_CONF, TIER, note
from rocketstore.cli.times import find_zone
from rocketstore.disk.storage import to_path
from rocketstore.errors import StoreError
from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import SearchConditions, explain_nothing_found
from rocketstore.store.overview.known_names import explain_unknown_group, explain_unknown_topic
from rocketstore.survey.nearby import stores_in
from rocketstore.text_values import format_count

SHOWN = 3  # stores whose reasons for no message are shown
TOTAL = "total"  # is shown in a table in place of the broker, for the sum of all brokers


class RowsAnswer(NamedTuple):
    """The answer of a store to a command, or of several stores.

    Attributes: rows. sums: of rows. problems: why rows may be missing. unknown: a text for each name in the question
    that the store does not have. others: rows of a second list: the disks of ``du``, the notes of ``info``, the queues
    of ``lag``.
    """

    rows: Sequence[Row]
    sums: Sequence[Row] = ()
    problems: Sequence[object] = ()
    unknown: Mapping[str, str] = MappingProxyType({})
    others: Sequence[Row] = ()


class AskedStores:
    """The stores that a command asks.

    Attributes: stores: by the name of the broker. is_several: whether the user named several stores or a pattern: then
    rows have a column ``broker``. problems: why other stores are not open.
    """

    def __init__(self, stores: Mapping[str, MessageStore], problems: Sequence[str], *, is_several: bool) -> None:
        self.stores = stores
        self.is_several = is_several
        self.problems = problems

    def __str__(self) -> str:
        """Return the path of the only store, or the number of stores."""
        return format_count(len(self.stores), "store") if self.is_several else str(self.only.path)

    @property
    def only(self) -> MessageStore:
        """The store, if it is one. Raises: UsageError for several stores."""
        if self.is_several:
            raise click.UsageError("give one STORE: these options are for one store")
        [store] = self.stores.values()
        return store

    def with_problems(self, problems: Iterable[str]) -> "AskedStores":
        """Return the same stores with more problems: paths that cannot be read."""
        return AskedStores(self.stores, [*self.problems, *problems], is_several=self.is_several)

    def require_one(self, *options: str) -> None:
        """Raise UsageError for several stores, since these options are for one."""
        if self.is_several:
            raise click.UsageError(f"{', '.join(options)}: give one STORE")

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Close all stores at the end of a ``with`` block."""
        with contextlib.ExitStack() as stack:
            for store in self.stores.values():
                stack.enter_context(store)
            yield

    @contextlib.contextmanager
    def naming_failures(self, problems: list[object], store: MessageStore) -> Iterator[None]:
        """Add an error of one of several stores to ``problems``, and continue after the ``with`` block."""
        try:
            yield
        except FAILURES as error:
            if not self.is_several:
                raise
            problems.append(text_about(store.path, error))

    # ---- rows ----------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[MessageStore], RowsAnswer]) -> RowsAnswer:
        """Ask all stores, and join their answers store after store. Errors of one store of several are problems.

        The problems of the answer also name what no store knows.
        """
        if not self.is_several:
            found = question(self.only)
            return found._replace(problems=[*found.problems, *found.unknown.values()])
        rows: list[Row] = []
        sums: list[Row] = []
        others: list[Row] = []
        problems: list[object] = [*self.problems]
        unknown: list[Mapping[str, str]] = []
        for broker, store in self.stores.items():
            try:
                found = question(store)
            except FAILURES as error:
                problems.append(text_about(store.path, error))
                continue
            rows += self.named(broker, found.rows)
            sums += self.named(broker, found.sums)
            others += self.named(broker, found.others)
            problems += found.problems
            unknown.append(found.unknown)
        return RowsAnswer(rows, sums, [*problems, *unknown_to_all(unknown)], {}, others)

    def named(self, broker: str, rows: Iterable[Row]) -> list[Row]:
        """Return rows with the name of their broker before the other columns."""
        return [{BROKER: broker} | row for row in rows] if self.is_several else list(rows)

    def columns(self, names: Iterable[str]) -> list[str]:
        """Return the names of the columns of rows."""
        return [BROKER, *names] if self.is_several else list(names)

    def for_people(self, shown: ForPeople) -> ForPeople:
        """Return the function that converts rows to those of a table."""
        if not self.is_several:
            return shown

        def with_broker(rows: Sequence[Row]) -> list[Row]:
            names = [{BROKER: row[BROKER] or TOTAL} for row in rows]
            return [name | cells | name for name, cells in zip(names, shown(rows), strict=True)]

        return with_broker

    def with_total(self, sums: Sequence[Row]) -> list[Row]:
        """Return the sums of several stores, and below them their total, which has no broker."""
        if not self.is_several or not sums:
            return list(sums)
        names = [name for name in sums[0] if name != BROKER]
        return [*sums, {BROKER: None} | {name: sum_or_none([row[name] for row in sums]) for name in names}]

    def or_nothing_found(
        self,
        found: int,
        problems: Sequence[object],
        search: SearchConditions,
    ) -> Sequence[object]:
        """Return the problems of a command, or why it found no message. Parameters: as the function of this name."""
        if not self.is_several:
            return or_nothing_found(self.only, found, problems, search)
        if found or problems:
            return problems
        stores = [*self.stores.items()]
        reasons = [f"{broker}: {explain_nothing_found(store, search, find_zone())}" for broker, store in stores[:SHOWN]]
        more = [f"and {len(stores) - SHOWN} more stores"] if len(stores) > SHOWN else []
        return [f"{self}: no message was found: {'; '.join([*reasons, *more])}"]

    def note_each(self, notes: Callable[[MessageStore], None]) -> None:
        """Write notes about each store to standard error. One of several that cannot be read has none."""
        for store in self.stores.values():
            with contextlib.suppress(*(FAILURES if self.is_several else ())):
                notes(store)

    def unknown_topics(self, topics: Iterable[str]) -> list[str]:
        """Return a text about each topic that no store has."""
        found: list[Mapping[str, str]] = []
        for store in self.stores.values():
            with contextlib.suppress(*(FAILURES if self.is_several else ())):
                found.append(unknown_topics(store, topics))
        return unknown_to_all(found) if self.is_several else [*found[0].values()]


def sum_or_none(values: Sequence[Any]) -> Any:
    """Return the sum of numbers, or whether all of some facts hold; None if one of them is unknown."""
    if None in values:
        return None
    return all(values) if isinstance(values[0], bool) else sum(values)


def unknown_to_all(unknown: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the first text about each name that no store has. Parameters: unknown: the texts of each store by name."""
    if not unknown:
        return []
    names = [name for name in unknown[0] if all(name in others for others in unknown)]
    return [f"no store has it: {unknown[0][name]}" for name in names]


def unknown_names(store: MessageStore, topics: Iterable[str], groups: Iterable[str]) -> dict[str, str]:
    """Return a text about each topic and each consumer group that a store does not have, by its name."""
    texts = {name: explain_unknown_topic(store, name) for name in sorted(topics)}
    texts |= {name: explain_unknown_group(store, name) for name in sorted(groups)}
    return {name: text for name, text in texts.items() if text is not None}


def open_stores(ctx: click.Context, paths: Sequence[Any]) -> AskedStores:
    """Open the stores of a command with the settings that its options give, until the command ends.

    Parameters: paths: of one store, or of several, which may be patterns. Raises: errors of opening a single store; as
    ``find_stores``; UsageError for options that are of one broker.
    """
    if len(paths) == 1 and not has_pattern(paths):
        with naming_pattern(paths[0]):
            store = open_store(ctx, paths[0])
        return one_store(ctx.with_resource(store))
    if ctx.meta.get(BROKER_CONF) is not None or ctx.meta.get(TIER) is not None:
        raise click.UsageError("--broker-conf and --tier are of one broker: give one STORE")
    found = find_stores(paths, lambda root: begin_command(ctx, root), lambda survey: reader_of(ctx, survey))
    for store in found.stores.values():
        ctx.with_resource(store)
    for text in () if ctx.resilient_parsing else found.skipped:
        note(text)
    return AskedStores(found.stores, found.problems, is_several=True)


@contextlib.contextmanager
def naming_pattern(path: Any) -> Iterator[None]:
    """Let the error of a directory with several stores name the pattern that asks all of them."""
    try:
        yield
    except StoreError as error:
        if len(stores_in(to_path(path))) > 1:
            raise StoreError(f"{error} To ask all of them: {shlex.quote(f'{path}/*')}") from None
        raise


def one_store(store: MessageStore) -> AskedStores:
    """Return the store of a command that asks one store."""
    return AskedStores({"": store}, [], is_several=False)
