"""Read the bounds of a filter of polars.

A polars expression is read as JSON, whose form differs between releases. An unknown node, or a tree that is too deep,
gives no bounds. The literals are not read from the JSON: polars itself computes each part of the tree that has no
column.
"""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import Any

import polars as pl

from rocketstore.dataset.bounds import FLIPPED, OPERATORS, Bounds, both, compare, either, one_of

PER_MILLISECOND = {"ms": 1, "us": 1000, "ns": 1_000_000}


def read_predicate(predicate: pl.Expr) -> Bounds:
    """Return the bounds of a filter."""
    try:
        return bounds_of(json.loads(predicate.meta.serialize(format="json")))
    except (pl.exceptions.PolarsError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return {}  # polars cannot write it as JSON, its form is unknown, or it is too deep


def bounds_of(node: Any) -> Bounds:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return both(bounds_of(left), bounds_of(right))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return either(bounds_of(left), bounds_of(right))
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": value}} if op in OPERATORS:
            return bounds_of_comparison(name, OPERATORS[op], value)
        case {"BinaryExpr": {"left": value, "op": str(op), "right": {"Column": str(name)}}} if op in OPERATORS:
            return bounds_of_comparison(name, FLIPPED[OPERATORS[op]], value)
        case {"Function": {"input": list(inputs), "function": function}}:
            return bounds_of_call(function, inputs)
    return {}


def bounds_of_comparison(name: str, operator: str, value: Any) -> Bounds:
    """Return the bounds of a comparison with one value, and none of another."""
    values = values_of(value)
    return compare(name, operator, values[0]) if len(values) == 1 else {}


def bounds_of_call(function: Any, inputs: list[Any]) -> Bounds:
    match function, inputs:
        case {"Boolean": {"IsIn": _}}, [{"Column": str(name)}, values]:
            return one_of(name, values_of(values))
        case {"Boolean": {"IsBetween": _}}, [{"Column": str(name)}, low, high]:
            return both(bounds_of_comparison(name, ">=", low), bounds_of_comparison(name, "<=", high))
        case {"ListExpr": {"Contains": _} | "Contains"}, [{"Column": "keys"}, value]:
            return one_of("keys", values_of(value))
    return {}


def values_of(node: Any) -> list[object]:
    """Return the values of an expression without columns, as ``compare`` takes them: a list has many."""
    if has_column(node):
        return [None]
    series = pl.select(pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")).to_series()
    while isinstance(series.dtype, pl.List | pl.Array):
        series = series.explode()
    kind = series.dtype
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is None:
            return [None]
        per = PER_MILLISECOND[kind.time_unit]
        return [None if value is None else Fraction(value, per) for value in series.to_physical()]
    return series.to_list() if kind.is_integer() or kind == pl.String else [None]


def has_column(node: Any) -> bool:
    """Return whether an expression may depend on the rows: it has a column, or an unknown leaf."""
    if isinstance(node, dict):
        return any(name in ("Column", "Len", "Nth", "Selector") or has_column(value) for name, value in node.items())
    return node == "Len" or (isinstance(node, list) and any(map(has_column, node)))
