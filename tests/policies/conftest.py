"""The components under test, which an installed distribution would find by its entry points."""

import alphaswarm_rl.agents.policy_agent
import alphaswarm_rl.agents.sb3
import alphaswarm_rl.policies.backbones.autoencoder
import alphaswarm_rl.policies.backbones.patch_tst
import alphaswarm_rl.policies.backbones.recurrent
import alphaswarm_rl.policies.backbones.transformer
import alphaswarm_rl.policies.constant
import alphaswarm_rl.policies.frozen
import alphaswarm_rl.policies.random  # noqa: F401
