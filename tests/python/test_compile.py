"""antegrad.compile against eager."""

import collections
import threading

import pytest
import torch
from eager import assert_as_eager

import antegrad


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


def expect_as_eager(function, *args, leaves=(), calls=3, **options):
    compiled = antegrad.compile(function, **options)
    for _ in range(calls):
        assert_as_eager(compiled, function, args, leaves)
    report = compiled.report()
    assert report.eager_calls == 0
    assert report.compiled_calls == calls
    return report


def test_results_and_gradients():
    w = leaf(3, 4)
    report = expect_as_eager(lambda x: (x @ w).tanh().sum(), leaf(2, 3), leaves=[w])
    assert len(report.programs) == 1
    assert report.programs[0].lifted_tensors == 1
    assert "1 program" in str(report)


Pair = collections.namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x * 2,
        lambda x: (x, x + 1),
        lambda x: [x.sin(), None, 3, 0.5, "text", True],
        lambda x: {"a": x.exp(), "b": {"c": (x * 3,)}, 4: x},
        lambda x: Pair(x.cos(), x.sum()),
        lambda x: torch.max(x, dim=0),
        lambda x: (x.shape, x.dtype, x.device),
        lambda x: collections.OrderedDict(z=x + 1, a=x + 2),
        lambda x: (),
    ],
)
def test_structures_of_results(make):
    expect_as_eager(make, leaf(2, 3))


def test_grouped_products():
    # Python registers a Meta kernel for these, which refuses float32 and does not pad rows.
    offsets = torch.tensor([2, 4, 6], dtype=torch.int32)
    expect_as_eager(lambda x, w: torch._grouped_mm(x, w, offs=offsets).exp(), leaf(6, 8), leaf(3, 8, 4))
    expect_as_eager(lambda x, w: torch._grouped_mm(x, w.mT, offs=offsets), leaf(6, 8).detach(), leaf(3, 6, 8).detach())


def test_structures_of_arguments():
    def function(batch, pair, scale=1.0, *, mode):
        y = batch["x"] * scale + pair.first
        return y.sum() if mode == "sum" else y[batch["rows"]]

    compiled = antegrad.compile(function)
    x = leaf(4, 3)
    pair = Pair(leaf(4, 3), None)
    for mode, scale in (("sum", 2), ("rows", 2.0), ("rows", 3)):
        batch = {"x": x, "rows": slice(1, 3)}
        found = compiled(batch, pair, scale, mode=mode)
        assert torch.equal(found, function(batch, pair, scale, mode=mode))
    assert len(compiled.report().programs) == 3


def test_signs_of_zeros_are_values():
    compiled = antegrad.compile(lambda x, c: x * c)
    x = torch.ones(2, dtype=torch.complex64)
    for c in (complex(0.0, 0.0), complex(0.0, -0.0), 0.0, -0.0):
        found, expected = compiled(x, c), x * c
        assert torch.equal(torch.view_as_real(found).signbit(), torch.view_as_real(expected).signbit())
    assert len(compiled.report().programs) == 4


def test_other_types_are_refused():
    compiled = antegrad.compile(lambda x: x)
    with pytest.raises(antegrad.CaptureError, match="found an object of type builtins.object"):
        compiled(object())
    with pytest.raises(antegrad.CaptureError, match="found an object of type builtins.set"):
        antegrad.compile(lambda x: {1})(leaf(2))


def test_a_module():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    twin.load_state_dict(model.state_dict())
    compiled = antegrad.compile(model)
    x = torch.randn(5, 3)
    for training in (True, True, False, True):
        model.train(training), twin.train(training)
        torch.manual_seed(3)
        found = compiled(x)
        torch.manual_seed(3)
        expected = twin(x)
        assert torch.equal(found, expected)
        found.square().sum().backward(), expected.square().sum().backward()
        for p, q in zip(model.parameters(), twin.parameters()):
            assert torch.equal(p.grad, q.grad)
        assert torch.equal(model[1].running_mean, twin[1].running_mean)
    assert len(compiled.report().programs) == 2
    assert compiled.report().eager_calls == 0


def test_identity_of_results():
    w = leaf(3)
    compiled = antegrad.compile(lambda x: (w, x, x.view(-1)))
    x = leaf(3)
    a, b, c = compiled(x)
    assert a is w and b is x
    assert c._base is x


def test_a_python_autograd_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    expect_as_eager(lambda x: Cube.apply(x.sin()), leaf(3))


def test_the_functions_own_exception():
    def function(x, fail):
        if fail:
            raise KeyError("mine")
        return x * 2

    compiled = antegrad.compile(function)
    x = leaf(2)
    with pytest.raises(KeyError, match="mine"):
        compiled(x, True)
    assert torch.equal(compiled(x, False), x * 2)


