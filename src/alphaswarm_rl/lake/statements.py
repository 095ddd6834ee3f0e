"""Which statements of a user's only read: judged by DuckDB's own parser, before anything runs.

A statement may hide another: behind EXPLAIN, in a WITH, in a text that a function executes. So the whole tree of a
statement is looked at, and what is not known to read is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import duckdb

from alphaswarm_rl.core.errors import DataError

VIEWS = (
    "Views: rl_trajectories, rl_equity_curves, rl_action_logs, rl_reward_decomposition, rl_positions, rl_fills; of one "
    'run rl_<kind>_run_<first 12 digits of its id>; of one spec alphaswarm_silver_rl_<kind>."<spec hash>"; of ledger '
    "and registry runs, versions, evaluations, events, models, promotions. "
    "Their columns: DESCRIBE rl_trajectories."
)
#: What a tree may consist of, beside expressions: queries, what they are from, and how rows are ordered and limited.
_READING = {
    *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
    *("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"),
    *("DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"),
    *("ASCENDING", "DESCENDING", "ORDER_DEFAULT"),
}
_TYPE = "_TYPE_INFO"
#: Functions that give tables, open no file and execute no text.
_TABLE_FUNCTIONS = {
    *("generate_series", "histogram", "histogram_values", "json_each", "json_tree", "range", "repeat", "repeat_row"),
    *("unnest", "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_schemas", "duckdb_tables"),
    *("duckdb_types", "duckdb_views", "pg_timezone_names", "pragma_show", "pragma_table_info"),
}


def refuse_writing(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Refuses what is not one statement that only reads.

    Raises:
        DataError: It would change something, open a file, or is several statements.
        duckdb.Error: It cannot be parsed.
    """
    kinds = _kinds(connection, statement)
    if kinds == ["EXPLAIN"]:  # EXPLAIN ANALYZE runs what it explains
        statement = _explained(connection, statement)
        kinds = _kinds(connection, statement)
    if kinds == ["MULTI"]:
        why = "a PIVOT without values takes several statements"
        raise DataError("the SQL statement", why, "Name its values: PIVOT ... ON column IN (...).")
    if kinds != ["SELECT"]:
        why = "rl sql only reads" if len(kinds) == 1 else f"rl sql takes one statement, not {len(kinds)}"
        raise DataError("the SQL statement", why, f"Give one SELECT. {VIEWS}")
    for node in _nodes(_tree(connection, statement)):
        _refuse_node(node)


def _kinds(connection: duckdb.DuckDBPyConnection, statements: str) -> list[str]:
    return [statement.type.name for statement in connection.extract_statements(statements)]


def _explained(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """What an EXPLAIN explains: what follows it, its ANALYZE or its options in brackets; nothing where none parses."""
    places = [place for place, kind in duckdb.tokenize(statement) if kind != duckdb.token_type.comment]
    words = [statement[place:end].strip().lower() for place, end in pairwise([*places, len(statement)])]
    first = 2 if words[1].startswith("analy") else 1
    closing = words.index(")", first) + 1 if words[first] == "(" and ")" in words else first
    for begin in (first, closing):
        rest = statement[places[begin] :] if begin < len(places) else ""
        try:
            _kinds(connection, rest)
        except duckdb.ParserException:
            continue
        return rest
    return ""


def _tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Any:
    """A SELECT as its parser sees it."""
    ((serialised,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    try:
        tree = json.loads(serialised)
    except RecursionError as error:
        raise DataError("the SQL statement", "it is nested too deeply", "Write it in parts, with WITH.") from error
    if tree["error"]:
        raise DataError("the SQL statement", f"what it does cannot be seen: {tree['error_message']}", VIEWS)
    return tree["statements"]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a tree."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _refuse_node(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if "class" in node or not isinstance(kind, str):  # an expression, a value or a list of names
        return
    if kind not in _READING and not kind.endswith(_TYPE):
        what = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
        raise DataError("the SQL statement", f"rl sql only reads, and {what} is in it", f"Give one SELECT. {VIEWS}")
    if kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name")).lower()
        if name not in _TABLE_FUNCTIONS:
            why = f"rl sql reads the views alone, and the function {name} is in it"
            raise DataError("the SQL statement", why, VIEWS)
