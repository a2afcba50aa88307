"""The search for a plan whose measured peak is within a budget."""

from typing import NamedTuple

# Replans aim at this share of the budget. A measured peak between it and the budget needs no other plan.
AIM = 0.985
# Bytes of measured peak for a byte of predicted peak, at least and at most, beyond the plans that were measured.
SLOPES = (0.5, 2.0)
# So many plans are tried where one holds the budget, but a faster one may hold it too.
TRIALS_FOR_SPEED = 3


class Trial(NamedTuple):
    """A measured plan: the fastest one whose predicted peak is within a target.

    target: bytes; None if no plan is that small, and the smallest one was taken. predicted: its own, at most the target.
    """

    target: int | None
    predicted: int
    peak: int


def next_target(trials, budget):
    """The predicted peak to plan for next; None if no other plan is likely to be better than the best of the trials.

    What the predictions leave out is often about the same for all plans. But the order of kernels changes with the plan, so
    a deeper plan may measure higher than others.
    """
    aim = int(AIM * budget)
    held = best(trials, budget)
    if held is None:
        return deeper_target(trials, aim)
    if held.peak >= aim or len(trials) >= TRIALS_FOR_SPEED:
        return None
    above = [trial for trial in trials if trial.predicted > held.predicted]  # none of them holds
    if above:
        nearest = min(above, key=by_depth)
        target = held.predicted + (nearest.predicted - held.predicted) * (aim - held.peak) // (nearest.peak - held.peak)
    else:
        below = [trial for trial in trials if trial.predicted < held.predicted]
        target = held.predicted + int((aim - held.peak) / slope(held, max(below, key=by_depth, default=held)))
    # The plan of a trial is the fastest one for all targets from its predicted peak to its own target.
    return target if held.target is not None and target > held.target else None


def deeper_target(trials, aim):
    """Where no trial holds the budget."""
    deepest, *others = sorted(trials, key=by_depth)
    if deepest.target is not None:
        over = deepest.peak - aim
        return max(1, deepest.predicted - int(over / slope(deepest, others[0] if others else deepest)))
    # There is no deeper plan. One that is less deep and measured lower has others beside it that may be lower still.
    lowest = min(trials, key=lambda trial: trial.peak)
    below = [trial.target or trial.predicted for trial in trials if trial.predicted < lowest.predicted]
    return (max(below) + lowest.predicted) // 2 if below else None


def best(trials, budget):
    """The fastest plan within the budget; None if there is none."""
    return max((trial for trial in trials if trial.peak <= budget), key=by_depth, default=None)


def by_depth(trial):
    return trial.predicted, trial.target or 0


def slope(trial, other):
    """Of measured peaks over predicted ones, 1 without a second trial."""
    if other.predicted == trial.predicted:
        return 1.0
    measured = (other.peak - trial.peak) / (other.predicted - trial.predicted)
    return min(max(measured, SLOPES[0]), SLOPES[1])
