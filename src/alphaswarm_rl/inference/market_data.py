"""The market data of a run: loaded once, cut to any window, scaled by what was fitted on the training window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from alphaswarm_rl.arrays.moments import moment, shown
from alphaswarm_rl.core.contracts import DataRequest, State
from alphaswarm_rl.core.kinds import DataPipeline
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.universe import Choice, Universe
from alphaswarm_rl.market.bar_findings import Bars, check_bars_of
from alphaswarm_rl.market.findings import counted_notices
from alphaswarm_rl.market.panel import FEWEST_BARS, MarketPanel

#: How many assets a notice names.
_MOST_NAMED = 10


class MarketData:
    """The panels of one data pipeline, by window.

    All bars up to the latest end are loaded at once and cut here, so that a file is read and a service asked once
    however many windows there are. Features do not start anew with a window, so the cut is what a pipeline gives.

    Args:
        pipeline: Where the bars come from.
        request: What is asked of it, apart from the window.
        training: The window that scalers learn from.
        universe: What chooses the assets among those of the request; None: they are all taken.
    """

    def __init__(
        self, pipeline: DataPipeline, request: DataRequest, training: Window, universe: Universe | None = None
    ) -> None:
        self.pipeline = pipeline
        self.candidates = request
        self.universe = universe
        self._training = training
        self._bars: MarketPanel | None = None
        self._end: str | None = None
        self._raw: dict[Window, MarketPanel] = {}
        self._seen: dict[Window, MarketPanel] = {}
        self._traded: dict[tuple[Window, int], str] = {}
        self._fitted: State | None = None

    @cached_property
    def choice(self) -> Choice | None:
        """The assets that were chosen, which looks at the data; None where nothing chooses."""
        return None if self.universe is None else self.universe.choose(self.pipeline, self.candidates)

    @cached_property
    def request(self) -> DataRequest:
        """What is asked of the pipeline, apart from the window: the chosen assets where something chooses."""
        return self.candidates if self.choice is None else replace(self.candidates, symbols=self.choice.symbols)

    def load(self, windows: Iterable[Window]) -> MarketPanel:
        """All bars up to the last end of these windows, as they come from the pipeline."""
        end = _latest(windows)
        if self._bars is None or _latest((Window(end=self._end), Window(end=end))) != self._end:
            request = replace(self.request, window=Window(end=end), warmup_bars=0)
            self._bars, self._end = self.pipeline.build(request), end
        return self._bars

    def raw(self, window: Window) -> MarketPanel:
        """The bars of a window with its warm-up, before scaling."""
        if window not in self._raw:
            bars = self.load((window,))
            self._raw[window] = bars.window(window.start, window.end, warmup_bars=self.request.warmup_bars)
        return self._raw[window]

    def seen(self, window: Window) -> MarketPanel:
        """The same as the agent sees them."""
        if window not in self._seen:
            self._seen[window] = self.pipeline.apply(self.raw(window), self.fitted)
        return self._seen[window]

    @property
    def fitted(self) -> State:
        """What was learnt from the training window; learnt now where no checkpoint said it."""
        if self._fitted is None:
            self._fitted = self.pipeline.fit(self.raw(self._training))
        return self._fitted

    def restore(self, fitted: State) -> None:
        """Takes over what a checkpoint says was learnt in training."""
        self._fitted = fitted
        self._seen.clear()

    @property
    def drawn_by_the_run(self) -> bool:
        """Whether the bars are made from the run's seed, so that another seed means other bars."""
        return getattr(self.pipeline.config, "seed", 0) is None

    def fingerprint(self, window: Window) -> str | None:
        """SHA-256 of the bars of a window; None where the data has no such bars."""
        first, stop = _range(self.load((window,)), window)
        return self.raw(window).fingerprint if stop - first >= FEWEST_BARS else None

    def num_bars(self, window: Window) -> int:
        """How many bars of a window may be traded; 0 where the data does not reach it."""
        first, stop = _range(self.load((window,)), window)
        return max(0, stop - first)

    def traded_fingerprint(self, window: Window, first: int) -> str:
        """SHA-256 of the bars of a window that can be traded: prices and what else a fill needs, no features.

        Args:
            window: The dates.
            first: The first bar that is traded, counted with the warm-up.
        """
        if (window, first) not in self._traded:
            self._traded[window, first] = self.raw(window).traded_bars(first).fingerprint
        return self._traded[window, first]

    def notices(self, name: str, window: Window) -> list[str]:
        """What is not there of a window: dates that the data does not reach, assets without a bar or that end in it.

        Args:
            name: What the window is called.
            window: Its dates.
        """
        bars, cut = self.load((window,)), self.raw(window)
        # Weekends and holidays are no lack of data: a window may stick out as far as bars are ever apart.
        apart = np.diff(bars.timestamps).max()
        first, last = bars.timestamps[bars.warmup], bars.timestamps[-1]
        found = []
        if window.start is not None and moment(window.start) < first - apart:
            found.append(f"the {name} window starts at {window.start} and the data at {shown(first)}")
        if window.end is not None and moment(window.end) > last + apart:
            found.append(f"the {name} window ends at {window.end} and the data at {shown(last)}")
        bars_of = np.count_nonzero(cut.tradable[cut.warmup :], axis=0)
        absent = [cut.assets[index] for index in np.flatnonzero(bars_of == 0)]
        if absent:
            found.append(f"no bar of {_named(absent)} in the {name} window")
        ended = np.flatnonzero((cut.last_bar >= cut.warmup) & (cut.last_bar < cut.num_bars - 1) & (bars_of > 0))
        ended = ended[np.argsort(cut.last_bar[ended], kind="stable")]
        if len(ended):
            dated = [f"{cut.assets[index]} ({shown(cut.timestamps[cut.last_bar[index]])})" for index in ended]
            found.append(f"assets that end in the {name} window, and are closed then: {_named(dated)}")
        return found if self.choice is None else [*found, *self.choice.notices(name, window)]

    def doubts(self, windows: Iterable[Window]) -> list[str]:
        """What looks wrong in the bars that these windows show, their warm-up included, as counted notices."""
        windows = tuple(windows)
        panel = self.load(windows)
        first = min((_range(panel, window)[0] for window in windows), default=0) - self.request.warmup_bars
        bars = Bars.of_panel(panel).since(max(0, first))
        return counted_notices(check_bars_of(bars).findings) if len(bars.timestamps) >= FEWEST_BARS else []

    def overlaps(self, window: Window, others: Iterable[Window]) -> bool:
        """Whether any bar that may be traded in the window is one of the others'; warm-up bars do not count."""
        others = tuple(others)
        bars = self.load((window, *others))
        traded = range(*_range(bars, window))
        ranges = (range(*_range(bars, other)) for other in others)
        return any(max(traded.start, other.start) < min(traded.stop, other.stop) for other in ranges)


def _named(assets: list[str]) -> str:
    others = f" and {len(assets) - _MOST_NAMED} others" if len(assets) > _MOST_NAMED else ""
    return f"{', '.join(assets[:_MOST_NAMED])}{others}"


def _latest(windows: Iterable[Window]) -> str | None:
    """The last end of these windows; None where one is open."""
    ends = [window.end for window in windows]
    known = [end for end in ends if end is not None]
    return max(known, key=moment) if len(known) == len(ends) else None


def _range(bars: MarketPanel, window: Window) -> tuple[int, int]:
    """The bars that may be traded in a window, as the first and the one after the last."""
    first = 0 if window.start is None else int(np.searchsorted(bars.timestamps, moment(window.start)))
    stop = bars.num_bars if window.end is None else int(np.searchsorted(bars.timestamps, moment(window.end)))
    return max(first, bars.warmup), stop
