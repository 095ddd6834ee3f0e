"""What looks wrong in bars that are formally right: splits nobody marked, jumps, gaps, stale prices, days that lack.

Everything is vectorised over assets; only moves that stand out are looked at one by one. A threshold is a multiple of
an asset's own usual move where it can be, so that quiet and wild assets are judged alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.market.findings import Finding, finding
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.trading_days import TradingDays, run_lengths, trading_days

#: A move stands out when it is larger than this, in natural logarithms, and than so many usual moves.
_STANDS_OUT, _USUAL_MOVES = 0.35, 8.0
#: A move that nobody believes without a look: to three times the price, or a third of it.
_JUMP = float(np.log(3.0))
#: A factor that only another unit explains.
_UNIT = float(np.log(50.0))
#: How far a move is from a power of ten that is a change of unit.
_UNIT_TOLERANCE = 0.3
#: Bars until a price that went away has come back, and how much of the way it may lack.
_SPIKE_BARS, _SPIKE_REST = 20, 0.15
#: Shares after one share before, of splits that companies make. A fall by a third is news more often than a split: it
#: is believed to be one only where a volume says that it was no news.
_SPLITS = np.array([1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50])
_BARE_SPLITS = _SPLITS[_SPLITS >= 2]
#: How far a split's move is from its ratio: at least this, or so many usual moves without and with a volume.
_SPLIT_TOLERANCE, _BARE_MOVES, _VOLUME_MOVES = 0.02, 1.5, 3.0
#: What is traded, in medians of the bars before: at news more than that, at a split not.
_NEWS, _NEWS_BARS = 3.0, 20
#: A marked split is missing in prices that moved by less than this part of it.
_SHOWN, _SMALLEST_MARKED = 0.35, 0.3
#: Closes in a row that may be equal, and how many times the longest run that chance would give.
_STALE, _STALE_CHANCE = 10, 3.0
#: What may lack without a word: a part of the bars, and bars in a row.
_BORNE_SHARE, _BORNE_RUN = 0.01, 5


_OPTIONAL = ("open", "high", "low", "volume", "splits", "dividends")


@dataclass(frozen=True)
class Bars:
    """Bars of A assets at T moments as they are looked at.

    Attributes:
        timestamps: Moments, (T,) datetime64[ns], increasing.
        assets: Names of the A assets.
        present: Where an asset has a bar, (T, A) bool.
        close: Closes, (T, A), the last one carried over gaps; NaN before the first.
        open: Opens, or None, as are the other columns that are not there.
        high: Highs.
        low: Lows.
        volume: Units traded.
        splits: Shares after one before, 1 where there is none.
        dividends: Cash per share.
    """

    timestamps: Array
    assets: tuple[str, ...]
    present: Array
    close: Array
    open: Array | None = None
    high: Array | None = None
    low: Array | None = None
    volume: Array | None = None
    splits: Array | None = None
    dividends: Array | None = None

    @classmethod
    def of_panel(cls, panel: MarketPanel) -> Bars:
        """The bars of a panel."""
        columns = {name: getattr(panel, name) for name in _OPTIONAL}
        return cls(panel.timestamps, panel.assets, panel.tradable, panel.close, **columns)

    def since(self, bar: int) -> Bars:
        """The bars from one on."""
        given = ((name, getattr(self, name)) for name in ("timestamps", "present", "close", *_OPTIONAL))
        return replace(self, **{name: values[bar:] for name, values in given if values is not None})

    def day(self, bar: int | np.integer) -> str:
        """The moment of a bar, in words."""
        return shown(self.timestamps[int(bar)])


@dataclass(frozen=True)
class Coverage:
    """What there is of each asset: arrays (A,).

    Attributes:
        bars: How many bars.
        first: Index of the first; T where there is none.
        last: Index of the last; -1 where there is none.
        missing: Bars between them that others have.
        longest_gap: The most of those in a row.
        gap_start: Index of the first of these.
        unchanged: The most closes in a row that repeat the one before.
        unchanged_end: Index of the last of these.
        repeated: Share of closes that repeat the one before.
        zero_volume: Bars without volume.
        largest_move: The largest change of a close in one bar, as a return.
        largest_at: Index of that bar.
    """

    bars: Array
    first: Array
    last: Array
    missing: Array
    longest_gap: Array
    gap_start: Array
    unchanged: Array
    unchanged_end: Array
    repeated: Array
    zero_volume: Array
    largest_move: Array
    largest_at: Array


@dataclass(frozen=True)
class BarCheck:
    """Everything that was seen in bars.

    Attributes:
        findings: What looks wrong.
        coverage: What there is of each asset.
        days: When they trade.
    """

    findings: tuple[Finding, ...]
    coverage: Coverage
    days: TradingDays


@dataclass(frozen=True)
class _Moves:
    """Moves of closes from one bar of an asset to its next, in natural logarithms, (T, A).

    Attributes:
        bare: As prices say; NaN where there is none.
        held: What a holder had of it: with marked splits and dividends.
    """

    bare: Array
    held: Array
    usual: dict[int, float] = field(default_factory=dict)

    def usual_of(self, asset: int) -> float:
        """The usual size of an asset's move: a standard deviation by the median, which outliers do not change."""
        if asset not in self.usual:
            sizes = np.abs(self.held[:, asset])
            sizes = sizes[~np.isnan(sizes)]
            self.usual[asset] = 1.4826 * float(np.median(sizes)) if len(sizes) else 0.0
        return self.usual[asset]


