"""Sizes and numbers that change between calls of torch.compile(..., backend="antegrad"), against eager."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from eager import assert_as_eager
from torch import nn
from torch.utils.checkpoint import checkpoint

import antegrad


def leaf(*sizes, dtype=torch.float32):
    return torch.randn(sizes, dtype=dtype, requires_grad=True)


def programs_for(function, calls, leaves=(), dynamic=None, **options):
    """Compares each call with eager, gradients included. Returns the number of programs of each of Dynamo's graphs."""
    options = {"max_programs": 64, **options}
    compiled = torch.compile(function, backend=antegrad.backend, dynamic=dynamic, options=options)
    for args in calls:
        assert_as_eager(compiled, function, args, leaves)
    reports = antegrad.report(compiled)
    assert all(report.eager_calls == 0 for report in reports)
    return [len(report.programs) for report in reports]


def floats(*sizes, dtype=torch.float32):
    """Calls with a float that changes. Dynamo fixes the first value in a graph and passes the others."""
    return [(leaf(*sizes, dtype=dtype), number) for number in (0.1, 0.2, 0.3, 0.5, 1.0, 7.5)]


one_for_all = [1, 1]  # one program for the first value, one for all others
one_more = [1, 2]  # a number that stays a number: a program for the second value, and one for all others
one_for_each = [1, 5]


# Sizes


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


def reshaped(x):
    rows, columns, channels = x.shape
    y = x.view(rows * columns, channels).sin()
    return y.reshape(rows, columns, 2, channels // 2).transpose(1, 2).reshape(rows, -1)


def causal(x):
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    return (x @ x.T).masked_fill(~mask, -1e9).softmax(-1)


models = {
    "layer_norm": (nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8)), [(5, 6), (3, 6), (8, 6), (1, 6), (7, 6)]),
    "group_norm": (nn.Sequential(nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3)), [(2, 4, 5, 6), (2, 4, 3, 4), (3, 4, 7, 5)]),
    "batch_norm": (nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()).eval(), [(2, 4, 5, 6), (2, 4, 3, 4), (3, 4, 7, 5)]),
    "rms_norm": (nn.RMSNorm(4), [(5, 4), (3, 4), (9, 4)]),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), [(2, 3, 9, 9), (3, 3, 11, 11), (1, 3, 7, 7)]),
    "attention": (Attention(), [(2, 5, 8), (2, 7, 8), (2, 3, 8)]),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(2, 5, 8), (2, 7, 8), (3, 2, 8)]),
    "reshaped": (reshaped, [(2, 5, 8), (2, 7, 8), (3, 3, 8)]),
    "causal": (causal, [(4, 4), (3, 4), (7, 4)]),
    "size_as_number": (lambda x: x.sum() / x.shape[0] * x.shape[1] + x.numel() ** 0.5, [(2, 5), (3, 7), (4, 9)]),
    "padded": (lambda x: F.pad(x, (0, x.shape[0])).split(x.shape[0], 1)[0], [(4, 5), (3, 5), (7, 5)]),
    "interpolated": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), [(1, 2, 4, 4), (1, 2, 3, 3), (1, 2, 7, 7)]),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", models)
def test_sizes(name, dynamic):
    model, shapes = models[name]
    leaves = list(model.parameters()) if isinstance(model, nn.Module) else []
    programs = programs_for(model, [(leaf(*shape),) for shape in shapes], leaves, dynamic)
    assert sum(programs) == len(shapes)


def test_marked_dimensions():
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))
    inputs = [leaf(rows, 6) for rows in (5, 3, 8, 7)]
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 0)
    assert programs_for(model, [(x,) for x in inputs], list(model.parameters())) == [4]


def test_equal_sizes_and_sizes_of_0_and_1():
    sizes = [(4, 4), (4, 5), (6, 6), (3, 2), (1, 1), (0, 3), (3, 0)]
    calls = [(leaf(n, m), leaf(m, n)) for n, m in sizes]
    assert sum(programs_for(lambda x, y: (x @ y + x.shape[0]).sin(), calls, dynamic=True)) == len(sizes)


# Floats


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x * s,
        lambda x, s: (x / s).softmax(-1),
        lambda x, s: x * (1 - s) + x.sin() * s**2 / 3.0,
        lambda x, s: -s * x + max(s, 0.25),
        lambda x, s: s / (x * x + 1) - (s - x),
        lambda x, s: x.sin().mul_(s).add_(s),
        lambda x, s: F.mse_loss(x.tanh(), x) + s * x.square().mean(),
        lambda x, s: (s - x.sum()) / s + s / x.mean(),
        lambda x, s: (x * s, s * 2, s),
        lambda x, s: (s * 2, x.sin()),
        lambda x, s: x * int(s * 0) + x * s,
    ],
)
def test_a_float_that_changes(function):
    assert programs_for(function, floats(2, 3)) == one_for_all


def test_floats_from_the_first_call_on():
    assert programs_for(lambda x, s: x * s, floats(3), dynamic=True) == [1]


