"""`rl data`: market data before anything is trained on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, columns, pairs
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.market_data import CheckedData, ShownData

#: What separates the cells of a CSV file, as its request has it.
_SEPARATORS = (",", ";", "|", "tab")


@click.group()
def data() -> None:
    """Look at market data: what there is, and what is wrong with it."""


def _of_a_file(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what says how a file is read."""
    column = "Of a file: a column by what it is, such as close=px; others are left out. Repeatable."
    pattern = "Of a wide file: how it calls a column of an asset, such as '{asset}_{column}'."
    signs = click.Choice(_SEPARATORS)
    for option in (
        click.option("--decimal", type=click.Choice([".", ","]), help="Of a CSV file: its decimal sign."),
        click.option("--separator", type=signs, help="Of a CSV file: what separates its cells."),
        click.option("--asset", metavar="NAME", help="Of a file: its only asset, where no column names it."),
        click.option("--wide-columns", metavar="PATTERN", help=pattern),
        click.option("--wide", is_flag=True, help="Of a file: one row per moment; closes with a column per asset."),
        click.option("--column", "columns", multiple=True, metavar="MEANING=NAME", help=column),
        click.argument("file_or_spec", metavar="FILE|SPEC"),
    ):
        function = option(function)
    return function


def _named(wide: bool, chosen: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request, out of the options."""
    return {"layout": "wide" if wide or chosen["wide_columns"] else "long", **chosen}


@verb("data.check", group=data)
@_of_a_file
def check(session: Session, wide: bool, **chosen: Any) -> None:
    """Name everything that is wrong with bars, before a run is.

    FILE is a CSV file, which may be compressed by gzip, or a Parquet file. SPEC is a YAML file, a preset or a run,
    whose data_pipeline is asked for all its bars. Errors make bars unusable; warnings look wrong and may be right: runs
    tell them as notices. Exits with 1 when anything is found.

    Args:
        session: This call.
        wide: Whether there is one row per moment.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.market_data import NamedData, check_market_data

    result = check_market_data(session.load_settings, NamedData(**_named(wide, chosen)))
    session.answer(result, [*_head(result), *_findings(result)])
    if not result.clean:
        raise click.exceptions.Exit(BROKEN)


@verb("data.show", group=data)
@_of_a_file
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE", help="Write a picture to FILE, as SVG.")
def show(session: Session, wide: bool, **chosen: Any) -> None:
    """Show what there is of bars: columns, span, calendar, and each asset's own.

    FILE is a CSV file, which may be compressed by gzip, or a Parquet file. SPEC is a YAML file, a preset or a run,
    whose data_pipeline is asked for all its bars.

    Args:
        session: This call.
        wide: Whether there is one row per moment.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.market_data import ShowData, show_market_data

    result = show_market_data(session.load_settings, ShowData(**_named(wide, chosen)))
    wrote = [] if result.picture is None else ["", f"wrote {result.picture}"]
    session.answer(result, [*_facts(result), "", *_coverage(result), "", *_findings(result), *wrote])


def _head(result: CheckedData) -> list[str]:
    found = result.summary
    traded = ", ".join(part for part in (found.bar, found.days, found.exchange) if part)
    span = f" from {found.start} to {found.end} ({traded})" if found.start else ""
    return [f"{result.source}: {found.assets} assets, {found.bars} bars{span}"]


def _facts(result: ShownData) -> list[str]:
    found = result.summary
    names = ("assets", "bars", "rows", "start", "end", "bar", "days", "exchange", "periods_per_year", "adjusted")
    named = {meaning: name if name == meaning else f"{name} ({meaning})" for meaning, name in found.columns.items()}
    return pairs(
        {
            "source": result.source,
            "columns": ", ".join(named.values()),
            **{name: getattr(found, name) for name in names},
            "fingerprint": found.fingerprint,
            "data_pipeline": as_json_line(result.pipeline),
        }
    )


def _coverage(result: ShownData) -> list[str]:
    headers = ("ASSET", "BARS", "FIRST", "LAST", "MISSING", "LONGEST GAP", "UNCHANGED", "NO VOLUME", "LARGEST MOVE", "")
    rows = [
        (
            *(row.asset, row.bars, row.first, row.last, row.missing, row.longest_gap, row.unchanged, row.zero_volume),
            "-" if row.largest_at is None else f"{row.largest_move:+.1%} {row.largest_at}",
            ", ".join(["listed late"] * row.listed_late + ["ends early"] * row.ends_early),
        )
        for row in result.coverage
    ]
    return columns(headers, rows)


def _findings(result: CheckedData | ShownData) -> list[str]:
    found = result.summary
    if not found.findings:
        return ["nothing looks wrong"]
    rows = [(row.severity, row.defect, row.asset, row.count, row.place, row.text) for row in found.findings]
    remedies = dict.fromkeys(f"{row.defect}: {row.remedy}" for row in found.findings)
    counts = f"{_count(found.errors, 'error')}, {_count(found.warnings, 'warning')}"
    return [*columns(("", "WHAT", "ASSET", "COUNT", "WHERE", "HOW"), rows), "", *remedies, counts]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
