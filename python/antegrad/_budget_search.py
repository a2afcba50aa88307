"""The search for a plan whose measured peak is within a budget."""

import itertools
from typing import NamedTuple

# Replans aim at this share of the budget. A measured peak between it and the budget needs no other plan.
AIM = 0.985
# Bytes of measured peak for a byte of predicted peak, at least and at most, beyond the plans that were measured.
SLOPES = (0.5, 2.0)
# So many plans are tried where one holds the budget, but a faster one may hold it too.
TRIALS_FOR_SPEED = 3
# A plan that measures at most so much more than the budget is first replaced by a deeper one. To keep Inductor to a plan costs time.
NEAR = 1.1


class Trial(NamedTuple):
    """A measured plan: the fastest one whose predicted peak is within a target.

    target: bytes; None if no plan is that small, and the smallest one was taken. predicted: its own, at most the target.
    """

    target: int | None
    predicted: int
    peak: int
    as_planned: bool = False


def next_step(trials, budget, can_keep):
    """The target of the next trial, and whether to keep Inductor to its plan; None if no other trial is likely to be better than
    the best one. can_keep: whether Inductor can be kept to a plan; then it is, once deeper plans do not help."""
    kept = [trial for trial in trials if trial.as_planned]
    target = next_target(kept or trials, budget)
    near = len(trials) == 1 and trials[0].peak <= NEAR * budget
    if can_keep and not kept and best(trials, budget) is None and (target is None or not near):
        return trials[0].target, True
    return None if target is None else (target, bool(kept))


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
    if deepest.target is None:
        return target_between(trials)
    # The lowest peaks tell how far the budget is. A deeper plan that measured more than they did is an outlier.
    lowest, reference = (min(known, key=by_peak) for known in (trials, others or trials))
    return max(1, deepest.predicted - int((lowest.peak - aim) / slope(deepest, reference)))


def target_between(trials):
    """Where there is no deeper plan. Two plans next to each other whose peaks are out of line have others between them that
    may measure less than both."""
    pairs = [pair for pair in itertools.pairwise(sorted(trials, key=by_depth)) if not SLOPES[0] <= rise(*pair) <= SLOPES[1]]
    if not pairs:
        return None
    deeper, other = min(pairs, key=lambda pair: min(map(by_peak, pair)))
    return ((deeper.target or deeper.predicted) + other.predicted) // 2


def best(trials, budget):
    """The fastest plan within the budget; None if there is none."""
    return max((trial for trial in trials if trial.peak <= budget), key=by_depth, default=None)


def by_depth(trial):
    return trial.predicted, trial.target or 0


def by_peak(trial):
    return trial.peak


def slope(trial, other):
    """The rise between two trials, within what is likely."""
    return min(max(rise(trial, other), SLOPES[0]), SLOPES[1])


def rise(trial, other):
    """Of measured peaks over predicted ones, 1 without a second trial."""
    return (other.peak - trial.peak) / (other.predicted - trial.predicted) if other.predicted != trial.predicted else 1.0
