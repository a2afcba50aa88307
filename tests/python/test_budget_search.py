"""antegrad.inductor's search for a plan that holds a measured budget, with made-up measurements."""

import antegrad
import pytest
import torch
from antegrad import _inductor
from antegrad._budget_search import Trial, next_step, next_target

BUDGET = 10_000
ANY = range(1_000, 30_000)  # the predicted peaks of all plans


def target_of(*trials, budget=BUDGET):
    return next_target([Trial(*trial) for trial in trials], budget)


def searched(plans, peak_of, replans=3, budget=BUDGET):
    """The trials of a search. plans: the predicted peaks of all plans. peak_of: the measured peak for a predicted one."""
    trials = []
    target = budget
    while target is not None and len(trials) <= replans:
        known = [plan for plan in plans if plan <= target]
        predicted = max(known) if known else min(plans)
        trials.append(Trial(target if known else None, predicted, peak_of(predicted)))
        target = next_target(trials, budget)
    return trials


def held(trials, budget=BUDGET):
    return max((trial.peak for trial in trials if trial.peak <= budget), default=None)


@pytest.mark.parametrize("peak_of, plans", [
    (lambda predicted: predicted, 2),
    (lambda predicted: predicted - 100, 1),
    (lambda predicted: predicted + 300, 2),
    (lambda predicted: predicted + 7_000, 2),
    (lambda predicted: int(1.4 * predicted), 3),
    (lambda predicted: int(0.5 * predicted), 3),
    (lambda predicted: int(1.1 * predicted) + 500, 3),
])
def test_a_few_plans_come_close_to_the_budget(peak_of, plans):
    trials = searched(ANY, peak_of)
    assert len(trials) <= plans
    assert 0.95 * BUDGET <= held(trials) <= BUDGET


def test_a_deeper_plan_that_measures_as_much_is_not_the_end():
    trials = searched(ANY, lambda predicted: 10_800 if predicted > 8_000 else predicted + 1_500)
    assert len(trials) <= 4 and held(trials) is not None


def test_a_deeper_plan_that_measures_more_is_not_the_end():
    trials = searched(ANY, lambda predicted: {10_000: 10_800}.get(predicted, 11_000 if predicted > 8_500 else predicted + 1_000))
    assert len(trials) <= 4 and held(trials) is not None


# Plans of GPT-2 with 8 x 1024 tokens on an H200: predicted and measured MiB.
GPT_2 = {872: 1668, 944: 1539, 980: 1564, 992: 1414, 1016: 1305, 1053: 1306, 1115: 1368, 1416: 2915, 1584: 1728}


@pytest.mark.parametrize("budget", [1380, 1450, 1550, 1594, 1650, 1700])
def test_plans_below_an_outlier_are_found(budget):
    trials = searched(GPT_2, GPT_2.get, budget=budget)
    assert len(trials) <= 4 and held(trials, budget) is not None


def test_after_an_outlier_the_search_goes_on_from_the_lowest_peak():
    assert 1_000 < target_of((1594, 1584, 1728), (1426, 1416, 2915), budget=1594) < 1_200


@pytest.mark.parametrize("outlier", range(5_000, 10_000, 250))
@pytest.mark.parametrize("excess", [200, 1_000, 3_000])
def test_one_outlier_does_not_end_the_search(outlier, excess):
    trials = searched(ANY, lambda predicted: predicted + (8_000 if abs(predicted - outlier) < 250 else excess))
    assert len(trials) <= 4 and held(trials) is not None


def test_between_the_smallest_plan_and_an_outlier():
    assert target_of((1594, 1584, 1728), (1426, 1416, 2915), (None, 872, 1668), budget=1594) == (1416 + 872) // 2
    assert target_of((1426, 1416, 2915), (None, 872, 1668), budget=1426) == (1416 + 872) // 2


