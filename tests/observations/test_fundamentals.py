"""Fundamentals among the panel's features."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.observations.fundamentals import Fundamentals
from tests.market.panels import panel as plain_panel
from tests.observations.panels import at

DEFAULT = ("pe", "pb", "debt_to_equity", "roa", "roe", "ebitda_margin")


def panel():
    nan, plain = np.nan, plain_panel(3)
    pe = np.array([[nan, 7, nan], [10, nan, nan], [12, 8, nan]])
    rest = {name: np.full((3, 3), index) for index, name in enumerate(DEFAULT[1:], 1)}
    return plain.with_features({"macd": np.ones((3, 3)), **rest, "pe": pe})


def test_the_fields_of_one_asset_after_another():
    builder = Fundamentals(Fundamentals.Config(fields=["pe", "roa"]))
    assert at(builder, panel(), 0) == {
        "pe:AAA": 0,
        "roa:AAA": 3,
        "pe:BBB": 7,
        "roa:BBB": 3,
        "pe:CCC": 0,
        "roa:CCC": 3,
    }
    assert list(at(builder, panel(), 1).values()) == [10, 3, 7, 3, 0, 3]
    assert list(at(builder, panel(), 2).values()) == [12, 3, 8, 3, 0, 3]


def test_by_default_they_are_these_six():
    names = Fundamentals().names(panel())
    assert names[:6] == tuple(f"{name}:AAA" for name in DEFAULT)
    assert len(names) == 18


def test_where_they_are_missing_the_error_names_the_pipelines_parameter():
    with pytest.raises(
        DataError, match=r"feature 'pe'.*data pipeline's parameters fundamentals and fundamental_fields"
    ):
        Fundamentals().names(plain_panel())