def check_bars_of(bars: Bars) -> BarCheck:
    """Looks at bars; at least two moments and one asset."""
    moves = _moves(bars)
    coverage = _coverage(bars, moves)
    days = trading_days(bars.timestamps)
    findings = [
        *_prices(bars, moves),
        *_unshown_splits(bars, moves),
        *_wicks(bars),
        *_misaligned(bars, coverage),
        *_gaps(bars, coverage),
        *days.findings,
        *_stale(bars, coverage),
        *_without_volume(bars, coverage),
        *_copies(bars),
    ]
    return BarCheck(tuple(findings), coverage, days)


def _moves(bars: Bars) -> _Moves:
    bare = np.full(bars.close.shape, np.nan)
    moved = bars.present[1:] & ~np.isnan(bars.close[:-1])
    value = bars.close[1:]
    np.log(np.divide(value, bars.close[:-1], where=moved, out=np.ones_like(value)), where=moved, out=bare[1:])
    if bars.splits is None and bars.dividends is None:
        return _Moves(bare, bare)
    if bars.splits is not None:
        value = value * bars.splits[1:]
    if bars.dividends is not None:
        value = value + bars.dividends[1:]
    held = np.full_like(bare, np.nan)
    np.log(np.divide(value, bars.close[:-1], where=moved, out=np.ones_like(value)), where=moved, out=held[1:])
    return _Moves(bare, held)


def _coverage(bars: Bars, moves: _Moves) -> Coverage:
    present, length = bars.present, len(bars.timestamps)
    some = present.any(axis=0)
    first = np.where(some, present.argmax(axis=0), length)
    last = np.where(some, length - 1 - present[::-1].argmax(axis=0), -1)
    places = np.arange(length)[:, None]
    absent = ~present & (places > first) & (places < last)
    gaps = run_lengths(absent)
    longest = gaps.max(axis=0)
    repeats = present & (moves.bare == 0)
    unchanged = run_lengths(repeats)
    count = present.sum(axis=0)
    sizes = np.nan_to_num(np.abs(moves.held), nan=-1.0)
    largest_at = sizes.argmax(axis=0)
    largest = np.take_along_axis(moves.held, largest_at[None], axis=0)[0]
    empty = np.zeros(len(bars.assets), np.int64)
    return Coverage(
        bars=count,
        first=first,
        last=last,
        missing=absent.sum(axis=0),
        longest_gap=longest,
        gap_start=gaps.argmax(axis=0) - longest + 1,
        unchanged=unchanged.max(axis=0),
        unchanged_end=unchanged.argmax(axis=0),
        repeated=repeats.sum(axis=0) / np.maximum(count, 1),
        zero_volume=empty if bars.volume is None else (present & (bars.volume == 0)).sum(axis=0),
        largest_move=np.expm1(np.nan_to_num(largest)),
        largest_at=largest_at,
    )


def _prices(bars: Bars, moves: _Moves) -> list[Finding]:
    """Moves that stand out: prices that come and go, changes of unit, splits nobody marked, jumps."""
    sizes = np.nan_to_num(np.abs(moves.held))
    if bars.splits is not None:  # what is marked is looked at by itself
        sizes = np.where(bars.splits == 1, sizes, 0.0)
    found = []
    for asset in np.flatnonzero((sizes > _STANDS_OUT).any(axis=0)):
        least = max(_STANDS_OUT, _USUAL_MOVES * moves.usual_of(int(asset)))
        places = np.flatnonzero(sizes[:, asset] > least)
        found += _named(bars, moves, int(asset), places)
    return found