class Node:
    """Refers to itself, and therefore lives until the garbage collector runs."""

    def __init__(self, value):
        self.value, self.me = value, self


def test_garbage_in_cycles():
    expect_as_eager(lambda x: Node(x.sin()).value * 2, leaf(3))


def test_what_is_kept_is_refused_still():
    kept = []

    def function(x):
        kept.append(Node(x.sin()))
        return x * 2

    with pytest.raises(antegrad.EscapeError, match="still held"):
        antegrad.compile(function)(leaf(3))


def test_errors_keep_their_types():
    with pytest.raises(antegrad.DataDependentError, match=r"_local_scalar_dense.*called at a line of Python(.|\n)*at .*test_compile.py:\d+, in <lambda>"):
        antegrad.compile(lambda x: x * x.sum().item())(leaf(2))
    with pytest.raises(antegrad.CaptureError):
        antegrad.compile(lambda x: x.numpy().sum())(torch.ones(2))
    with pytest.raises(antegrad.TensorKindError, match="sparse"):
        antegrad.compile(lambda x: x * 2)(torch.eye(2).to_sparse())
    with pytest.raises(RuntimeError, match="must match"):
        antegrad.compile(lambda x: x + torch.ones(3))(leaf(2))
    assert issubclass(antegrad.DataDependentError, antegrad.CaptureError)
    assert issubclass(antegrad.CaptureError, RuntimeError)


def test_branches_and_sizes_from_data():
    def function(x):
        y = x[x > 0]
        return y.sin() if len(y) > 2 or x.sum() > 0 else x * int((x < 0).sum())

    compiled = antegrad.compile(function)
    for numbers in ([1, 2, 3, 4], [-1, -2, -3, 4], [1, 2, 3, -9], [-1, -2, -3, -4], [4, 3, 2, 1]):
        assert_as_eager(compiled, function, (torch.tensor(numbers, dtype=torch.float32, requires_grad=True),))
    report = compiled.report()
    assert len(report.programs) == 4 and report.eager_calls == 0
    assert "was [4], is [1]" in report.recompiles[0]


def test_an_error_that_the_function_catches():
    def function(x):
        try:
            return x * x.sum().item()
        except RuntimeError:
            return x * 2

    x = leaf(2)
    assert torch.equal(antegrad.compile(function)(x), x * 2)


def test_a_kept_stand_in():
    kept = []
    compiled = antegrad.compile(lambda x: kept.append(x * 2) or x)
    with pytest.raises(antegrad.EscapeError):
        compiled(leaf(2))


def test_options():
    with pytest.raises(antegrad.OptionError, match="did you mean max_programs"):
        antegrad.compile(lambda x: x, max_program=3)
    with pytest.raises(antegrad.OptionError, match="one of off, pow2, every"):
        antegrad.compile(lambda x: x, audit="sometimes")
    with pytest.raises(antegrad.OptionError, match="an integer from 1 for the option max_programs"):
        antegrad.compile(lambda x: x, max_programs="many")
    with pytest.raises(TypeError, match="a function or a module"):
        antegrad.compile(3)

    @antegrad.compile(on_refusal="eager", name="sampled")
    def sampled(x):
        return x * x.sum().item()

    x = leaf(2)
    assert torch.equal(sampled(x), x * x.sum().item())
    report = antegrad.report(sampled)
    assert report.name == "sampled" and report.eager_calls == 1
    assert any("_local_scalar_dense" in reason for reason in report.eager_reasons)


@torch.library.custom_op("antegrad_python_test::columns", mutates_args=())
def columns(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).t().contiguous().t()


@columns.register_fake
def _(x):
    return torch.empty_like(x)  # wrong: the result is column-major


def test_shapes_compared_with_kernels():
    x = torch.randn(3, 4)
    with pytest.raises(antegrad.ShapeMismatchError, match="columns.default: expected a Meta kernel that agrees"):
        antegrad.compile(lambda t: columns(t) + t, cross_check_shapes="error")(x)
    compiled = antegrad.compile(lambda t: columns(t) + t, cross_check_shapes="use_kernel")
    found, expected = compiled(x), columns(x) + x
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    checks = antegrad.report(compiled).programs[0].shape_checks
    assert checks["antegrad_python_test::columns.default"].mismatches == 1
    assert checks["aten::add.Tensor"].checked == 1 and checks["aten::add.Tensor"].mismatches == 0


def test_host_state():
    state = {"scale": 2.0}
    compiled = antegrad.compile(lambda x: x * state["scale"])
    x = leaf(2)
    compiled(x)
    state["scale"] = 3.0
    with pytest.raises(antegrad.HostStateError, match=r"'state\[scale\]' was 2.0, is 3.0|'state\['scale'\]' was 2.0, is 3.0"):
        compiled(x)
    guarded = antegrad.compile(lambda x: x * state["scale"])
    guarded.guard(lambda: state["scale"])
    for scale in (3.0, 4.0, 3.0):
        state["scale"] = scale
        assert torch.equal(guarded(x), x * scale)
    assert len(guarded.report().programs) == 2