def test_floats_at_the_limits():
    numbers = (1.1, math.pi, 1e300, 1e-300, 5e-324, -0.0, 3e38, 1e-40, 65520.0)
    calls = [(leaf(3), number) for number in numbers]
    assert programs_for(lambda x, s: (x * s, x + s, x / s, s - x, s / x), calls) == one_for_all


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x.clamp(-s, s),
        lambda x, s: x + torch.full_like(x, s),
        lambda x, s: torch.where(x > s, x, s),
        lambda x, s: F.leaky_relu(x, s),
        lambda x, s: (x * s).clamp(max=s),
        lambda x, s: x.long() * s,
        lambda x, s: x.sum().bfloat16() * s,
        lambda x, s: F.gumbel_softmax(x, tau=s),
        lambda x, s: torch.func.grad(lambda y: (y * s).sin().sum())(x),
    ],
)
def test_a_float_as_a_scalar(function):
    assert programs_for(function, floats(3, 4)) == one_more


def test_a_float_that_is_compared():
    assert programs_for(lambda x, s: torch.add(x, x.sin(), alpha=s), floats(3, 4)) == [1, 3]  # whether it is 1


def test_a_float_that_decides():
    assert programs_for(lambda x, s: (x.abs() + 1) ** s, floats(3, 4)) == one_for_each


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: F.dropout(x, s / 10),
        lambda x, s: x.sin() if s > 0.3 else x.cos(),
        lambda x, s: F.scaled_dot_product_attention(x, x, x, scale=s),
        lambda x, s: x * math.exp(-s),
    ],
)
def test_a_float_that_dynamo_fixes(function):
    assert set(programs_for(function, floats(2, 3, 4))) == {1}


operators = {
    "x * s": lambda x, s: x * s,
    "s * x": lambda x, s: s * x,
    "x + s": lambda x, s: x + s,
    "s + x": lambda x, s: s + x,
    "x - s": lambda x, s: x - s,
    "s - x": lambda x, s: s - x,
    "x / s": lambda x, s: x / s,
    "s / x": lambda x, s: s / x,
    "torch.mul": torch.mul,
    "torch.add": torch.add,
    "torch.sub": torch.sub,
    "torch.div": torch.div,
    "mul_": lambda x, s: x.sin().mul_(s),
    "add_": lambda x, s: x.sin().add_(s),
    "sub_": lambda x, s: x.sin().sub_(s),
    "div_": lambda x, s: x.sin().div_(s),
}
dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.int32, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", dtypes, ids=str)
@pytest.mark.parametrize("sizes", [(), (37,), (3, 0), (5, 7)], ids=str)
def test_bits(dtype, sizes):
    """Each operator, also on results without dimensions, and with floats and ints."""
    differentiable = dtype.is_floating_point or dtype.is_complex
    names = [name for name in operators if differentiable or not name.endswith("_")]

    def function(x, s):
        return [operators[name](x, s) for name in names]

    def argument():
        x = (torch.randn(sizes, dtype=torch.float64) * 3).to(dtype)
        return x.requires_grad_() if differentiable else x

    for numbers in ([0.1, 1 / 3, -2.7, 1000.1, 0.3], [3, 7, -5, 1001, 11]):
        torch._dynamo.reset()
        if dtype == torch.bool and isinstance(numbers[0], int):
            continue
        if dtype == torch.bool:
            names = [name for name in names if name not in ("x - s", "s - x", "torch.sub")]
        programs = programs_for(function, [(argument(), number) for number in numbers])
        if dtype.is_floating_point and (sizes or dtype in (torch.float32, torch.float64)):
            assert programs == one_for_all


def test_mixed_precision():
    linear = nn.Linear(4, 4)

    def function(x, s):
        with torch.autocast("cpu", torch.bfloat16):
            return (linear(x) * s).sin() / s + s

    assert programs_for(function, floats(3, 4), list(linear.parameters())) == one_for_all


# Attributes and schedules


class LoRA(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.down = nn.Linear(4, 2, bias=False)
        self.up = nn.Linear(2, 4, bias=False)
        self.number = 1.0

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.number


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.decoder = nn.Linear(2, 4)
        self.number = 0.0  # the weight of the KL divergence

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        y = self.decoder(mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean))
        divergence = -0.5 * torch.mean(1 + log_variance - mean.square() - log_variance.exp())
        return F.mse_loss(y, x) + self.number * divergence


@pytest.mark.parametrize("kind", [LoRA, Autoencoder])
def test_an_attribute_that_changes(kind):
    model = kind()

    def calls():
        for model.number in (0.0, 0.1, 0.2, 0.5, 1.0, 2.0):
            yield (leaf(3, 4),)

    assert programs_for(model, calls(), list(model.parameters())) == one_for_all


def test_a_schedule_in_training():
    def train(compile):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def loss_of(x, y, temperature, step):
            return F.mse_loss(model(x) / temperature, y) * (1 - 0.9**step)

        compiled = compile(loss_of)
        losses = []
        for step in range(2, 10):
            optimizer.zero_grad()
            loss = compiled(torch.randn(8, 4), torch.randn(8, 1), 1 / step, step)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return compiled, losses

    compiled, found = train(lambda f: torch.compile(f, backend=antegrad.backend))
    _, expected = train(lambda f: f)
    assert all(map(torch.equal, found, expected))
    assert [len(report.programs) for report in antegrad.report(compiled)] == one_for_all


