"""antegrad.inductor: PyTorch's compiler with memory budgets that are measured while the program runs."""

import copy
import warnings

import torch
from torch._dynamo.utils import preserve_rng_state
from torch._guards import TracingContext, tracing
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx
from torch.fx import GraphModule

from antegrad._C import BudgetError, OptionError, budget_bytes
from antegrad._budget_search import Trial, best, next_step
from antegrad._kernel_order import KernelOrder
from antegrad._measured_step import MeasuredStep
from antegrad._partition import InductorPartition

OVER_BUDGET = ("warn", "error")
# The first step compiles the backward, tunes kernels and loads libraries, which take memory of their own.
STEPS_BEFORE = 1
# Settings with which Inductor keeps to a plan, where it otherwise takes memory for speed: its own values, and these.
AS_PLANNED = {
    "allow_buffer_reuse": (True, False),  # what is kept for a later tensor of the same size is freed at once
    "_pre_fusion_custom_pass": (None, KernelOrder()),
}

# For targets that the quick search finds no plan for. The thorough search takes seconds, as compiling does.
THOROUGH = {"budget_effort": "thorough"}


class Inductor:
    """A backend of torch.compile: Inductor with antegrad's partitions. `records` has one entry for each graph that was
    partitioned."""

    def __init__(self, over_budget, replans, inductor, fallback, options):
        if over_budget not in OVER_BUDGET:
            raise OptionError(f"antegrad: expected over_budget to be 'warn' or 'error', found {over_budget!r}")
        if not isinstance(replans, int) or replans < 0:
            raise OptionError(f"antegrad: expected replans to be an integer from 0, found {replans!r}")
        self.inductor = dict(inductor or {})
        if "custom_partitioner_fn" in self.inductor:
            raise OptionError("antegrad: expected settings of Inductor other than custom_partitioner_fn, which antegrad sets")
        self.over_budget = over_budget
        self.replans = replans
        self.fallback = fallback
        self.options = InductorPartition(fallback, options).options
        self.budget = budget_bytes(self.options)
        self.graphs = []

    @property
    def records(self):
        return [graph.plan.record for graph in self.graphs if graph.plan.record is not None]

    @property
    def as_planned(self):
        """Settings that keep Inductor to a plan, but for those that the user chose."""
        return {name: value for name, (own, value) in AS_PLANNED.items()
                if name not in self.inductor and getattr(config, name) == own}

    def __call__(self, module, inputs, *, mode=None, options=None):
        if mode is not None or options:
            raise OptionError("antegrad: expected Inductor's settings as antegrad.inductor(inductor={...}), found mode= or "
                              "options= of torch.compile")
        self.graphs.append(Graph(self, module, inputs))
        return self.graphs[-1]


class Plan:
    """A graph compiled by Inductor with one partition. `target`: the bytes of predicted peak that it was planned for; None
    for the smallest plan. `as_planned`: whether Inductor was given the settings that keep it to the plan."""

    def __init__(self, backend, target, as_planned, module, inputs):
        self.target = target
        self.as_planned = as_planned
        self.peak = None  # bytes, measured
        if backend.budget is None:
            self.compile(backend, module, inputs, {})
        elif target is None or not any(self.fits(backend, module, inputs, search) for search in ({}, THOROUGH)):
            self.target = None  # kernels may need less than predicted
            self.compile(backend, module, inputs, THOROUGH)

    def fits(self, backend, module, inputs, search):
        """Compiles the graph. False if the search finds no plan for the target."""
        try:
            self.compile(backend, module, inputs, search)
        except BudgetError:
            return False
        return True

    def compile(self, backend, module, inputs, search):
        options = backend.options | search
        if self.target != backend.budget:
            options = {name: value for name, value in options.items() if name != "memory_budget"}
            options |= {"memory_share": 0.0} if self.target is None else {"memory_budget": self.target}
        partition = InductorPartition(backend.fallback, options, self.as_planned)
        settings = backend.inductor | {"custom_partitioner_fn": partition}
        self.function = compile_fx(
            copied(module), inputs, config_patches=settings | backend.as_planned if self.as_planned else settings)
        # None for a graph without a backward, and for one that Inductor found in its cache.
        self.record = partition.records[-1] if partition.records else None
        if self.record is not None:
            self.record.as_planned = self.as_planned

    def measure(self, peak):
        self.peak = peak
        if self.record is not None:
            self.record.measured_bytes = peak

    @property
    def trial(self):
        return Trial(self.target, self.target or 0 if self.record is None else self.record.peak_bytes, self.peak,
                     self.as_planned)

    def is_as(self, other):
        known = self.record is not None and other.record is not None and self.as_planned == other.as_planned
        return known and self.record.saved == other.record.saved and self.record.recomputed == other.record.recomputed


