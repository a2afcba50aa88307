"""Structures as arguments and results of antegrad.compile, and containers that the function changes."""

import collections
import copy
import dataclasses
import enum

import pytest
import torch
from eager import same
from torch.utils import _pytree as pytree

import antegrad


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


def cloned(value):
    """A copy of a structure with new leaves as tensors. An object that occurs twice is copied once."""
    memo = {}

    def visit(tensor):
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)

    for found in gc_tensors(value, set()):
        visit(found)
    return copy.deepcopy(value, memo)


def gc_tensors(value, seen):
    """All tensors in a structure of plain Python objects."""
    if id(value) in seen or isinstance(value, (str, type)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
        return
    children = list(value.values()) if isinstance(value, dict) else []
    if isinstance(value, (list, tuple, collections.deque)):
        children = list(value)
    children += list(getattr(value, "__dict__", {}).values())
    children += [getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
    for child in children:
        yield from gc_tensors(child, seen)


def assert_equal(found, expected):
    """Equal types and bits, and the same object (except tuples) in the same places."""
    pairs = {}

    def compare(a, b):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert same(a, b)
        elif not isinstance(a, (str, int, float, bool, type(None), type, enum.Enum, torch.dtype)):
            if not isinstance(a, tuple):
                if id(b) in pairs:
                    assert pairs[id(b)] is a
                    return
                pairs[id(b)] = a
            if isinstance(a, dict):
                assert list(a) == list(b)
                for key in a:
                    compare(a[key], b[key])
            elif isinstance(a, (list, tuple, collections.deque)):
                assert len(a) == len(b)
                for x, y in zip(a, b):
                    compare(x, y)
            compare(getattr(a, "__dict__", None) or None, getattr(b, "__dict__", None) or None)
            for name in getattr(type(a), "__slots__", ()):
                assert hasattr(a, name) == hasattr(b, name)
                compare(getattr(a, name, None), getattr(b, name, None))
        else:
            assert a == b or a != a

    compare(found, expected)


def expect_as_eager(function, *args, calls=4, **kwargs):
    """Results, arguments after the call, and gradients. Each call gets its own arguments."""
    compiled = antegrad.compile(function)
    for _ in range(calls):
        outcomes = []
        for call in (compiled, function):
            torch.manual_seed(1)
            own_args, own_kwargs = cloned((args, kwargs))
            leaves = [t for t in gc_tensors((own_args, own_kwargs), set()) if t.requires_grad]
            result = call(*own_args, **own_kwargs)
            handed_out = (result, own_args, own_kwargs)
            roots = [t for t in gc_tensors(handed_out, set()) if t.grad_fn is not None]
            loss = sum(t.square().sum() for t in roots)
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if roots else ()
            outcomes.append((handed_out, gradients))
        assert_equal(*outcomes)
    assert compiled.report().eager_calls == 0
    assert compiled.report().compiled_calls == calls
    return compiled


# ---- containers that the function changes


def appends(x, out):
    out.append(x.sin())


def appends_and_returns(x, out):
    out.append(x * 2)
    return out, out[-1]


def extends(x, out):
    out.extend([x + 1, 3, "text"])
    out += [x.exp()]


def clears(x, out):
    out.clear()
    return x * 2


def sets_and_deletes(x, out):
    out[0] = x.cos()
    del out[1]
    out.insert(0, x)
    return x.sum()


def changes_numbers(x, out):
    out[0] = 5
    out.append(out[1] + 1)
    return x * out[-1]


@pytest.mark.parametrize("function", [appends, appends_and_returns, extends, clears, sets_and_deletes])
def test_a_list(function):
    expect_as_eager(function, leaf(3), [leaf(2), torch.ones(2)])


def test_a_list_of_numbers():
    expect_as_eager(changes_numbers, leaf(3), [1, 2])
    expect_as_eager(changes_numbers, leaf(3), [5, 2.5])
    expect_as_eager(lambda x, zeros: zeros.__setitem__(0, -0.0), leaf(3), [0.0, float("nan")])


def test_a_list_for_one_call_after_the_other():
    compiled = antegrad.compile(appends)
    x, out = leaf(3), []
    for length in (1, 2, 3, 4):
        compiled(x, out)
        assert len(out) == length and same(out[-1], x.sin())
    assert len(compiled.report().programs) == 4  # another length is another program


def test_a_dictionary():
    def function(x, state):
        state["step"] += 1
        state["new"] = x * state["scale"]
        del state["old"]
        state["nested"]["list"].append(state["new"].sum())
        return state["new"]

    expect_as_eager(function, leaf(3), {"old": leaf(1), "scale": leaf(3), "step": 1, "nested": {"list": [], "other": [1]}})
    expect_as_eager(lambda x, state: state.setdefault("a", x * 2), leaf(3), {})
    expect_as_eager(lambda x, state: state.update(b=x, a=x + 1), leaf(3), {"a": 1})
    expect_as_eager(lambda x, *, state: state.pop("a") * x, leaf(3), state={"a": leaf(3), "b": 2})


def test_the_order_of_a_dictionary():
    def function(x, state):
        state["a"] = state.pop("a") * x

    expect_as_eager(function, leaf(2), {"a": leaf(2), "b": leaf(2)})
    expect_as_eager(function, leaf(2), collections.OrderedDict(a=leaf(2), b=leaf(2)))
    expect_as_eager(lambda x, state: state.move_to_end("a"), leaf(2), collections.OrderedDict(a=leaf(2), b=leaf(2)))


def test_other_containers():
    expect_as_eager(lambda x, groups: groups["new"].append(x * 2), leaf(2), collections.defaultdict(list))
    expect_as_eager(lambda x, window: window.append(x * 2), leaf(2), collections.deque([leaf(2), 1], maxlen=2))
    expect_as_eager(lambda x, pair: pair[0].append(x * pair[1]), leaf(2), ([], 3))


def test_one_container_twice():
    def function(x, a, b):
        a.append(x * 2)
        return len(b), a is b

    shared = []
    expect_as_eager(function, leaf(2), [], [])
    expect_as_eager(function, leaf(2), shared, shared)
    expect_as_eager(lambda x, a, b: b["same"].append(x), leaf(2), shared, {"same": shared})
    compiled = antegrad.compile(function)
    assert compiled(leaf(2), [], []) == (0, False)
    assert compiled(leaf(2), shared, shared) == (1, True)
    assert len(shared) == 1


def test_many_containers():
    def function(x, rows):
        rows[7].append(x * 2)
        rows.append(rows[7])
        rows[30] = rows[29]

    expect_as_eager(function, leaf(2), [[n] for n in range(40)])


def test_containers_that_contain_themselves():
    def function(x, loop):
        loop[0].append(x * 2)
        loop.append(loop)
        return [loop]

    loop = [[]]
    loop.append(loop)
    expect_as_eager(function, leaf(2), loop)

    def own(x):
        result = [x + 1]
        result.append({"me": result})
        return result

    expect_as_eager(own, leaf(2))


def test_containers_of_the_caller_are_handed_out():
    inner = []
    state = {"inner": inner}
    kept, new, again = antegrad.compile(lambda x, s: (s["inner"], l := [x * 2], l))(leaf(2), state)
    assert kept is inner and new is again


def test_an_added_container_is_the_returned_one():
    def function(x, out):
        new = [x * 2]
        out.append(new)
        return new

    expect_as_eager(function, leaf(2), [])


def test_tensors_that_stay_are_the_same_objects():
    a, b = leaf(2), torch.ones(2)
    out = [a, b]
    antegrad.compile(appends)(leaf(2), out)
    assert out[0] is a and out[1] is b and len(out) == 3


def test_a_failing_function_changes_nothing():
    def function(x, out, state, fail):
        out.append(x * 2)
        state["a"] = x
        if fail == "own":
            raise KeyError("mine")
        return out[-1] * (x.sum().item() if fail == "capture" else 1)

    x, out, state = leaf(2), [1], {}
    compiled = antegrad.compile(function)
    with pytest.raises(KeyError, match="mine"):
        compiled(x, out, state, "own")
    with pytest.raises(antegrad.DataDependentError):
        compiled(x, out, state, "capture")
    assert out == [1] and state == {}
    compiled.warmup(x, out, state, "")
    assert out == [1] and state == {}
    eager = antegrad.compile(function, on_refusal="eager")
    eager(x, out, state, "capture")
    assert len(out) == 2 and state["a"] is x


def test_a_refused_value_in_a_container():
    out = []
    with pytest.raises(antegrad.CaptureError, match=r"found an object of type builtins.set \(argument 1\[0\]\)"):
        antegrad.compile(lambda x, out: out.append({1, 2}))(leaf(2), out)
    assert out == []


def test_containers_under_options():
    for options in ({"audit": "every"}, {"check_against_eager": 3}):
        compiled = antegrad.compile(appends_and_returns, **options)
        for _ in range(3):
            x, out = leaf(2), []
            result, last = compiled(x, out)
            assert result is out and out[0] is last and same(last, x * 2)


def test_what_is_put_into_a_container_is_audited():
    scale = [2]
    compiled = antegrad.compile(lambda x, out: out.append(scale[0]))
    compiled(leaf(2), [])
    scale[0] = 3
    out = []
    with pytest.raises(antegrad.HostStateError):
        compiled(leaf(2), out)
    assert out == []


# ---- containers that the function holds


def keeps_in(kept):
    return lambda x: kept.append(x * 2) or x


class Keeper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.seen, self.last = torch.nn.Linear(2, 2), {}, None

    def forward(self, x):
        y = self.linear(x)
        self.seen["y"] = y
        self.last = y
        return y


_kept_globally = []


def keeps_globally(x):
    _kept_globally.append(x * 2)
    return x


def keeps_last():
    last = None

    def function(x):
        nonlocal last
        last = x * 2
        return x, last

    return function, lambda: last


def test_a_held_container_is_put_back_and_named():
    kept = []
    with pytest.raises(antegrad.EscapeError, match=r"still held(.|\n)*changed 'kept', which is as it was"):
        antegrad.compile(keeps_in(kept))(leaf(2))
    assert kept == []
    with pytest.raises(antegrad.EscapeError, match="changed '_kept_globally'"):
        antegrad.compile(keeps_globally)(leaf(2))
    assert _kept_globally == []
    function, read = keeps_last()
    with pytest.raises(antegrad.EscapeError, match="changed 'last'"):
        antegrad.compile(function)(leaf(2))
    assert read() is None
    model = Keeper()
    with pytest.raises(antegrad.EscapeError, match="changed 'Keeper', 'Keeper.seen'"):
        antegrad.compile(model)(leaf(2))
    assert model.seen == {} and model.last is None
    antegrad.compile(model, on_refusal="eager")(leaf(2))
    assert type(model.seen["y"]) is torch.Tensor and model.last is model.seen["y"]


def test_a_held_container_after_an_error_of_the_function():
    kept = {}

    def function(x):
        kept["x"] = x * 2
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        antegrad.compile(function)(leaf(2))
    assert kept == {}


def test_keys_of_held_containers_are_not_printed():
    x = leaf(2)
    held = {x: {"state": [torch.ones(2)]}}
    assert same(antegrad.compile(lambda t: t * held[x]["state"][0])(x), x * held[x]["state"][0])


# ---- types


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    rows: list
    name: str = "batch"


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    count: int = dataclasses.field(default=1, init=False)


@dataclasses.dataclass(slots=True)
class Slots:
    x: torch.Tensor
    scale: float = 2.0


@dataclasses.dataclass
class Registered:
    x: torch.Tensor
    note: str | None = None


pytree.register_dataclass(Registered)


class Points:
    """Not a dataclass; its list is not a child itself, but its elements are."""

    def __init__(self, points, unit):
        self.points, self.unit = list(points), unit


pytree.register_pytree_node(Points, lambda p: (list(p.points), (p.unit, torch.float32)), lambda c, u: Points(c, u[0]))


class Exposed:
    """Its own list is a child."""

    def __init__(self, points):
        self.points = points


pytree.register_pytree_node(Exposed, lambda p: ([p.points], None), lambda c, _: Exposed(c[0]))

Named = collections.namedtuple("Named", "first second")


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Batch(x * 2, [x, 1]),
        lambda x: Frozen(x * 2),
        lambda x: Slots(x * 2, 0.5),
        lambda x: Registered(x * 2),
        lambda x: Registered(x * 2, "note"),
        lambda x: Points([x, x + 1], "m"),
        lambda x: Exposed([x * 2]),
        lambda x: Named(Batch(x, []), second=x * 2),
        lambda x: collections.defaultdict(list, a=[x * 2]),
        lambda x: collections.deque([x * 2], maxlen=3),
        lambda x: {"a": Points([Frozen(x * 2)], Color.RED)},
    ],
)
def test_types(make):
    expect_as_eager(make, leaf(3))  # as a result

    def through(value, x):
        first = next(gc_tensors(value, set()))
        return value, first * 2 + x

    expect_as_eager(through, make(leaf(3).detach()), leaf(3))  # as an argument, which is returned