def test_plans_far_apart_are_not_planned_again():
    trials = searched([2_000, 5_000, 9_500], lambda predicted: predicted + 1_000)
    assert [trial.predicted for trial in trials] == [9_500, 5_000]


def test_a_plan_below_the_budget_makes_room_for_a_faster_one():
    assert target_of((BUDGET, 9_900, 8_000)) == 9_900 + 1_850
    # Nothing between 9_000 and the first target is faster.
    assert target_of((12_000, 9_000, 9_700)) is None


def test_between_a_plan_that_holds_and_one_that_does_not():
    assert target_of((BUDGET, 10_000, 12_000), (8_000, 8_000, 9_000)) == 8_000 + 2_000 * 850 // 3_000


def test_a_plan_that_holds_but_measures_less_than_a_deeper_one():
    # 7_000 measured more than 9_000 and is not between it and the budget.
    assert target_of((BUDGET, 9_000, 9_200), (7_000, 7_000, 9_600)) > 9_000


def test_the_last_plan_is_only_for_a_budget_that_is_not_held():
    over = [(BUDGET, 10_000, 13_000), (8_000, 8_000, 12_000)]
    assert target_of(*over, (5_000, 5_000, 9_000)) is None
    assert target_of(*over, (5_000, 5_000, 11_000)) < 5_000


def test_it_ends_with_the_smallest_plan():
    assert target_of((None, 12_000, 13_000)) is None
    assert target_of((BUDGET, 10_000, 14_000), (None, 8_000, 12_000)) is None
    trials = searched(ANY, lambda predicted: predicted + 20_000)
    assert [trial.target for trial in trials] == [BUDGET, None]


def test_if_the_smallest_plan_measures_more_one_before_it_is_tried():
    assert target_of((BUDGET, 10_000, 11_000), (None, 4_000, 14_000)) == 7_000
    trials = searched([4_000, 7_000, 10_000], {4_000: 16_000, 7_000: 9_000, 10_000: 15_000}.get)
    assert len(trials) == 4 and held(trials) == 9_000


def test_a_budget_that_is_met_needs_no_other_plan():
    assert target_of((BUDGET, 9_900, 9_900)) is None
    assert target_of((BUDGET, 9_900, 10_000)) is None


