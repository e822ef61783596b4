"""Read expressions of pyarrow: the columns that an expression needs, and the bounds of a filter.

pyarrow has no public function that reads an expression. The pickled form of an expression is an Arrow file. The
metadata of its schema are the nodes of the tree in prefix order. Its columns are the literals and the options of
functions. An unknown form, or a tree that is too deep, gives no bounds and needs all columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from rocketstore.dataset.bounds import FLIPPED, OPERATORS, Bounds, both, compare, either, one_of
from rocketstore.kernels.arrow_metadata import read_metadata

PER_MILLISECOND = {"s": Fraction(1, 1000), "ms": Fraction(1), "us": Fraction(1000), "ns": Fraction(1_000_000)}


class FilterTree(NamedTuple):
    """The bounds of a filter, and the names of its columns; None if the names are unknown."""

    bounds: Bounds
    columns: set[str] | None


@dataclass
class Node:
    """A node of an expression: a call of a function, a column or a literal."""

    kind: str  # "call", "column" or "literal"
    name: str = ""  # of the function or column
    value: Any = None  # the literal, or the options of the function, as a scalar of pyarrow
    arguments: list[Node] = field(default_factory=list)


def read_filter(expression: Any) -> FilterTree:
    """Return the bounds and columns of an expression of pyarrow."""
    try:
        with pa.ipc.open_file(expression.__reduce__()[1][0]) as file:
            literals = [column[0] for column in file.get_batch(0).columns]
            pairs = iter([(name.decode(), value.decode()) for name, value in read_metadata(file.schema)])
        root = read_node(next(pairs), pairs, literals)
        return FilterTree(bounds_of(root), set(columns_of(root)))
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError, NotImplementedError, RecursionError):
        return FilterTree({}, None)  # pyarrow cannot pickle it, its form is unknown, or it is too deep


def read_node(pair: tuple[str, str], rest: Iterator[tuple[str, str]], literals: list[Any]) -> Node:
    """Read the node that begins with a pair, with the nodes below it. Raises: ValueError for an unknown form."""
    kind, text = pair
    if kind == "literal":
        return Node("literal", value=literals[int(text)])
    if kind == "field_ref":
        return Node("column", text)
    if kind == "nested_field_ref":
        children = [read_node(next(rest), rest, literals) for _ in range(int(text))]
        return Node("call", "nested", arguments=children[:1])
    if kind != "call":
        raise ValueError(f"{kind}={text}: an expression has no such node")
    node = Node("call", text)
    for following in rest:
        if following == ("end", node.name):
            return node
        if following[0] == "options":
            node.value = literals[int(following[1])]
        else:
            node.arguments.append(read_node(following, rest, literals))
    raise ValueError(f"the call of {node.name} has no end")


def columns_of(node: Node) -> Iterator[str]:
    if node.kind == "column":
        yield node.name
    for argument in node.arguments:
        yield from columns_of(argument)


def bounds_of(node: Node) -> Bounds:
    """Return the bounds of the messages for which a filter is true. An unknown function gives none."""
    if node.kind != "call":
        return {}
    match node.name.removesuffix("_kleene"), node.arguments:
        case "and", [first, second]:
            return both(bounds_of(first), bounds_of(second))
        case "or", [first, second]:
            return either(bounds_of(first), bounds_of(second))
        case "if_else", [condition, value, Node("literal", value=other)] if not other.as_py():  # DuckDB's IN
            return both(bounds_of(condition), bounds_of(value))
        case "is_in", [Node("column", name)]:
            return bounds_of_set(name, node.value)
        case operator, [Node("column", name), Node("literal", value=literal)] if operator in OPERATORS:
            return compare(name, OPERATORS[operator], value_of(literal))
        case operator, [Node("literal", value=literal), Node("column", name)] if operator in OPERATORS:
            return compare(name, FLIPPED[OPERATORS[operator]], value_of(literal))
    return {}


def bounds_of_set(name: str, options: Any) -> Bounds:
    """Return the bounds of ``is_in``. A null in the set may match messages without a value: this gives no bounds."""
    values = options["value_set"].values
    return one_of(name, map(value_of, values))


def value_of(literal: Any) -> object:
    """Return a literal for ``compare``; None for a null and for other types than text, integer and time."""
    kind = literal.type
    if not literal.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        # Arrow refuses to compare a time without a zone with a column that has one.
        return Fraction(literal.value) / PER_MILLISECOND[kind.unit] if kind.tz is not None else None
    is_known = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return literal.as_py() if is_known else None