def _named(bars: Bars, moves: _Moves, asset: int, places: Array) -> list[Finding]:
    """The moves of one asset that stand out, by what they are."""
    by_defect: dict[str, list[tuple[int, str]]] = {}
    back = -1
    for index, bar in enumerate(places):
        if bar <= back:
            continue
        size = float(moves.held[bar, asset])
        returned = _return_of(moves.held[:, asset], places[index + 1 :], int(bar))
        if returned is not None:
            back = returned
            text = f"{np.exp(size):.4g} times the close before, and back after {_bars(returned - int(bar))}"
            by_defect.setdefault("spike", []).append((int(bar), text))
            continue
        named = _kind_of(bars, moves, int(bar), asset)
        if named is not None:
            by_defect.setdefault(named[0], []).append((int(bar), named[1]))
    name = bars.assets[asset]
    return [
        finding(defect, those[0][1], asset=name, place=bars.day(those[0][0]), count=len(those))
        for defect, those in by_defect.items()
    ]


def _return_of(moves: Array, later: Array, bar: int) -> int | None:
    """The bar at which a price is back where it was before it went away; None where it stays away."""
    size = moves[bar]
    for place in later:
        if place - bar > _SPIKE_BARS:
            return None
        if np.sign(moves[place]) != np.sign(size) and abs(moves[place] + size) <= _SPIKE_REST * abs(size):
            return int(place)
    return None


def _kind_of(bars: Bars, moves: _Moves, bar: int, asset: int) -> tuple[str, str] | None:
    """What a move is that stays: its defect and how it looks; None where it may be news."""
    size = float(moves.held[bar, asset])
    ratio = f"{np.exp(size):.4g} times the close before"
    decades = round(size / np.log(10.0))
    if abs(size) > _UNIT and abs(size - decades * np.log(10.0)) < _UNIT_TOLERANCE:
        return "unit_change", ratio
    volume = bars.volume is not None
    splits = _SPLITS if volume else _BARE_SPLITS
    away = np.abs(np.abs(size) - np.log(splits))
    split = splits[away.argmin()]
    tolerance = max(_SPLIT_TOLERANCE, (_VOLUME_MOVES if volume else _BARE_MOVES) * moves.usual_of(asset))
    if away.min() <= tolerance and not (volume and _is_news(bars, bar, asset)):
        parts = f"{split:g}:1" if size < 0 else f"1:{split:g}"
        return "suspected_split", f"{ratio}, as at a split of {parts}"
    return ("jump", ratio) if abs(size) >= _JUMP else None


def _is_news(bars: Bars, bar: int, asset: int) -> bool:
    """Whether much more was traded than before, in units as in money: at a split one of them stays as it was."""
    assert bars.volume is not None
    before = slice(max(0, bar - _NEWS_BARS), bar)
    traded = bars.present[before, asset]
    units = bars.volume[before, asset][traded]
    if not len(units):
        return False
    value = units * bars.close[before, asset][traded]
    now = bars.volume[bar, asset]
    return bool(now > _NEWS * np.median(units) and now * bars.close[bar, asset] > _NEWS * np.median(value))


def _unshown_splits(bars: Bars, moves: _Moves) -> list[Finding]:
    if bars.splits is None:
        return []
    size = np.abs(np.log(bars.splits))
    # A split on a day without a bar is in the move to the next one, and not to be told from it.
    hidden = (size > _SMALLEST_MARKED) & (np.abs(np.nan_to_num(moves.bare, nan=np.inf)) < _SHOWN * size)
    found = []
    for asset in np.flatnonzero(hidden.any(axis=0)):
        places = np.flatnonzero(hidden[:, asset])
        bar = int(places[0])
        text = f"split {bars.splits[bar, asset]:g}, and the close is {np.exp(moves.bare[bar, asset]):.4g} times it"
        place = bars.day(bar)
        found.append(finding("split_not_in_prices", text, asset=bars.assets[asset], place=place, count=len(places)))
    return found


