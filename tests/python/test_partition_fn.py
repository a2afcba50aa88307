"""antegrad.partition_fn and antegrad.inductor_partitioner: gradients are those of PyTorch's own partitioners."""

import contextlib
import json
import os
import subprocess
import warnings

import antegrad
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.utils.checkpoint import checkpoint

BUDGETS = [{}, {"partition": "as_written"}, {"memory_share": 0.5}, {"memory_share": 0.0}, {"activation_memory_budget": 0.0}]


class Block(nn.Module):
    def __init__(self, width=32, heads=4, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.dropout(self.out(a))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, layers=1, dropout=0.0, checkpointed=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.blocks = nn.ModuleList(Block(dropout=dropout) for _ in range(layers))
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return F.cross_entropy(self.head(x).view(-1, 64), tokens.view(-1))


def cnn():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(8, 4))
    return model, torch.randn(2, 3, 8, 8)


def mlp(dropout=0.1):
    layers = [nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, *[nn.Linear(16, 16), nn.Tanh(), nn.Dropout(dropout)] * 2), torch.randn(8, 16)


def tokens(batch=2, length=8):
    return torch.randint(0, 64, (batch, length))


MODELS = {
    "gpt": lambda: (GPT(), tokens()),
    "gpt with dropout": lambda: (GPT(dropout=0.1), tokens()),
    "checkpointed gpt": lambda: (GPT(layers=2, checkpointed=True), tokens()),
    "checkpointed gpt with dropout": lambda: (GPT(layers=2, dropout=0.1, checkpointed=True), tokens()),
    "cnn": cnn,
    "mlp": mlp,
}


def as_it_is(module, _):
    return make_boxed_func(module.forward)


def backend_of(partition_fn):
    return aot_autograd(fw_compiler=as_it_is, partition_fn=partition_fn)


def step(model, x, seed=1):
    """The result, all gradients and all buffers of one step."""
    torch.manual_seed(seed)
    model.zero_grad()
    loss = model(x)
    loss.sum().backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]


def compiled_step(make, **options):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = make()
    return step(torch.compile(model, **options), x)


def expect_same_bits(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) if a.dim() else a.equal(b)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_have_the_bits_of_the_default_partition(name):
    expected = compiled_step(MODELS[name], backend=backend_of(default_partition))
    for options in BUDGETS:
        partition = antegrad.partition_fn(**options)
        expect_same_bits(compiled_step(MODELS[name], backend=backend_of(partition)), expected)
        assert len(partition.records) == 1


def test_several_sizes_are_one_graph():
    partition = antegrad.partition_fn(memory_share=0.0)
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = GPT()
    compiled = torch.compile(model, backend=backend_of(partition), dynamic=True)
    for length in (8, 12, 5):
        x = tokens(2, length)
        found = step(compiled, x)
        for a, b in zip(found, step(model, x)):
            torch.testing.assert_close(a, b)
    assert len(partition.records) == 1


def saved_bytes(**options):
    """Bytes of the tensors that the forward saves, without parameters and results."""
    found = []

    def compiler(module, _):
        outputs = module.graph.output_node().args[0]
        found.append(sum(n.meta["val"].nbytes for n in outputs[1:] if n.op != "placeholder" and "val" in n.meta))
        return as_it_is(module, _)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=as_it_is, partition_fn=antegrad.partition_fn(**options))
    compiled_step(MODELS["gpt"], backend=backend)
    return found[0]


def test_smaller_budgets_save_less():
    as_written, half, least = (saved_bytes(**options) for options in
                               ({"partition": "as_written"}, {"memory_share": 0.5}, {"memory_share": 0.0}))
    assert least < half < as_written


def peak_of(**options):
    partition = antegrad.partition_fn(**options)
    compiled_step(MODELS["gpt"], backend=backend_of(partition))
    return partition.records[0].peak_bytes


def test_a_budget_in_bytes_is_a_limit_on_the_predicted_peak():
    least, most = peak_of(memory_share=0.0), peak_of(memory_share=1.0)
    budget = (least + most) // 2
    assert least <= peak_of(memory_budget=budget) <= budget < most


def test_a_budget_that_no_plan_meets_is_refused():
    with pytest.raises(Exception, match="smallest for which a plan is known") as error:
        compiled_step(MODELS["gpt"], backend=backend_of(antegrad.partition_fn(memory_budget=1000, fallback=True)))
    assert "BudgetError" in str(error.getrepr()) or isinstance(error.value, antegrad.BudgetError)


def test_options_are_checked_at_once():
    for options in ({"memory_budget": -1}, {"no_such_option": 1}, {"memory_budget_compressors": ["bf16"]},
                    {"memory_share": 0.5, "budget_profile": "measured"},
                    {"activation_memory_budget": 0.5, "activation_memory_budget_runtime_estimator": "profile"}):
        with pytest.raises(antegrad.OptionError):
            antegrad.partition_fn(**options)


