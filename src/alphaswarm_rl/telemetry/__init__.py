"""Telemetry: metrics, traces and logs of runs, by OpenTelemetry.

What is named here is light; whoever needs a `Telemetry` imports `telemetry.session`, and OpenTelemetry with it.
"""

from alphaswarm_rl.telemetry.log_export import exporting_logs
from alphaswarm_rl.telemetry.routes import is_exporting

__all__ = ["exporting_logs", "is_exporting"]
