"""Parse the condition of ``--where``: find the names in it, and give each of them a type.

DuckDB parses the condition, and the tree of its parser is changed here. A name of a column is this column. Any other
name is a field: a property, or a value in a JSON body. A field has no type of its own: it is a number where the
condition compares it with a number or calculates with it, a truth value where one is needed, and else a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, TEXTS_OF_BODY, find_column, message_fields

BEGIN = "SELECT (\n"
NOT_COMPLETE = "is not complete, or its parentheses do not match"
PROPERTY, BODY = "property", "body"  # before a dot, name the place of a field
BODY_TEXT, BODY_JSON = "body_text", "body_json"
TEXT, JSON, TRUTH, DOUBLE, DECIMAL = "VARCHAR", "JSON", "BOOLEAN", "DOUBLE", "DECIMAL(38,9)"
COLUMNS = (*message_fields(), "body_error", "damaged", "tags_code")  # that a condition may name
EXACT = 2**53  # smaller integers are exact as DOUBLE
INTEGER_FORMATS = ("i", "l")  # of the Arrow C data interface
ORDERS = {f"COMPARE_{order}{end}" for order in ("LESSTHAN", "GREATERTHAN") for end in ("", "OREQUALTO")}
CALCULATIONS = {"+", "-", "*", "/", "//", "%", "**", "^"}
NUMBER_FUNCTIONS = {"abs", "ceil", "ceiling", "exp", "floor", "ln", "log", "log10", "mod", "pow", "power", "round"}
NUMBER_FUNCTIONS |= {"sign", "sqrt", "trunc"}
COUNT_FUNCTIONS = {"array_length", "date_part", "epoch", "epoch_ms", "instr", "json_array_length", "len", "length"}
COUNT_FUNCTIONS |= {"octet_length", "position", "strlen", "strpos"}
JSON_FUNCTIONS = {"->", "->>"}
NUMBER_TYPES: tuple[str, ...] = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "UTINYINT",
)
NUMBER_TYPES += ("USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "NUMERIC", "REAL", "INT", "LONG", "SHORT")
REFUSED = {
    "SUBQUERY": "SELECT and ANY are not allowed",
    "STAR": "* is not allowed",
    "PARAMETER": "a parameter is not allowed",
    "WINDOW": "a window function is not allowed",
    "POSITIONAL_REFERENCE": "a position is not allowed",
}
Node = dict[str, Any]


class FieldUse(NamedTuple):
    """A field of messages with the type that a condition needs.

    Attributes: path: the names that lead to it, ``("customer", "name")``. place: ``property``, ``body``, or None: the
    property if the message has it, else the value in the JSON body. type: of DuckDB.
    """

    path: tuple[str, ...]
    place: str | None
    type: str

    @property
    def text(self) -> str:
        """The name as users write it."""
        return ".".join([self.place, *self.path] if self.place else self.path)

    @property
    def column(self) -> str:
        """The name of the column that has the values."""
        return self.text if self.type == TEXT else f"{self.text} as {self.type}"


class ParsedCondition(NamedTuple):
    """A condition that was parsed.

    Attributes: sql: the condition for DuckDB; its names are columns of messages, and ``FieldUse.column``. parts: the
    smaller conditions of which AND, OR and NOT make it; for errors. columns: names in a batch. fields: without a type.
    has_text, has_json: whether ``body_text`` and ``body_json`` are used.
    """

    sql: str
    parts: tuple[str, ...]
    columns: tuple[str, ...]
    fields: tuple[FieldUse, ...]
    has_text: bool
    has_json: bool


def parse_condition(connection: Any, text: str) -> ParsedCondition:
    """Parse a condition. Parameters: connection: of DuckDB. Raises: ValueError with the place of what is wrong."""
    tree = parse_tree(connection, text)
    typing = Typing(text)
    root = tree["statements"][0]["node"]["select_list"][0]
    typing.type_fields(root, TRUTH, frozenset())
    sql, *parts = (text_of(connection, tree, node) for node in [root, *smaller_conditions(root)])
    names = typing.columns
    return ParsedCondition(
        sql,
        tuple(parts),
        tuple(name for name in names if name in MESSAGE_FIELDS and name not in TEXTS_OF_BODY),
        tuple(typing.fields),
        BODY_TEXT in names,
        BODY_JSON in names,
    )


def parse_tree(connection: Any, text: str) -> Node:
    """Return the tree of ``SELECT (text)`` as DuckDB's parser makes it.

    Raises: ValueError unless the text is one expression.
    """
    if not text.strip():
        raise ValueError("the condition is empty")
    tree = serialize_statement(connection, f"{BEGIN}{text}\n)")
    if tree.get("error"):
        raise ValueError(syntax_error(text, tree))
    node = tree["statements"][0]["node"]
    is_plain = node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "EMPTY"
    if len(tree["statements"]) != 1 or not is_plain or len(node["select_list"]) != 1:
        raise ValueError(f"{text!r:.200}: one condition was expected, not a statement")
    if serialize_statement(connection, f"SELECT {text}").get(
        "error"
    ):  # it closes the parenthesis, and opens another one
        raise ValueError(f"{text!r:.200}: {NOT_COMPLETE}")
    if node["select_list"][0].get("function_name") == "row":
        raise ValueError(f"{text!r:.200}: one condition was expected, not a list: write AND for a comma")
    return tree


def serialize_statement(connection: Any, statement: str) -> Node:
    """Return the tree of a statement, or an object that has ``error``."""
    answer = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    tree: Node = json.loads(answer[0][0])
    return tree


def syntax_error(text: str, answer: Mapping[str, Any]) -> str:
    """Return DuckDB's error of its parser with the place in the user's text."""
    reason = str(answer.get("error_message", "cannot be parsed")).partition("\n")[0]
    position = str(answer.get("position", ""))
    if not position.isdigit():
        return f"{text!r:.200}: {reason}"
    place = find_place(f"{BEGIN}{text}\n)", int(position), reason) - len(BEGIN)
    if place >= len(text):
        return f"{text!r:.200}: {NOT_COMPLETE}"
    return f"{text!r:.200}, character {max(place, 0) + 1}: {reason}"


def find_place(statement: str, position: int, reason: str) -> int:
    """Return the character of a statement at which an error is.

    Parameters: position: in bytes; in characters in DuckDB 1. reason: names the word there.
    """
    word = reason.partition('"')[2].rpartition('"')[0]
    if word and statement.startswith(word, position):
        return position
    return len(statement.encode()[:position].decode(errors="ignore"))


def text_of(connection: Any, tree: Node, node: Node) -> str:
    """Return a part of a tree as SQL."""
    statement = json.loads(json.dumps(tree))
    statement["statements"][0]["node"]["select_list"] = [node]
    answer = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(statement)]).fetchall()
    return str(answer[0][0]).removeprefix("SELECT ")


def smaller_conditions(node: Node) -> Iterator[Node]:
    """Yield the conditions that AND, OR and NOT combine, at any depth."""
    if node["class"] == "CONJUNCTION" or node["type"] == "OPERATOR_NOT":
        for child in children_of(node):
            if child["class"] == "CONJUNCTION" or child["type"] == "OPERATOR_NOT":
                yield from smaller_conditions(child)
            else:
                yield child


def children_of(value: Any) -> Iterator[Node]:
    """Yield the nodes directly below a node. The lists and objects between them differ between releases of DuckDB."""
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict) and "class" in child:
            yield child
        elif isinstance(child, dict | list):
            yield from children_of(child)


def constant_of(node: Node) -> Any:
    """Return the value of a constant: str, int, float or bool; None for any other node."""
    if node["class"] != "CONSTANT":
        return None
    literal = node.get("literal")
    if literal is not None:  # DuckDB 2
        kind, value = str(literal["kind"]), literal.get("text")
    else:
        value = node["value"].get("value")
        kind = str(node["value"]["type"]["id"])
        if kind == "DECIMAL":
            value, kind = decimal_text(node["value"]), "NUMERIC"
    if value is None:
        return None
    if kind == "BOOLEAN":
        return str(value).lower() == "true"
    if kind in NUMBER_TYPES or kind == "NUMERIC":
        return int(value) if is_integer_text(value) else float(value)
    return str(value) if kind in ("STRING", "VARCHAR") else None


def decimal_text(value: Mapping[str, Any]) -> str:
    scale = int(value["type"]["type_info"]["scale"])
    return f"{value['value']}e-{scale}"


def is_integer_text(value: Any) -> bool:
    return str(value).removeprefix("-").isdigit()


class Typing:
    """Finds the columns and fields of a condition, and types the fields. It changes the tree.

    Attributes: columns: names of MESSAGE_FIELDS, ``body_text`` and ``body_json``. fields: in the condition's order.
    """

    def __init__(self, text: str) -> None:
        self.columns: dict[str, None] = {}
        self.fields: dict[FieldUse, None] = {}
        self._text = text

    def type_fields(self, node: Node, wanted: str, bound: frozenset[str]) -> None:
        """Type the fields of a node and below it.

        Parameters: wanted: the type that a field has if the node is one. bound: names of parameters of lambdas.
        """
        if node["class"] in REFUSED:
            raise ValueError(f"{self._text!r:.200}: {REFUSED[node['class']]}: one condition on a message was expected")
        if node["class"] == "LAMBDA":
            parameters = {child["column_names"][0] for child in parameters_of(node)}
            self.type_fields(node["expr"], TEXT, bound | parameters)
        elif (names := names_of(node)) is not None:
            if names[0] not in bound:
                self._replace(node, names, wanted)
        else:
            for child, type_of_child in self._types_below(node, wanted):
                self.type_fields(child, type_of_child, bound)

    def _replace(self, node: Node, names: Sequence[str], wanted: str) -> None:
        """Make a node the reference of a column, or of the values of a field."""
        column = column_of(names)
        if column is None:
            use = field_use(names, wanted)
            self.fields[use] = None
            column = use.column
        else:
            self.columns[column] = None
            column = MESSAGE_FIELDS[column].name if column in MESSAGE_FIELDS else column
        alias = node.get("alias", "")
        place: Node = {name: node[name] for name in ("query_location", "query_location_length") if name in node}
        node.clear()
        node.update(place, type="COLUMN_REF", alias=alias, column_names=[column])
        node["class"] = "COLUMN_REF"

    def _types_below(self, node: Node, wanted: str) -> list[tuple[Node, str]]:
        """Return the nodes below a node, each with the type that it has if it is a field."""
        children = [*children_of(node)]
        name = str(node.get("function_name", "")).lower()
        match node["class"]:
            case "CONJUNCTION":
                return [(child, TRUTH) for child in children]
            case "COMPARISON" | "BETWEEN":
                return [(child, self._common_type(node, children)) for child in children]
            case "CASE":
                return self._types_in_case(node, wanted)
            case "CAST":
                if any(is_field(child) for child in children):
                    node["try_cast"] = True  # a value of another form is null, and ends no scan
            case "OPERATOR" if node["type"] == "OPERATOR_NOT":
                return [(child, TRUTH) for child in children]
            case "OPERATOR" if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
                return [(child, self._common_type(node, children)) for child in children]
            case "OPERATOR" if node["type"] in ("OPERATOR_COALESCE", "OPERATOR_NULLIF"):
                common = common_type(children)
                return [(child, wanted if common is None else common) for child in children]
            case "OPERATOR" if node["type"] in ("ARRAY_EXTRACT", "STRUCT_EXTRACT", "ARROW"):
                return [(child, JSON) for child in children]
            case "FUNCTION" if name in JSON_FUNCTIONS or name.startswith("json_"):
                return [(child, JSON) for child in children]
            case "FUNCTION" if name in CALCULATIONS or name in NUMBER_FUNCTIONS:
                return [(child, DOUBLE) for child in children]
        return [(child, TEXT) for child in children]

    def _common_type(self, node: Node, operands: Sequence[Node]) -> str:
        """Return the type of the fields among the operands of a comparison.

        Raises: ValueError if two fields are compared by size, since nothing says whether they are numbers.
        """
        common = common_type(operands)
        lists = [name for child in operands if (name := find_list(child)) is not None]
        if lists and any(isinstance(constant_of(child), str) for child in operands):
            hint = "write property.NAME" if lists[0] == "properties" else f"write 'TEXT' IN {lists[0]}"
            raise ValueError(f"{self._text!r:.200}: {lists[0]} has several values: {hint}")
        if common is not None:
            return common
        is_order = node["type"] in ORDERS or node["class"] == "BETWEEN"
        unknown = [child for child in operands if is_field(child)]
        if is_order and len(unknown) == len(operands):
            first, second = (field_use(names_of(child) or (), TEXT).text for child in unknown[:2])
            text = f"the types of {first} and {second} are not known"
            raise ValueError(f"{self._text!r:.200}: {text}: write {first}::DOUBLE, or {first}::VARCHAR for texts")
        return TEXT

    def _types_in_case(self, node: Node, wanted: str) -> list[tuple[Node, str]]:
        """Return the conditions and the results of CASE, with their types."""
        conditions = [check["when_expr"] for check in node["case_checks"]]
        results = [*(check["then_expr"] for check in node["case_checks"]), node["else_expr"]]
        common = common_type(results) or wanted
        return [(child, TRUTH) for child in conditions] + [(child, common) for child in results]


def parameters_of(node: Node) -> list[Node]:
    """Return the parameters of a lambda: one reference, or several as the arguments of a row."""
    left = node["lhs"]
    return [left] if left["class"] == "COLUMN_REF" else [*children_of(left)]


def names_of(node: Node) -> tuple[str, ...] | None:
    """Return the names of a reference: ``body.items[0].price`` has body, items, 0 and price. None: it is none."""
    if node["class"] == "COLUMN_REF":
        return tuple(node["column_names"])
    if node["type"] in ("ARRAY_EXTRACT", "STRUCT_EXTRACT"):
        base, key = [*children_of(node)][:2]
        names, value = names_of(base), constant_of(key)
        is_step = isinstance(value, str) or (isinstance(value, int) and value >= 0)
        if names is not None and is_step and column_of(names) is None:
            return (*names, str(value))
    return None


def is_field(node: Node) -> bool:
    """Return whether a node is the reference of a field."""
    names = names_of(node)
    return names is not None and column_of(names) is None


def column_of(names: Sequence[str]) -> str | None:
    """Return the column that a reference names, without regard to case; None if it names a field."""
    name = find_column(names[0]) if len(names) == 1 else None
    return name if name in (BODY_TEXT, BODY_JSON) or name in COLUMNS else None


def find_list(node: Node) -> str | None:
    """Return the name of the column with lists or maps that a node is; None for any other node."""
    column = column_of(names_of(node) or ("",))
    return column if column in MESSAGE_FIELDS and MESSAGE_FIELDS[column].format in ("+l", "+m") else None


def field_use(names: Sequence[str], wanted: str) -> FieldUse:
    """Return the field that a reference names."""
    first, rest = names[0].lower(), tuple(names[1:])
    if rest and first in (PROPERTY, "properties"):
        return FieldUse((".".join(rest),), PROPERTY, wanted)
    if rest and first in (BODY, BODY_JSON):
        return FieldUse(rest, BODY, wanted)
    return FieldUse(tuple(names), None, wanted)


def common_type(nodes: Sequence[Node]) -> str | None:
    """Return the type of a field that is compared with some of these nodes; None if nothing shows it."""
    found = [known for node in nodes if (known := known_type(node)) is not None]
    return next((name for name in (DECIMAL, DOUBLE, TRUTH, TEXT) if name in found), None)


def known_type(node: Node) -> str | None:
    """Return the type of a node as far as it matters for fields that are compared with it. None for fields."""
    names = names_of(node)
    if names is not None:
        column = column_of(names)
        form = MESSAGE_FIELDS[column].format if column in MESSAGE_FIELDS else TEXT
        return None if column is None else DECIMAL if form in INTEGER_FORMATS else TEXT
    name = str(node.get("function_name", "")).lower()
    match node["class"]:
        case "CONSTANT":
            return type_of_constant(constant_of(node))
        case "COMPARISON" | "BETWEEN" | "CONJUNCTION":
            return TRUTH
        case "CASE":
            return common_type([*(check["then_expr"] for check in node["case_checks"]), node["else_expr"]])
        case "CAST":
            return type_of_cast(node)
        case "OPERATOR" if node["type"] in ("OPERATOR_COALESCE", "OPERATOR_NULLIF"):
            return common_type([*children_of(node)])
        case "OPERATOR":
            return TRUTH if node["type"].startswith(("OPERATOR_IS", "OPERATOR_NOT", "COMPARE")) else TEXT
        case "FUNCTION" if name == "-" and (known := common_type([*children_of(node)])) is not None:
            return known
        case "FUNCTION" if name in CALCULATIONS or name in NUMBER_FUNCTIONS or name in COUNT_FUNCTIONS:
            return DOUBLE
    return TEXT


def type_of_constant(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int):
        return DOUBLE if abs(value) < EXACT else DECIMAL
    return DOUBLE if isinstance(value, float) else TEXT


def type_of_cast(node: Node) -> str:
    found = node.get("type_expr") or node.get("cast_type") or {}
    name = str(found.get("type_name") or found.get("id") or "").upper()
    if name == "BOOLEAN":
        return TRUTH
    return DOUBLE if name.startswith(NUMBER_TYPES) else TEXT
