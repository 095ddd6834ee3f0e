"""Questions in SQL about recorded steps, the ledger and the model registry."""

from __future__ import annotations

from alphaswarm_rl.lake.queries import Rows, kinds_without_table, query
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Notice
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.settings import Settings


class Query(Data):
    """A question.

    Attributes:
        statement: One SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN of DuckDB's.
        limit: At most that many rows are given.
    """

    statement: str
    limit: Count = 1000


class QueryResult(Rows, Data, apart=("more",)):
    """What a question gave; whether there is more is for people."""


@operation("sql")
def run_query(settings: Settings, request: Query, *, caller: Caller = NOBODY) -> QueryResult:
    """The rows that a statement gives; one that would change anything is refused, by `lake.queries`.

    Args:
        settings: Whose tables.
        request: The question.
        caller: Hears of steps that it asks for and that nothing has recorded.
    """

    def whole_ids(beginnings: list[str]) -> list[str]:
        if not beginnings:
            return []
        with Ledger.open(settings) as ledger:
            return [ledger.run(beginning).id for beginning in beginnings]

    result = QueryResult(**vars(query(settings, request.statement, request.limit, whole_ids)))
    absent = kinds_without_table(settings, request.statement)
    if absent:
        names = ", ".join(f"rl_{kind}" for kind in absent)
        why = f"no table of {names} is there yet in {str(settings.lake_path)!r}, so that there are no rows"
        caller.listen(Notice(f"{why}; runs record steps: rl train SPEC, rl lake commit"))
    return result