def test_the_callers_own_object_is_returned():
    batch = Batch(leaf(2), [])
    assert antegrad.compile(lambda b: b)(batch) is batch


def test_a_dataclass_that_is_changed():
    def function(batch, x):
        batch.x = batch.x * x
        batch.rows.append(batch.x.sum())
        batch.extra = x + 1
        return batch

    expect_as_eager(function, Batch(leaf(2), [1]), leaf(2))

    def changes_slots(s):
        s.x, s.scale = s.x * 2, 3.0

    expect_as_eager(changes_slots, Slots(leaf(2)))

    def deletes(s):
        del s.scale

    expect_as_eager(deletes, Slots(leaf(2)))


def test_values_of_a_dataclass_select_programs():
    compiled = expect_as_eager(lambda s: s.x * s.scale, Slots(leaf(2), 2.0))
    assert torch.equal(compiled(Slots(torch.ones(2), 3.0)), torch.full((2,), 3.0))
    assert len(compiled.report().programs) == 2


def test_contexts_select_programs():
    compiled = antegrad.compile(lambda p: p.points[0] * (2 if p.unit == "m" else 3))
    x = torch.ones(2)
    for unit, factor in (("m", 2), ("s", 3), ("m", 2)):
        assert torch.equal(compiled(Points([x], unit)), x * factor)
    assert len(compiled.report().programs) == 2