class FakePlan:
    """A plan of a graph where each target has one of its own, unless `step` is larger than 1."""

    step = 1

    def __init__(self, backend, target, as_planned, *_):
        self.target, self.as_planned, self.peak = target, as_planned, None
        planned = max(1, target // self.step) * self.step
        self.record = type("Record", (), {"recomputed": 1, "saved": [planned], "peak_bytes": planned, "measured_bytes": None})()

    measure = _inductor.Plan.measure
    trial = _inductor.Plan.trial
    is_as = _inductor.Plan.is_as


# The user's choice of all settings that the search would choose.
CHOSEN = {name: own for name, (own, _) in _inductor.AS_PLANNED.items()}


@pytest.fixture
def run(monkeypatch):
    """Runs a search. peak_of: the measured peak for a predicted one, and, if not CHOSEN, whether Inductor is kept to the plan."""
    def run(peak_of, inductor=CHOSEN, **options):
        monkeypatch.setattr(_inductor, "Plan", FakePlan)
        module = torch.fx.symbolic_trace(torch.nn.Identity())
        graph = _inductor.Graph(antegrad.inductor(memory_budget=BUDGET, inductor=inductor, **options), module, [])
        monkeypatch.setattr(graph, "compiled_again", lambda *step: FakePlan(None, *step))
        measured = []
        while graph.source is not None:
            measured.append(graph.plan)
            settings = () if inductor is CHOSEN else (graph.plan.as_planned,)
            graph.plan.measure(peak_of(graph.plan.record.peak_bytes, *settings))
            graph.try_another()
        return graph.plan, measured

    return run


def steps_of(measured):
    return [(plan.record.peak_bytes, plan.as_planned) for plan in measured]


def test_a_plan_that_misses_by_far_is_first_compiled_again_with_inductor_kept_to_it(run):
    plan, measured = run(lambda predicted, as_planned: predicted if as_planned else predicted + 1_500, inductor=None)
    assert steps_of(measured) == [(BUDGET, False), (BUDGET, True)]
    assert plan.as_planned and plan.peak == BUDGET


def test_after_a_near_miss_a_deeper_plan_leaves_inductor_as_it_is(run):
    plan, measured = run(lambda predicted, as_planned: predicted + 500, inductor=None)
    assert len(measured) == 2 and not plan.as_planned
    assert 0.95 * BUDGET <= plan.peak <= BUDGET


def test_if_the_deeper_plan_misses_too_inductor_is_kept_to_the_first_one(run):
    plan, measured = run(lambda predicted, as_planned: predicted if as_planned else 10_500, inductor=None)
    assert [as_planned for _, as_planned in steps_of(measured)] == [False, False, True]
    assert plan is measured[2] and plan.record.peak_bytes == BUDGET


def test_deeper_plans_keep_inductor_to_them(run):
    plan, measured = run(lambda predicted, as_planned: predicted + (400 if as_planned else 3_000), inductor=None)
    assert [as_planned for _, as_planned in steps_of(measured)] == [False, True, True]
    assert 0.95 * BUDGET <= plan.peak <= BUDGET


def test_the_same_plan_is_kept_as_it_was_if_that_measures_less(run):
    with pytest.warns(UserWarning, match="found 12000 bytes"):
        plan, measured = run(lambda predicted, as_planned: 13_000 if as_planned else 12_000, inductor=None)
    assert not plan.as_planned and len(measured) == 4


@pytest.mark.parametrize("peak", [5_000, 9_900])
def test_where_a_plan_holds_inductor_is_left_as_it_is(run, peak):
    _, measured = run(lambda predicted, as_planned: peak, inductor=None)
    assert not any(plan.as_planned for plan in measured)


def test_a_near_miss_of_the_smallest_plan_keeps_inductor_to_it():
    assert next_step([Trial(None, 9_000, 10_500)], BUDGET, can_keep=True) == (None, True)
    assert next_step([Trial(None, 9_000, 10_500)], BUDGET, can_keep=False) is None


def test_settings_that_the_user_chose_stay():
    chosen = antegrad.inductor(inductor={"allow_buffer_reuse": True})
    assert chosen.as_planned.keys() == {"_pre_fusion_custom_pass"}
    with torch._inductor.config.patch(allow_buffer_reuse=False):
        assert antegrad.inductor().as_planned.keys() == {"_pre_fusion_custom_pass"}
    assert antegrad.inductor().as_planned["allow_buffer_reuse"] is False


def test_the_graph_keeps_the_best_plan(run):
    plan, measured = run(lambda predicted: int(1.4 * predicted))
    assert plan.record.measured_bytes == plan.peak == max(other.peak for other in measured if other.peak <= BUDGET)
    assert 0.95 * BUDGET <= plan.peak


def test_the_graph_keeps_the_smallest_plan_if_none_holds(run):
    with pytest.warns(UserWarning, match="found 11000 bytes"):
        plan, measured = run(lambda predicted: 11_000 if predicted < 9_900 else 12_000)
    assert plan.peak == 11_000 and len(measured) == 4


def test_the_graph_does_not_measure_the_same_plan_twice(monkeypatch, run):
    monkeypatch.setattr(FakePlan, "step", 4_000)
    plan, measured = run(lambda predicted: predicted + 2_500)
    assert [other.record.peak_bytes for other in measured] == [8_000, 4_000]
    assert plan is measured[1]


@pytest.mark.parametrize("replans", [0, 1, 2])
def test_no_more_replans_than_allowed(run, replans):
    with pytest.warns(UserWarning, match="found 12000 bytes"):
        _, measured = run(lambda predicted: 12_000, replans=replans)
    assert len(measured) == replans + 1
