"""Turbulence and VIX."""

import numpy as np
import pytest
from pydantic import ValidationError

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.observations.market_features import Turbulence, Vix
from tests.market.panels import panel as plain_panel
from tests.observations.panels import observed


def panel():
    return plain_panel(4).with_market_features(
        {
            "turbulence": np.array([np.nan, 20.0, 140.0, 3.0]),
            "turbulence_60": np.array([1.0, 2.0, 3.0, 4.0]),
            "vix": np.array([12.0, np.nan, 30.0, 45.0]),
        }
    )


def test_turbulence_is_the_pipelines_in_hundredths():
    assert Turbulence().names(panel()) == ("turbulence",)
    assert observed(Turbulence(), panel())[:, 0] == pytest.approx([0, 0.2, 1.4, 0.03])


def test_turbulence_of_another_lookback():
    builder = Turbulence(Turbulence.Config(name="turbulence_60", scale=10))
    assert builder.names(panel()) == ("turbulence_60",)
    assert observed(builder, panel())[:, 0].tolist() == [10, 20, 30, 40]
    with pytest.raises(ValidationError):
        Turbulence.Config(name="vix")


def test_vix_repeats_its_last_value_over_a_gap():
    assert Vix().names(panel()) == ("vix",)
    assert observed(Vix(), panel())[:, 0] == pytest.approx([0.12, 0.12, 0.3, 0.45])


@pytest.mark.parametrize("builder", [Turbulence(), Vix()])
def test_without_the_feature_the_error_names_the_pipelines_parameter(builder):
    with pytest.raises(DataError, match=rf"'{builder.rl_alias}'.*Add market_features: \[{builder.rl_alias}\]"):
        builder.names(plain_panel())