# Ints


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * n + x / (n + 1) - n,
        lambda x, n: x * 0.9**n * (1 / (1 + n)),
        lambda x, n: (x * n, n + 1, n),
    ],
)
def test_an_int_that_changes(function):
    assert programs_for(function, [(leaf(3), n) for n in range(2, 9)]) == one_for_all


def test_an_int_that_decides():
    programs = programs_for(lambda x, n: (x * n).roll(n, 0)[:n] + n, [(leaf(9), n) for n in (2, 3, 4, 5, 0, 1)])
    assert sum(programs) == 6


def test_numbers_and_sizes():
    calls = [(leaf(n), n / 7) for n in range(2, 7)]
    assert programs_for(lambda x, s: x * (x.shape[0] * s), calls, dynamic=True) == [5]


# Graphs within graphs


def checkpointed(body):
    return lambda x, s: checkpoint(body, x, s, use_reentrant=False)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, s: (x * s * (1 - s)).sin(),
        lambda x, s: (s / x).sum() * s + s / x.sum(),
        lambda x, s: checkpoint(lambda x: (x / s).cos() - s * 3, x.sin() * s, use_reentrant=False),
    ],
)
def test_a_float_in_a_checkpoint(body):
    assert programs_for(checkpointed(body), floats(3, 4)) == one_for_all


def test_a_float_as_a_scalar_in_a_checkpoint():
    assert programs_for(checkpointed(lambda x, s: (x * s).sin().clamp(-s, s)), floats(3, 4)) == one_more


def test_layer_norm_in_a_checkpoint():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    calls = [(leaf(rows, 4),) for rows in (3, 5, 7)]
    function = lambda x: checkpoint(model, x, use_reentrant=False)  # noqa: E731
    assert programs_for(function, calls, list(model.parameters()), dynamic=True) == [3]


def test_a_float_in_an_autograd_function():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale, None

    assert programs_for(lambda x, s: Scale.apply(x.sin(), s).cos(), floats(3, 4)) == one_for_each


def test_a_float_after_a_graph_break():
    def function(x, s):
        y = x * s
        torch._dynamo.graph_break()
        return y + s * 2

    assert programs_for(function, floats(3)) == [1, 1, 1, 1]


# item()


def test_a_tensor_of_the_caller_that_is_read():
    numbers = [torch.tensor(s) for s in (0.1, 0.2, 0.3)]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert programs_for(lambda x, t: x * t.item() + t, [(leaf(3), t) for t in numbers]) == [1]
        torch._dynamo.reset()
        assert programs_for(lambda x, t: x.clamp(-t.item(), t.item()), [(leaf(3), t) for t in numbers]) == [2]


@pytest.mark.parametrize("change", [lambda t: t.sin(), lambda t: t.mul_(2), lambda t: t.data.mul_(2), lambda t: t[None][0].add_(1)])
def test_a_tensor_that_the_graph_changes_and_reads_is_refused(change):
    def function(x, t):
        y = change(t)
        return x * (t if y is None else y).item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(function, backend=antegrad.backend)
        with pytest.raises(Exception, match="needs the data of a tensor|data_ptr"):
            compiled(leaf(3), torch.tensor(0.5))


def test_arguments_that_are_written():
    def function(parameter, gradient, rate, decay):
        parameter.mul_(1 - rate * decay)
        parameter.sub_(gradient * rate)
        return parameter.sum()

    compiled = torch.compile(function, backend=antegrad.backend)
    for n in range(1, 7):
        parameter, gradient = torch.randn(4), torch.randn(4)
        twin = parameter.clone()
        assert torch.equal(compiled(parameter, gradient, n / 7, n / 9), function(twin, gradient, n / 7, n / 9))
        assert torch.equal(parameter, twin)
    assert [len(report.programs) for report in antegrad.report(compiled)] == one_for_all


def test_inference_mode():
    with torch.inference_mode():
        assert programs_for(lambda x, s: x * (1 - s), [(torch.randn(3), n / 3) for n in range(5)]) == one_for_all


def test_an_error_in_python():
    compiled = torch.compile(lambda x, s: x * (1 / s), backend=antegrad.backend)
    for number in (0.1, 0.2, 0.3):
        compiled(leaf(3), number)
    with pytest.raises(ZeroDivisionError):
        compiled(leaf(3), 0.0)


def test_a_check_against_eager():
    assert programs_for(lambda x, s: x * s, floats(3), check_against_eager=2) == one_for_all


def test_all_pairs_of_uses():
    """A number that is used in two ways is a number in both."""
    uses = [lambda x, s: x * s, lambda x, s: x.clamp(max=s), lambda x, s: x - s * 2, lambda x, s: s / x.sum()]
    for first, second in itertools.combinations(uses, 2):
        torch._dynamo.reset()
        programs = programs_for(lambda x, s: first(x, s) + second(x, s), floats(3))
        assert programs == (one_more if uses[1] in (first, second) else one_for_all)
