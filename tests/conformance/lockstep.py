"""Trains a model twice, eagerly and compiled, in alternating steps, and compares the state after each step."""

import copy

import torch
from outcome import outcome_of

import antegrad

STEPS = 5


class Run:
    """One of the two trainings, with its own weights, optimisers and generator state."""

    def __init__(self, training, model, compiled_by):
        self.model = model
        self.losses = {part: compiled_by(self.loss_of(loss)) for part, loss in training.phases.items()}
        self.optimizers = {part: training.optimizer(model.get_submodule(part).parameters()) for part in training.phases}
        torch.manual_seed(1)
        self.random = torch.get_rng_state()

    def loss_of(self, loss):
        return lambda *batch: loss(self.model, *batch)

    def step(self, part, batch):
        """The state after the step, by kind."""
        torch.set_rng_state(self.random)
        self.model.zero_grad()
        loss = self.losses[part](*batch)
        loss.backward()
        self.optimizers[part].step()
        self.random = torch.get_rng_state()
        parameters, buffers = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        gradients = {f"gradient of {name}": p.grad for name, p in parameters.items()}
        return {"loss": loss, **gradients, **parameters, **buffers, "generator": self.random}


class Compiler:
    """Compiles functions in one of several ways, and records the outcome."""

    def __init__(self, through):
        self.through = through
        self.functions, self.compiled = [], []
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

    def __call__(self, function):
        if self.through == "compile":
            compiled = antegrad.compile(function)
            self.functions.append(compiled)
        else:
            compiled = torch.compile(function, backend=self.backend)
        self.compiled.append(compiled)
        return compiled

    def backend(self, graph, inputs, **options):
        self.functions.append(antegrad.backend(graph, inputs, **options))
        return self.functions[-1]

    def counts(self):
        reports = [function.report() for function in self.functions]
        programs = [program for report in reports for program in report.programs]
        return {
            "graphs": len(self.functions),
            "graph_breaks": sum(torch._dynamo.utils.counters["graph_break"].values()),
            "programs": len(programs),
            "nodes": sum(p.joint_nodes for p in programs),
            "first_ms": sum(p.capture_ms + p.compile_ms for p in programs),
            "compiled_calls": sum(r.compiled_calls for r in reports),
            "eager_calls": sum(r.eager_calls for r in reports),
            "eager_reasons": sorted({reason for r in reports for reason in r.eager_reasons}),
        }


def uncompiled(function):
    return function


def dynamo_alone(function):
    """Dynamo's graphs run eagerly, without a compiler."""
    return torch.compile(function, backend="eager")


def train(training, through):
    """The outcome of five steps, and the time to compile them."""
    outcome = train_beside(training, through, uncompiled)
    if through == "dynamo" and outcome["status"] == "failed":
        # Dynamo changes what some models compute. Their graphs then differ from eager before a backend gets them.
        alone = train_beside(training, through, dynamo_alone)
        if alone["status"] == "passed":
            return alone | {"status": "as Dynamo", "detail": outcome["detail"]}
    return outcome


def train_beside(training, through, reference):
    torch.manual_seed(0)
    model = training.model()
    compiler = Compiler(through)
    eager, compiled = Run(training, copy.deepcopy(model), reference), Run(training, model, compiler)
    parameters = sum(p.numel() for p in model.parameters())
    try:
        difference = first_difference(training, eager, compiled)
    except Exception as error:
        return outcome_of(error) | compiler.counts() | {"parameters": parameters}
    counts = compiler.counts()
    missed = not_compiled(counts, STEPS * len(training.phases))
    outcome = {"status": "failed", "detail": difference or missed} if difference or missed else {"status": "passed"}
    return outcome | counts | {"parameters": parameters}


def first_difference(training, eager, compiled):
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        batch = training.batch()
        for part in training.phases:
            expected, found = eager.step(part, batch), compiled.step(part, batch)
            if not expected["loss"].isfinite():
                return f"step {step}: the loss in eager is {expected['loss'].item()}"
            for what, value in expected.items():
                difference = differ(found[what], value)
                if difference:
                    return f"step {step}: {what}: {difference}"
    return ""


def not_compiled(counts, least):
    if counts["eager_calls"]:
        return f"{counts['eager_calls']} eager calls: {'; '.join(counts['eager_reasons'])}"
    if counts["compiled_calls"] < least:
        return f"{counts['compiled_calls']} compiled calls, expected {least} or more"
    return ""


def differ(x, y):
    if x is None or y is None:
        return "" if x is y else f"{'none' if x is None else 'there'}, in eager {'none' if y is None else 'there'}"
    for fact in ("dtype", "shape", "requires_grad"):
        if getattr(x, fact) != getattr(y, fact):
            return f"{fact} {getattr(x, fact)}, in eager {getattr(y, fact)}"
    if x.stride() != y.stride():
        return f"strides {x.stride()}, in eager {y.stride()}"
    if torch.equal(bits_of(x), bits_of(y)):
        return ""
    return f"values, by up to {(x.double() - y.double()).abs().max().item():g}"


def bits_of(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