def test_a_change_that_cannot_be_made_outside():
    def function(p, x):
        p.points.append(x)

    expect_as_eager(function, Exposed([]), leaf(2))  # of a child that is a list
    points = Points([leaf(2)], "m")
    with pytest.raises(antegrad.MutationError, match=r"a change in .*\.Points \(argument 0\['p'\]\)"):
        antegrad.compile(lambda d, x: function(d["p"], x))({"p": points}, leaf(2))
    assert len(points.points) == 1
    compiled = antegrad.compile(function, on_refusal="eager")
    compiled(points, leaf(2))
    assert len(points.points) == 2 and compiled.report().eager_calls == 1


class Plain:
    def __init__(self, x):
        self.x = x


@dataclasses.dataclass
class Derived(list):
    x: torch.Tensor


def test_types_that_are_refused():
    compiled = antegrad.compile(lambda x: x)
    refused = r"found an object of type .*test_structures\.Plain \(argument 0\['a'\]\[1\]\).*register_pytree_node"
    with pytest.raises(antegrad.CaptureError, match=refused):
        compiled({"a": [1, Plain(1)]})
    with pytest.raises(antegrad.CaptureError, match=r"Plain \(argument 'y'\.x\)"):
        antegrad.compile(lambda x, y: x)(leaf(2), y=Batch(Plain(1), []))
    with pytest.raises(antegrad.CaptureError, match=r"Plain \(the result\[1\]\)"):
        antegrad.compile(lambda x: (x, Plain(x)))(leaf(2))
    with pytest.raises(antegrad.CaptureError, match="Derived"):
        compiled(Derived(leaf(2)))
    with pytest.raises(antegrad.CaptureError, match="Linear"):
        compiled(torch.nn.Linear(1, 1))
    with pytest.raises(antegrad.InputError, match="expected numbers, strings .* from a guard; found a tensor"):
        guarded = antegrad.compile(lambda x: x)
        guarded.guard(lambda: leaf(2))
        guarded(leaf(2))


