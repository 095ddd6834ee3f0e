"""Telemetry: metrics, traces and logs of runs, by OpenTelemetry.

What is named here is light; whoever needs a `Telemetry` imports `telemetry.session`, and OpenTelemetry with it.
"""

from alphaswarm_rl.telemetry.routes import is_wanted
from alphaswarm_rl.telemetry.telling import telling

__all__ = ["is_wanted", "telling"]
