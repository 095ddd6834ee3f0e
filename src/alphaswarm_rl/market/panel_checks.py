"""Checks of bars and panels. Errors name row, asset and column; rows count from 0, and a header is not one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike

from alphaswarm_rl.core.control_characters import refuse_control_characters
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.panel import BAR_COLUMNS, MarketPanel

#: Says where the number with that flat index was found.
Place = Callable[[int], str]

PRICES = ("close", "open", "high", "low", "adj_close")
AMOUNTS = ("volume", "dividends", "splits")
#: Columns that every bar has when the source has them at all; dividends and splits are rare and may be left out.
WITH_EVERY_BAR = ("open", "high", "low", "adj_close", "volume")


#: Opens and closes beyond high and low by more than this part are no rounding.
BEYOND = 1e-3
_PRICE = ("it is not a price: prices are positive and finite", "Mend it, or leave it empty: a missing bar is a gap.")
_AMOUNT = ("it must be finite and not negative", "Mend it.")
_MISSING = ("the bar has a close but no value here", "Mend the bar, or leave the column out.")


def check_bars(columns: Mapping[str, Array], place: Place) -> None:
    """Checks the numbers of bars before any gap is filled; a bar whose close is NaN is a gap and says nothing.

    Args:
        columns: Arrays of one shape by canonical name, with at least `close`.
        place: Says where a flat index lies.
    """
    present = ~np.isnan(columns["close"])
    for name, values in columns.items():
        if name in PRICES:
            _refuse(~np.isnan(values) & ~((values > 0) & np.isfinite(values)), values, name, place, _PRICE)
        elif name in AMOUNTS:
            _refuse(~np.isnan(values) & ~((values >= 0) & np.isfinite(values)), values, name, place, _AMOUNT)
        if name in WITH_EVERY_BAR:
            _refuse(present & np.isnan(values), values, name, place, _MISSING)
    if "high" in columns and "low" in columns:
        high, low = columns["high"], columns["low"]
        bad = np.flatnonzero(present & (high < low))
        if len(bad):
            raise DataError(
                f"{place(int(bad[0]))}, columns 'high' and 'low'",
                f"the high {high.flat[bad[0]]:g} is below the low {low.flat[bad[0]]:g}",
                "Mend the bar, or drop it: a missing bar is a gap.",
            )
    _refuse_outside(columns, present, place)


def _refuse_outside(columns: Mapping[str, Array], present: Array, place: Place) -> None:
    for name in ("open", "close"):
        for bound, sign in (("high", 1.0), ("low", -1.0)):
            if name not in columns or bound not in columns:
                continue
            values, limits = columns[name], columns[bound]
            bad = np.flatnonzero(present & (sign * (values - limits) > BEYOND * limits))
            if len(bad):
                raise DataError(
                    f"{place(int(bad[0]))}, columns {name!r} and {bound!r}",
                    f"the {name} {values.flat[bad[0]]:g} is {'above' if sign > 0 else 'below'} the {bound} "
                    f"{limits.flat[bad[0]]:g}",
                    "Mend the bar, or drop it: a missing bar is a gap.",
                )


def _refuse(bad: Array, values: Array, name: str, place: Place, text: tuple[str, str]) -> None:
    found = np.flatnonzero(bad)
    if len(found):
        raise DataError(f"{place(int(found[0]))}, column {name!r}", f"{values.flat[found[0]]:g}: {text[0]}", text[1])


def check_times(timestamps: Array, place: Place) -> None:
    """Checks that moments strictly increase."""
    steps = np.diff(timestamps).astype(np.int64)
    bad = np.flatnonzero(steps <= 0)
    if len(bad):
        row = int(bad[0]) + 1
        repeated = steps[row - 1] == 0
        raise DataError(
            place(row),
            "a bar of this moment came before" if repeated else "it is earlier than the bar before it",
            "Keep one of them." if repeated else "Sort the bars by time (data_pipelines.steps.clean does).",
        )


def check_names(names: Sequence[object], what: str) -> tuple[str, ...]:
    """The names as text; one that is not text, is empty or is repeated is an error."""
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise DataError(
                f"{what} {position}", f"its name {name!r} is {type(name).__name__}, not text", "Name it by text."
            )
        refuse_control_characters(f"the name of {what} {position}", name, DataError)
    texts = tuple(str(name) for name in names)
    repeated = {name for name in texts if texts.count(name) > 1} if len(set(texts)) < len(texts) else set()
    if repeated:
        raise DataError(f"{what} {min(repeated)!r}", "the name is there twice", "Keep one of them.")
    return texts


def check_structure(panel: MarketPanel) -> None:
    """Checks what every panel fulfils, cut or whole: types, shapes, increasing moments, at least two bars."""
    length, assets = len(panel.timestamps), len(panel.assets)
    if length < 2:
        raise DataError("the panel", f"it has {length} bar(s) and 2 are needed", "Give it more bars.")
    if not assets:
        raise DataError("the panel", "it has no asset", "Give it at least one.")
    check_names(panel.assets, "asset")
    check_names((*panel.feature_names, *panel.market_feature_names), "feature")
    features, market = len(panel.feature_names), len(panel.market_feature_names)
    kinds = panel.features.dtype
    if kinds not in (np.float32, np.float64):
        raise DataError("features", f"their type is {kinds}", "Make it float32 or float64.")
    expected: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
        "timestamps": ((length,), np.dtype("datetime64[ns]")),
        "tradable": ((length, assets), np.bool_),
        "last_bar": ((assets,), np.int64),
        "features": ((length, assets, features), kinds),
        "feature_from": ((assets, features), np.int64),
        "market_features": ((length, market), kinds),
        "market_feature_from": ((market,), np.int64),
        **dict.fromkeys(BAR_COLUMNS, ((length, assets), np.float64)),
    }
    for name, (shape, dtype) in expected.items():
        array = getattr(panel, name)
        if array is not None and (array.shape != shape or array.dtype != dtype):
            raise DataError(
                f"array {name!r}",
                f"it is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}",
                "Use one of the from_ constructors.",
            )
    check_times(panel.timestamps, lambda row: f"row {row}, column 'timestamp'")
    if panel.adjusted and (panel.dividends is not None or panel.splits is not None):
        raise DataError(
            "the panel", "its prices are adjusted and it has dividends or splits, which would count twice", "Keep one."
        )
    unknown = panel.training_only_features - {*panel.feature_names, *panel.market_feature_names}
    if unknown:
        raise DataError(f"training-only feature {min(unknown)!r}", "the panel has no such feature", "Add it, or not.")
    if not panel.periods_per_year > 0 or not 0 <= panel.warmup < length:
        raise DataError(
            "the panel",
            f"periods_per_year is {panel.periods_per_year} and warmup {panel.warmup} of {length} bars",
            "The first is positive, the second leaves bars to trade.",
        )