class Graph:
    """One graph of Dynamo. With a budget, its peak is measured in a step, and it is compiled again while that helps."""

    def __init__(self, backend, module, inputs):
        self.backend = backend
        self.error = None
        self.steps = 0
        self.plans = []  # those that were measured
        self.source = None  # once nothing is left to try
        if backend.budget is not None:
            self.source = copied(module)
            self.context = TracingContext.try_get()
        self.plan = Plan(backend, backend.budget, False, module, inputs)

    def __call__(self, *args):
        if self.error is not None:
            raise self.error
        if self.source is None:
            return self.plan.function(*args)
        if self.plan.peak is not None:
            self.try_another()
            return self(*args)
        if self.steps < STEPS_BEFORE:
            self.steps += torch.is_grad_enabled()
            return self.plan.function(*args)
        return MeasuredStep(self.plan.measure).run(self.plan.function, args)

    def try_another(self):
        """Called between a measured step and the next one."""
        self.plans.append(self.plan)
        while (step := self.next_step()) is not None:
            plan = self.compiled_again(*step)
            if plan is None:
                break
            same = next((other for other in self.plans if plan.is_as(other)), None)
            if same is None:
                self.plan = plan
                self.steps = 0
                return
            plan.measure(same.peak)
            self.plans.append(plan)
        self.settle()

    def next_step(self):
        """The predicted peak to plan for, and whether Inductor is kept to the plan; None if nothing is left to try."""
        budget = self.backend.budget
        if len(self.plans) > self.backend.replans:
            return None
        fastest = self.plan.record is not None and self.plan.record.recomputed == 0
        if fastest and self.plan.peak <= budget:
            return None
        return next_step([plan.trial for plan in self.plans], budget, bool(self.backend.as_planned))

    def compiled_again(self, target, as_planned):
        """The plan for a target, or for the smallest peak if no plan is known for the target; None if the new code would
        serve fewer sizes than Dynamo's guards let through."""
        shapes = self.context.fake_mode.shape_env if self.context else None
        guards = len(shapes.guards) if shapes else 0
        module = copied(self.source)
        inputs = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
        with tracing(self.context), preserve_rng_state():
            plan = Plan(self.backend, target, as_planned, module, inputs)
        return plan if not shapes or len(shapes.guards) == guards else None

    def settle(self):
        """Keeps the fastest measured plan within the budget."""
        budget = self.backend.budget
        held = best([plan.trial for plan in self.plans], budget)
        self.plan = min(self.plans, key=lambda plan: plan.peak if held is None else plan.trial != held)
        self.source = self.context = None
        self.plans = []
        if held is not None:
            return
        text = (f"antegrad: expected a step within the memory budget of {budget} bytes; found {self.plan.peak} bytes, the "
                "smallest measured peak; raise the budget, or make the largest tensors smaller")
        if self.backend.over_budget == "error":
            self.error = BudgetError(text)
            raise self.error
        warnings.warn(text, stacklevel=2)


def copied(module):
    return GraphModule(module, copy.deepcopy(module.graph))