def test_refused_types_run_eagerly_where_asked():
    compiled = antegrad.compile(lambda p: Plain(p.x * 2), on_refusal="eager")
    x = leaf(2)
    assert torch.equal(compiled(Plain(x)).x, x * 2)
    assert torch.equal(antegrad.compile(lambda t: Plain(t * 2), on_refusal="eager")(x).x, x * 2)
    assert compiled.report().eager_calls == 1
    assert any("Plain" in reason for reason in compiled.report().eager_reasons)


# ---- transformers


def small_model():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=8, vocab_size=16,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config)


def test_outputs_of_transformers():
    model = small_model()
    tokens = torch.randint(16, (2, 5))
    compiled = antegrad.compile(model)
    for _ in range(2):
        found = compiled(tokens, labels=tokens, use_cache=False, output_hidden_states=True)
        expected = model(tokens, labels=tokens, use_cache=False, output_hidden_states=True)
        assert type(found) is type(expected) and list(found) == list(expected)
        assert same(found.loss, expected.loss) and same(found["logits"], expected["logits"])
        assert len(found.hidden_states) == 2 and same(found.hidden_states[1], expected.hidden_states[1])
        parameters = list(model.parameters())
        for a, b in zip(torch.autograd.grad(found.loss, parameters), torch.autograd.grad(expected.loss, parameters)):
            assert same(a, b)
    assert compiled.report().eager_calls == 0
    through = antegrad.compile(lambda output: output.logits * 2)  # as an argument
    assert same(through(expected), expected.logits * 2)


