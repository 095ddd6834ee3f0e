"""From a table whose columns have names of their own to one whose columns are named by what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.market.panel_columns import SPELLINGS, NoSuchColumn, canonical, has_lines

if TYPE_CHECKING:
    import pandas as pd

#: What a pattern of wide columns has in place of the asset's name and of the column's.
_ASSET, _COLUMN = "{asset}", "{column}"


def check_pattern(pattern: str) -> None:
    """Refuses a pattern by which nobody can tell assets from columns."""
    if pattern.count(_ASSET) != 1 or pattern.count(_COLUMN) != 1:
        raise DataError(
            f"the pattern {pattern!r}", "it needs {asset} and {column}, once each", "Such as: {asset}_{column}."
        )
    between = re.split(r"\{asset\}|\{column\}", pattern)[1]
    if not between:
        raise DataError(
            f"the pattern {pattern!r}", "nothing stands between asset and column", "Such as: {asset}_{column}."
        )


def renamed(frame: pd.DataFrame, columns: Mapping[str, str], features: Iterable[str]) -> pd.DataFrame:
    """The columns that are read, named by what they are.

    Args:
        frame: The table.
        columns: The table's own name of each column by what it is.
        features: Columns that are taken as they are, beside them.
    """
    sources = {**{name: name for name in features}, **columns}
    frame = _with_index(frame, sources.values())
    names = [str(name) for name in frame.columns]
    for meaning, source in sources.items():
        if source not in names:
            what = f"column {source!r}" + (f" (for {meaning!r})" if source != meaning else "")
            raise NoSuchColumn(what, "the data has no such column", nearest(source, names))
    return frame[list(sources.values())].set_axis(list(sources), axis=1)


def _with_index(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """The frame with index levels that are asked for as columns."""
    levels = {str(name) for name in frame.index.names if name is not None}
    return frame.reset_index() if levels & set(names) else frame


def long_of_wide(
    frame: pd.DataFrame, pattern: str, columns: Mapping[str, str], features: Sequence[str]
) -> pd.DataFrame:
    """One row per bar and asset, from one row per moment with a column for each column of each asset.

    Args:
        frame: The table. Columns of two levels are joined by a blank first.
        pattern: How its columns are called, such as `{asset}_{column}`.
        columns: The table's own words by what they are; other columns are known by the usual spellings.
        features: Columns of every asset that are taken as features.
    """
    import pandas as pd

    if frame.columns.nlevels > 1:
        frame = frame.set_axis([" ".join(map(str, name)).strip() for name in frame.columns], axis=1)
    times = _moments(frame, columns.get("timestamp"))
    meanings = _meanings(columns, features)
    matches = _pattern(pattern, meanings)
    found: dict[str, dict[str, pd.Series]] = {}
    for position, name in enumerate(map(str, frame.columns)):
        match = matches.fullmatch(name)
        if match is None:
            continue
        word = match["column"]
        meaning = meanings.get(word) or meanings[word.lower()]
        own = found.setdefault(match["asset"], {})
        if meaning in own:
            raise DataError(f"column {name!r}", f"another column of {match['asset']!r} is its {meaning}", "Drop one.")
        own[meaning] = frame.iloc[:, position]
    if not found:
        known = ", ".join(map(str, frame.columns[:10]))
        why = f"no column is called so; there are: {known}"
        raise NoSuchColumn(f"the pattern {pattern!r}", why, "Change the pattern.")
    tables = [pd.DataFrame({"timestamp": times, "asset": asset, **found[asset]}) for asset in sorted(found)]
    # A line of the file is that of a row of every asset.
    return pd.concat(tables, ignore_index=not has_lines(frame))


def _meanings(columns: Mapping[str, str], features: Sequence[str]) -> dict[str, str]:
    """What the words in the names of wide columns mean: the table's own words, then the usual spellings of the rest."""
    own = {source: meaning for meaning, source in columns.items() if meaning != "timestamp"}
    own |= {name: name for name in features if name not in columns}
    known = {*columns, *features, "timestamp", "asset"}
    usual = {word: meaning for meaning, words in SPELLINGS.items() if meaning not in known for word in words}
    return usual | {source.lower(): meaning for source, meaning in own.items()} | own


def _pattern(pattern: str, words: Iterable[str]) -> re.Pattern[str]:
    """What a column's name looks like; longer words first, so that adj_close is not read as close."""
    alternatives = "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word)))
    written = re.escape(pattern).replace(re.escape(_ASSET), "(?P<asset>.+?)")
    return re.compile(written.replace(re.escape(_COLUMN), f"(?P<column>(?i:{alternatives}))"))


def _moments(frame: pd.DataFrame, source: str | None) -> pd.Series:
    """The column of moments, or the index where that has them."""
    import pandas as pd

    if source is not None:
        return renamed(frame, {"timestamp": source}, ())["timestamp"].reset_index(drop=True).set_axis(frame.index)
    column = next((name for name in frame.columns if canonical(name) == "timestamp"), None)
    if column is not None:
        return frame[column]
    if isinstance(frame.index, pd.DatetimeIndex) or canonical(frame.index.name) == "timestamp":
        return pd.Series(frame.index, index=frame.index)
    spellings = ", ".join(SPELLINGS["timestamp"])
    why = f"the data has no such column; spellings that count: {spellings}"
    raise NoSuchColumn("column 'timestamp'", why, "Name it by columns: {timestamp: NAME}.")
