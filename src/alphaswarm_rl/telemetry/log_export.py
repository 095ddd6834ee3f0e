"""Export of log records outside of runs, such as that a model was promoted.

It stands apart from `session`, which loads OpenTelemetry: here that happens only where logs are exported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from alphaswarm_rl.settings import MetricsSettings, Settings, TracesSettings
from alphaswarm_rl.telemetry.routes import is_exporting


@contextmanager
def exporting_logs(settings: Settings) -> Iterator[None]:
    """Exports what the package logs inside the block; nothing where logs are off.

    Args:
        settings: Whether logs are exported, from which level on, and where they go.
    """
    only = settings.model_copy(update={"metrics": MetricsSettings(), "traces": TracesSettings()})
    if not is_exporting(only, os.environ):
        yield
        return
    from alphaswarm_rl.telemetry.session import Telemetry

    telemetry = Telemetry(only, trace_id=0, attributes={})
    try:
        yield
    finally:
        telemetry.close()
