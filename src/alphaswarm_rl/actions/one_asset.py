"""The asset that an action for one asset trades."""

from __future__ import annotations

from pydantic import Field

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError, EnvError, nearest
from alphaswarm_rl.core.kinds import ActionSpec
from alphaswarm_rl.core.view import Panel


class OneAssetConfig(ComponentConfig):
    """Parameters of every action for one asset."""

    asset: str | None = Field(None, description="Name of the asset; null: the only one there is.")


def asset_index(action: ActionSpec, panel: Panel) -> int:
    """Place of the action's asset in the panel."""
    name = action.config.asset
    if name is None:
        if panel.num_assets > 1:
            raise EnvError(
                f"action {action.rl_alias!r}",
                f"it trades one asset and the panel has {panel.num_assets}",
                f"Name it, such as asset: {panel.assets[0]}, or choose an action for several.",
            )
        return 0
    if name not in panel.assets:
        raise DataError(
            f"asset {name!r}",
            f"the action {action.rl_alias!r} trades it and the panel has none of that name",
            nearest(name, panel.assets),
        )
    return int(panel.assets.index(name))