def test_caches_of_transformers():
    model = small_model()
    tokens = torch.randint(16, (2, 5))
    compiled = antegrad.compile(model)
    with pytest.raises(antegrad.CaptureError, match=r"DynamicCache \(the result\['past_key_values'\]\); register"):
        compiled(tokens)
    exporter = pytest.importorskip("transformers.exporters.exporter_dynamo")
    cache = type(model(tokens).past_key_values)
    exporter.register_pytree_node(cache)
    try:
        found, expected = compiled(tokens).past_key_values, model(tokens).past_key_values
        assert type(found) is cache and same(found.layers[0].keys, expected.layers[0].keys)
        with pytest.raises(antegrad.MutationError, match=r"DynamicCache \(argument 'past_key_values'\)"):
            compiled(tokens[:, :1], past_key_values=expected)
    finally:
        pytree._deregister_pytree_node(cache)


# ---- reports


def test_reports_are_text():
    model = torch.nn.Linear(2, 2)
    compiled = antegrad.compile(model, name="linear")
    compiled(leaf(3, 2))
    report = antegrad.report(compiled)
    assert str(report) == repr(report) and "antegrad 'linear': 1 compiled calls" in str(report)
    program = report.programs[0]
    assert str(program) == repr(program) and str(program).startswith("graph ") and "predicted peak" in str(program)
    assert str(program).replace("\n", "\n  ").strip() in str(report)
    checked = antegrad.compile(model, cross_check_shapes="error")
    checked(leaf(3, 2))
    checks = antegrad.report(checked).programs[0].shape_checks
    assert "1 checked, 0 skipped, 0 mismatches" in str(checks)


def test_the_reports_of_dynamos_graphs_are_text():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y.sin()

    compiled = torch.compile(function, backend=antegrad.backend)
    compiled(leaf(2))
    reports = antegrad.report(compiled)
    assert len(reports) == 2 and isinstance(reports, list)
    assert str(reports).count("antegrad 'graph': 1 compiled calls") == 2 and "object at" not in str(reports)
    assert repr(reports) == str(reports)