def _wicks(bars: Bars) -> list[Finding]:
    if bars.high is None or bars.low is None:
        return []
    body_high = bars.close if bars.open is None else np.maximum(bars.open, bars.close)
    body_low = bars.close if bars.open is None else np.minimum(bars.open, bars.close)
    with np.errstate(invalid="ignore"):
        far = bars.present & ((bars.high > 3 * body_high) | (3 * bars.low < body_low))
    found = []
    for asset in np.flatnonzero(far.any(axis=0)):
        places = np.flatnonzero(far[:, asset])
        bar = int(places[0])
        text = f"high {bars.high[bar, asset]:g}, low {bars.low[bar, asset]:g}, close {bars.close[bar, asset]:g}"
        found.append(finding("wick", text, asset=bars.assets[asset], place=bars.day(bar), count=len(places)))
    return found


def _misaligned(bars: Bars, coverage: Coverage) -> list[Finding]:
    """Assets whose bars lie between those of others, at another time of the day."""
    life = coverage.last - coverage.first + 1
    share = coverage.bars / np.maximum(life, 1)
    rare = np.flatnonzero((share < 0.6) & (coverage.bars > 20) & (coverage.longest_gap <= 7))
    if not len(rare):
        return []
    clocks = bars.timestamps - bars.timestamps.astype("datetime64[D]")
    hours = [np.unique(clocks[bars.present[:, asset]]) for asset in rare]
    if not all(len(clock) <= 2 for clock in hours) or len(np.unique(np.concatenate(hours))) < 2:
        return []
    first = bars.assets[rare[0]]
    others = sorted({str(clock[0].astype("timedelta64[m]").astype(int) // 60).zfill(2) for clock in hours})
    return [finding("misaligned", f"bars at {', '.join(others)} h", place=f"from {first}", count=len(rare))]


def _gaps(bars: Bars, coverage: Coverage) -> list[Finding]:
    life = np.maximum(coverage.last - coverage.first + 1, 1)
    many = (coverage.missing > _BORNE_SHARE * life) | (coverage.longest_gap >= _BORNE_RUN)
    return [
        finding(
            "gap",
            f"the longest gap has {coverage.longest_gap[asset]} in a row",
            asset=bars.assets[asset],
            place=bars.day(coverage.gap_start[asset]),
            count=int(coverage.missing[asset]),
        )
        for asset in np.flatnonzero(many & (coverage.missing > 0))
    ]


def _stale(bars: Bars, coverage: Coverage) -> list[Finding]:
    # The longest run that repeats by chance: so often that one of that length is expected once among so many bars.
    share = np.clip(coverage.repeated, 1e-9, 0.9)
    chance = np.log(np.maximum(coverage.bars, 2)) / -np.log(share)
    return [
        finding(
            "stale_price",
            f"{coverage.unchanged[asset]} in a row",
            asset=bars.assets[asset],
            place=f"until {bars.day(coverage.unchanged_end[asset])}",
            count=int(coverage.unchanged[asset]),
        )
        for asset in np.flatnonzero(coverage.unchanged >= np.maximum(_STALE, _STALE_CHANCE * chance))
    ]


def _without_volume(bars: Bars, coverage: Coverage) -> list[Finding]:
    if bars.volume is None:
        return []
    many = coverage.zero_volume > np.maximum(_BORNE_RUN, _BORNE_SHARE * coverage.bars)
    found = []
    for asset in np.flatnonzero(many):
        first = (bars.present[:, asset] & (bars.volume[:, asset] == 0)).argmax()
        text = f"of {coverage.bars[asset]} bars"
        count = int(coverage.zero_volume[asset])
        found.append(finding("zero_volume", text, asset=bars.assets[asset], place=bars.day(first), count=count))
    return found


def _copies(bars: Bars) -> list[Finding]:
    """Assets whose closes are those of an earlier one, to the last digit."""
    closes = np.ascontiguousarray(np.where(bars.present, bars.close, 0.0).T)
    seen: dict[bytes, int] = {}
    found = []
    for asset, column in enumerate(closes):
        content = column.tobytes()
        if content in seen and np.ptp(column) > 0:
            text = f"its closes are those of {bars.assets[seen[content]]}"
            found.append(finding("same_series", text, asset=bars.assets[asset]))
        seen.setdefault(content, asset)
    return found


def _bars(count: int) -> str:
    return "1 bar" if count == 1 else f"{count} bars"