def test_an_attribute_of_a_module_that_changes_is_named():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)
            self.inner.scale = 2.0
            self.mode = "mul"

        def forward(self, x):
            return self.inner(x) * self.inner.scale

    model = Scaled()
    compiled = antegrad.compile(model)
    x = leaf(2, 3)
    compiled(x)
    model.inner.scale = 3.0
    with pytest.raises(antegrad.HostStateError, match=r"since the first capture 'Scaled.inner.scale' was 2.0, is 3.0"):
        compiled(x)
    assert torch.equal(compiled(x), model(x))


def test_warmup_and_reset():
    calls = []
    compiled = antegrad.compile(lambda x: calls.append(1) or x * 2, audit="off")
    x = leaf(2)
    compiled.warmup(x)
    assert torch.equal(compiled(x), x * 2)
    assert len(calls) == 1
    compiled.reset()
    assert compiled.report().programs == []
    compiled(x)
    assert len(calls) == 2


def test_threads():
    w = leaf(8, 8)
    compiled = antegrad.compile(lambda x: (x @ w).sin().sum())
    wrong = []

    def work(rows):
        for _ in range(10):
            x = torch.ones(rows, 8)
            found = torch.autograd.grad(compiled(x), w)[0]
            expected = torch.autograd.grad((x @ w).sin().sum(), w)[0]
            if not torch.equal(found, expected):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(1 + n % 2,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert compiled.report().eager_calls == 0


def test_an_unusual_backward():
    compiled = antegrad.compile(lambda x: (x.sin(), x.cos()))
    x = leaf(3)
    a, b = compiled(x)
    a.sum().backward()
    assert torch.equal(x.grad, x.detach().cos())


def test_a_checkpoint():
    from torch.utils.checkpoint import checkpoint

    w = leaf(4, 4)

    def function(x, draw, use_reentrant=False):
        def part(y):
            y = (y @ w).tanh() @ w
            return torch.nn.functional.dropout(y, 0.5) if draw else y

        return checkpoint(part, x.sin(), use_reentrant=use_reentrant).sum()

    x = leaf(3, 4)
    expect_as_eager(lambda x: function(x, False), x, leaves=[w])
    expect_as_eager(lambda x: function(x, True), x, leaves=[w])
    with pytest.raises(RuntimeError, match="expected .*found "):
        antegrad.compile(lambda x: function(x, True, use_reentrant=True))(x).backward()


def test_host_data_inside():
    expect_as_eager(lambda x: x[torch.tensor([2, 0])] * torch.tensor([[1.0], [2.0]]), leaf(3, 4))
    expect_as_eager(lambda x: (x + torch.tensor([1, 2]).add_(1), torch.tensor([3.0, 4.0])), leaf(2))


def test_functions_die():
    import gc
    import weakref

    class Callable:
        def __call__(self, x):
            return x * 2

    function = Callable()
    gone = weakref.ref(function)
    compiled = antegrad.compile(function)
    compiled(leaf(2))
    assert compiled.__wrapped__ is function
    del compiled, function
    gc.collect()
    assert gone() is None


def test_errors_of_backward_passes_keep_their_types():
    compiled = antegrad.compile(lambda x: (x * x).sum())
    loss = compiled(leaf(2))
    loss.backward()
    with pytest.raises(antegrad.BackwardError, match="retain_graph"):
        loss.backward()
    x = leaf(2)
    with pytest.raises(antegrad.BackwardError, match="create_graph"):
        torch.autograd.grad(compiled(x), x, create_graph=True)


def test_an_encoder_with_a_padding_mask():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    gaps = torch.tensor([[False] * 5, [False, True, False, True, True]])
    x = torch.randn(2, 5, 8)

    def function(mask):
        return model(x, src_key_padding_mask=mask)

    compiled = antegrad.compile(function)
    for mask in (padding, gaps, padding):  # the model asks whether a mask has gaps
        assert_as_eager(compiled, function, (mask,), list(model.parameters()))
    assert compiled.report().eager_calls == 0 and len(compiled.report().programs) == 2
    with torch.no_grad():  # without gaps its fast path makes nested tensors
        assert_as_eager(compiled, function, (gaps,))
        with pytest.raises(antegrad.TensorKindError, match="nested"):
            compiled(padding)
        eagerly = antegrad.compile(function, on_refusal="eager")
        assert_as_eager(eagerly, function, (padding,))
        assert eagerly.report().eager_calls == 1