@pytest.mark.parametrize("options", BUDGETS)
def test_the_backward_reads_an_input_as_it_was_before_it_was_written(options):
    def function(w, x):
        y = w * x.clone()
        with torch.no_grad():
            x.add_(1)
        return y.sin().sum()

    w, x = torch.randn(8, requires_grad=True), torch.randn(8)
    expected = torch.autograd.grad((w * x).sin().sum(), w)[0]
    after = x + 1
    partition = antegrad.partition_fn(**options)
    torch.compile(function, backend=backend_of(partition))(w, x).backward()
    assert len(partition.records) == 1
    assert torch.equal(w.grad, expected)
    assert torch.equal(x, after)


@pytest.mark.parametrize("options", BUDGETS)
def test_the_backward_reads_an_input_with_history_as_it_was(options):
    """AOTAutograd writes such an input when the forward has returned."""

    def function(w, x):
        y = w * x.clone()
        x.mul_(2)
        return y.sin().sum()

    gradients = []
    partition = antegrad.partition_fn(**options)
    w, leaf = torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
    for f in (function, torch.compile(function, backend=backend_of(partition))):
        x = leaf * 1
        gradients.append(torch.autograd.grad(f(w, x) + x.sum(), (w, leaf)))
    assert len(partition.records) == 1
    for a, b in zip(*gradients):
        assert torch.equal(a, b)


def test_a_custom_operator_is_never_recomputed():
    calls = []

    @torch.library.custom_op("antegrad_tests::partition_probe", mutates_args=())
    def probe(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * 2

    probe.register_fake(lambda x: torch.empty_like(x))
    probe.register_autograd(lambda ctx, gradient: gradient * 2)
    x = torch.randn(16, 16, requires_grad=True)
    for options in BUDGETS:
        calls.clear()
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: probe(x).sin().exp().sum(), backend=backend_of(antegrad.partition_fn(**options)))
        compiled(x).backward()
        assert len(calls) == 1, options


def test_the_fallback_warns_and_leaves_the_graph_to_pytorch(monkeypatch):
    from antegrad import _partition

    def fail(*_):
        raise antegrad.GraphError("expected something else, found this")

    monkeypatch.setattr(_partition, "plan_exported", fail)
    expected = compiled_step(MODELS["mlp"], backend=backend_of(default_partition))
    with pytest.warns(UserWarning, match="antegrad cannot partition this graph.*expected something else"):
        found = compiled_step(MODELS["mlp"], backend=backend_of(antegrad.partition_fn(fallback=True)))
    expect_same_bits(found, expected)
    with pytest.raises(Exception, match="expected something else, found this"):
        compiled_step(MODELS["mlp"], backend=backend_of(antegrad.partition_fn()))


needs_command_line = pytest.mark.skipif("ANTEGRAD_CLI" not in os.environ, reason="needs the command line")


def command_line(*words):
    """What the command prints on standard output."""
    run = subprocess.run([os.environ["ANTEGRAD_CLI"], *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@needs_command_line
def test_the_command_line_reads_records(tmp_path):
    for options in ({}, {"memory_share": 0.25}):
        partition = antegrad.partition_fn(**options)
        compiled_step(MODELS["gpt with dropout"], backend=backend_of(partition))
        file = tmp_path / "record.agraph"
        partition.records[0].save(file)
        for command in (["replay"], ["explain", "--as-is"]):
            printed = command_line(*command, file)
            if command == ["replay"]:
                assert printed.startswith("same: "), printed


@needs_command_line
def test_the_command_line_counts_as_a_record_does(tmp_path):
    """A budget of the recorded peak gives the recorded plan: what kernels keep in registers is in neither."""
    with inductor(memory_share=0.3) as partitioner:
        compiled_step(MODELS["gpt with dropout"], backend="inductor")
    record, = partitioner.records
    file = tmp_path / "record.agraph"
    record.save(file)
    explained = json.loads(command_line("explain", file, "--budget", f"{record.peak_bytes}B", "--json"))
    assert explained["peak_bytes"] == record.peak_bytes


@contextlib.contextmanager
def inductor(**options):
    partitioner = antegrad.inductor_partitioner(**options)
    with torch._inductor.config.patch(custom_partitioner_fn=partitioner, fx_graph_cache=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield partitioner


@pytest.mark.parametrize(
    "name,options", [("gpt with dropout", {"memory_share": 0.0}), ("cnn", {}), ("mlp", {"memory_share": 0.3})])
def test_inductor_computes_the_same_gradients(name, options):
    """Draws included: Inductor computes them from seeds, which the same generator gives."""
    with torch._inductor.config.patch(fx_graph_cache=False):
        expected = compiled_step(MODELS[name], backend="inductor", dynamic=name == "mlp")
    with inductor(**options) as partitioner:
        found = compiled_step(MODELS[name], backend="inductor", dynamic=name == "mlp")
    assert len(partitioner.records) == 1
    assert partitioner.records[0].recomputed > 0
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_cache_tells_options_apart():
    same = antegrad.inductor_partitioner(memory_share=0.5).uuid()
    assert same == antegrad.inductor_partitioner(memory_share=0.5).uuid()
    assert same != antegrad.inductor_partitioner(memory_share=0.25).uuid()
