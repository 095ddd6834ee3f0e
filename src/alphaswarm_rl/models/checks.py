"""The gates that are here already, and the profiles that name them."""

from __future__ import annotations

import math

from alphaswarm_rl.models import trading_checks as trading_checks
from alphaswarm_rl.models.gates import ACTIONS_VARY, UPDATES, Evidence, Verdict, gate, needs_evaluation, profile
from alphaswarm_rl.models.rows import DATED, EvaluationRow
from alphaswarm_rl.statistics.samples import EQUAL_EPISODES, episodes_lower_bound, mean_of, sample_std, thinned, trend

#: Least points of a training curve that say anything about its end.
LEAST_POINTS = 20
#: Points that its second half is smoothed to.
_SMOOTHED = 20
#: The interval of the slope, and the share of the curve's range below which a rise is none.
_INTERVAL = 0.90
_NEGLIGIBLE = 0.05


@needs_evaluation("trained")
def trained(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """At least one update made the policy."""
    updates, steps = newest.metrics.get(UPDATES), evidence.model.total_timesteps
    if updates is not None:
        return Verdict("trained", updates > 0, f"updates that made it: {updates}", updates, 1)
    # Whoever adds a model from elsewhere, or trains with an agent that does not count, is believed, but for this.
    reason = f"nobody counted its updates; it learnt from {'unknown' if steps is None else steps} transitions"
    return Verdict("trained", steps != 0, reason)


@needs_evaluation("not_constant")
def not_constant(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """Its actions depend on what it sees."""
    vary = newest.metrics.get(ACTIONS_VARY)
    if vary is not None:
        return Verdict("not_constant", bool(vary), f"its actions {'vary' if vary else 'are the same whatever it sees'}")
    if newest.source == "added":
        return Verdict("not_constant", True, "its metrics were given by hand: nobody here saw it act")
    again = f"rl evaluate --model-id {evidence.model.id}"
    return Verdict("not_constant", False, f"nobody looked whether its actions vary: evaluate it again, {again}")


@needs_evaluation("min_episodes")
def min_episodes(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """Enough episodes were evaluated."""
    least = evidence.limits.min_episodes
    reason = f"evaluated episodes: {newest.episodes}, asked for: {least}"
    return Verdict("min_episodes", newest.episodes >= least, reason, newest.episodes, least)


@needs_evaluation("finite")
def finite(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """Every metric is there and is a finite number."""
    metrics = {
        "mean_reward": newest.mean_reward,
        "std_reward": newest.std_reward,
        "mean_episode_length": newest.mean_episode_length,
    }
    # What is not finite is stored as null.
    bad = [name for name, value in metrics.items() if value is None]
    if newest.returns is not None and any(value is None for value in newest.returns):
        bad.append("returns")
    spread = sample_std(newest.episodes, newest.std_reward, newest.returns)
    if not bad and newest.episodes > 1 and newest.lower_bound is None and spread != 0:
        bad.append("the spread of the returns")  # each is finite, and what they add up to is not
    if bad:
        return Verdict("finite", False, f"missing or not finite: {', '.join(bad)}")
    return Verdict("finite", True, "every metric is a finite number")


@needs_evaluation("reward_lower_bound")
def reward_lower_bound(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """The lower confidence bound of the mean reward reaches the minimum."""
    name, least, sure = "reward_lower_bound", evidence.limits.min_reward, evidence.limits.confidence
    bound = episodes_lower_bound(newest.episodes, newest.mean_reward, newest.std_reward, newest.returns, sure)
    if least is None:
        return Verdict(name, True, "no minimum reward is set", bound)
    if newest.episodes < 2:
        return Verdict(name, False, f"one episode has no lower bound to compare with {least:g}", None, least)
    if bound is None and sample_std(newest.episodes, newest.std_reward, newest.returns) == 0:
        why = f"the returns of {newest.episodes} episodes are all equal, which proves nothing below {EQUAL_EPISODES}"
        return Verdict(name, False, why, None, least)
    if bound is None:
        return Verdict(name, False, "mean and spread of the reward are not known", None, least)
    relation = "reaches" if bound >= least else "is below"
    reason = f"the mean reward is above {bound:.6g} with {sure:.0%} confidence, which {relation} {least:g}"
    return Verdict(name, bound >= least, reason, bound, least)


@needs_evaluation("dispersion")
def dispersion(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """Returns spread little beside their usual size, whatever their sign."""
    name, most = "dispersion", evidence.limits.max_dispersion
    if newest.episodes < 2:
        return Verdict(name, True, "one episode has no spread", None, most)
    spread = sample_std(newest.episodes, newest.std_reward, newest.returns)
    if spread is None or newest.mean_reward is None:
        return Verdict(name, False, "mean and spread of the reward are not known", None, most)
    sizes = [abs(value) for value in newest.returns or () if value is not None]
    usual = mean_of(sizes) if sizes else 0.0
    if usual is None:
        return Verdict(name, False, "the returns are too large to be added up", None, most)
    size = max(abs(newest.mean_reward), usual)
    # All returns 0: no spread and no size.
    ratio = spread / size if size > 0 else (0.0 if spread == 0 else math.inf)
    reason = f"returns spread by {spread:.6g}, which is {ratio:.3g} of their usual size {size:.6g}"
    return Verdict(name, ratio <= most, reason, ratio if math.isfinite(ratio) else None, most)


@gate("converged")
def converged(evidence: Evidence) -> Verdict:
    """The second half of the training curve is flat: its slope is not told from 0, or adds next to nothing."""
    name, curve = "converged", evidence.curve
    if len(curve) < LEAST_POINTS:
        return Verdict(name, False, f"the training curve has {len(curve)} points, {LEAST_POINTS} are needed")
    # Means of groups that share no point: a moving average would make the slope look surer than it is.
    half = thinned(curve[len(curve) // 2 :], _SMOOTHED)
    whole = thinned(curve, 2 * _SMOOTHED)
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in (*curve, *half, *whole)):
        return Verdict(name, False, "the training curve has rewards that are not finite")
    try:
        line = trend(half, _INTERVAL)
    except ValueError:
        return Verdict(name, False, "all points of the training curve's second half are of one step")
    spread = max(y for _, y in whole) - min(y for _, y in whole)
    if line is None or not math.isfinite(spread):
        return Verdict(name, False, "the training curve has rewards that are too large to be compared")
    share = abs(line.rise) / spread if spread > 0 else 0.0
    if line.is_flat:
        return Verdict(name, True, "the slope of the curve's second half is not told from 0", share, _NEGLIGIBLE)
    moves = "rises" if line.rise > 0 else "falls"
    reason = f"the curve's second half {moves} by {abs(line.rise):.6g}, which is {share:.1%} of the curve's range"
    return Verdict(name, share < _NEGLIGIBLE, reason, share, _NEGLIGIBLE)


@needs_evaluation("holdout")
def holdout(evidence: Evidence, newest: EvaluationRow) -> Verdict:
    """The newest evaluation saw no bar of training or validation."""
    if newest.in_sample is None and newest.window_start is None and newest.window_end is None:
        # Our own evaluations know their dates. Whoever adds one may have left them out.
        if newest.source == "added" and newest.metrics.get(DATED) is not False:
            return Verdict("holdout", False, "the dates that were played were not given: nobody knows what they were")
        return Verdict("holdout", True, "the environment has no dates: its episodes are new by their seed")
    window = f"{newest.window_start or '...'} to {newest.window_end or '...'}"
    if newest.in_sample is None:
        return Verdict("holdout", False, f"nobody knows whether {window} is in sample")
    if newest.in_sample:
        return Verdict("holdout", False, f"{window} is in sample: training or validation saw bars of it")
    return Verdict("holdout", True, f"{window} is out of sample")


@gate("checksum")
def checksum(evidence: Evidence) -> Verdict:
    """The file is the one that was registered."""
    if evidence.file_problem is not None:
        return Verdict("checksum", False, evidence.file_problem)
    if evidence.model.sha256 is None:
        return Verdict("checksum", False, "no checksum was registered, so nobody can say whether it was changed")
    return Verdict("checksum", True, "the file is the one that was registered")


# The original formula, in three parts. It refuses every mean below 0, takes a minimum of 0 for none, and asks for
# training steps where it means evidence; `default` mends all three.


@gate("legacy_reward")
def legacy_reward(evidence: Evidence) -> Verdict:
    """The mean reward reaches the minimum, where one is set that is not 0."""
    least, mean = evidence.limits.min_reward, evidence.model.mean_reward
    if not least:
        return Verdict("legacy_reward", True, "no minimum reward is set")
    if mean is None:
        return Verdict("legacy_reward", False, "the mean reward is not known", None, least)
    reason = f"the mean reward is {mean:.6g}, the minimum {least:.6g}"
    return Verdict("legacy_reward", mean >= least, reason, mean, least)


@gate("legacy_stability")
def legacy_stability(evidence: Evidence) -> Verdict:
    """The standard deviation is below half the mean."""
    mean, std = evidence.model.mean_reward, evidence.model.std_reward
    if mean is None or std is None:
        return Verdict("legacy_stability", False, "mean or spread of the reward is not known")
    reason = f"the reward spreads by {std:.6g}, less than {mean * 0.5:.6g} is asked for"
    return Verdict("legacy_stability", std < mean * 0.5, reason, std, mean * 0.5)


@gate("legacy_steps")
def legacy_steps(evidence: Evidence) -> Verdict:
    """It was trained for as many steps as the asked episodes have."""
    steps, length = evidence.model.total_timesteps, evidence.model.mean_episode_length
    if steps is None or length is None:
        return Verdict("legacy_steps", False, "training steps or episode lengths are not known")
    least = evidence.limits.min_episodes * length
    reason = f"it was trained for {steps} steps, asked for are {least:.6g}"
    return Verdict("legacy_steps", steps >= least, reason, steps, least)


_DEFAULT = ("min_episodes", "finite", "reward_lower_bound", "dispersion", "checksum")
_TRADING = (
    "min_bars",
    "finite",
    "reward_lower_bound",
    "measure_lower_bound",
    "drawdown",
    "not_worse_than_cash",
    "not_worse_than_equal_weight",
    "profit_share",
    "checksum",
)

profile("default", *_DEFAULT, trading=_TRADING)
profile("strict", *_DEFAULT, "converged", "holdout", trading=(*_TRADING, "converged", "holdout"))
profile("trading", *_DEFAULT, "holdout", trading=(*_TRADING, "holdout"))
profile("seed-legacy", "legacy_reward", "legacy_steps", "legacy_stability")
