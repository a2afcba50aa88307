"""antegrad.compile_step against loss.backward() and optimizer.step(): the same bits."""

import copy
import warnings

import pytest
import torch
from torch.optim import SGD, Adam, AdamW

import antegrad


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 40)
        self.norm = torch.nn.LayerNorm(40)
        self.second = torch.nn.Linear(40, 3)
        self.unused = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        x = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.second(torch.nn.functional.dropout(x, 0.1, self.training))


def loss_of(model):
    return lambda x, y: torch.nn.functional.cross_entropy(model(x), y)


def batch(number, rows=16):
    generator = torch.Generator().manual_seed(100 + number)
    return torch.randn(rows, 20, generator=generator), torch.randint(3, (rows,), generator=generator)


def pair():
    torch.manual_seed(3)
    model = Net()
    return model, copy.deepcopy(model)


def train_eagerly(model, optimizer, calls, accumulate=1, clip_value=None, clip_norm=None, clip_norm_type=2.0, first=0):
    losses = []
    optimizer.zero_grad()
    for i in range(first, first + calls):
        loss = loss_of(model)(*batch(i))
        loss.backward()
        losses.append(loss.detach())
        if (i + 1) % accumulate:
            continue
        if clip_value is not None:
            torch.nn.utils.clip_grad_value_(model.parameters(), clip_value)
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm, clip_norm_type)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def same(found, expected):
    if isinstance(expected, torch.Tensor):
        return found.dtype == expected.dtype and torch.equal(found, expected)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


def assert_same(model, optimizer, eager, of_eager):
    assert same(model.state_dict(), eager.state_dict())
    assert same(optimizer.state_dict(), of_eager.state_dict())


OPTIMIZERS = [
    (SGD, {"lr": 0.1}),
    (SGD, {"lr": 0.1, "weight_decay": 0.01, "maximize": True}),
    (SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    (SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (Adam, {"lr": 0.01}),
    (Adam, {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    (Adam, {"lr": 0.01, "betas": (0.3, 0.99), "maximize": True, "foreach": True}),
    (Adam, {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (AdamW, {"lr": 0.01}),
    (AdamW, {"lr": 0.01, "amsgrad": True, "eps": 1e-4, "foreach": True}),
    (AdamW, {"lr": 0.01, "weight_decay": 0}),
]


@pytest.mark.parametrize("lowering", ["off", "exact"])
@pytest.mark.parametrize("kind, settings", OPTIMIZERS)
def test_has_the_bits_of_eager(kind, settings, lowering):
    eager, model = pair()
    of_eager, optimizer = kind(eager.parameters(), **settings), kind(model.parameters(), **settings)
    step = antegrad.compile_step(model, optimizer, loss_of(model), lowering=lowering)
    torch.manual_seed(5)
    expected = train_eagerly(eager, of_eager, 4)
    torch.manual_seed(5)
    losses = [step(*batch(i)) for i in range(4)]
    assert same(losses, expected)
    assert_same(model, optimizer, eager, of_eager)
    assert step.report().eager_calls == 0
    assert all(p.grad is None for p in model.parameters())
    assert not losses[0].requires_grad


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_value": 0.01},
        {"clip_norm": 0.05},
        {"clip_norm": 0.01, "clip_norm_type": float("inf")},
        {"clip_norm": 0.1, "clip_norm_type": 3.5},
        {"clip_norm": 0.01, "clip_norm_type": 0},
        {"clip_value": 0.02, "clip_norm": 0.03, "accumulate": 2},
        {"accumulate": 3},
    ],
)
def test_clips_and_adds_up_as_eager(settings):
    eager, model = pair()
    of_eager, optimizer = AdamW(eager.parameters(), lr=0.01), AdamW(model.parameters(), lr=0.01)
    step = antegrad.compile_step(model, optimizer, loss_of(model), **settings)
    torch.manual_seed(5)
    expected = train_eagerly(eager, of_eager, 7, **settings)
    torch.manual_seed(5)
    assert same([step(*batch(i)) for i in range(7)], expected)
    assert_same(model, optimizer, eager, of_eager)
    assert step.report().eager_calls == 0


def program_of_step(lowering):
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    step = antegrad.compile_step(
        model, AdamW(model.parameters()), lambda x: model(x).square().mean(), lowering=lowering, keep_slow_kernels=True
    )
    step(torch.randn(256, 64))
    return step.report().programs[0]


def test_an_update_is_one_kernel():
    program = program_of_step("exact")
    update = {"aten::lerp.Scalar", "aten::addcmul.default", "aten::sqrt.default", "aten::addcdiv.default"}
    assert sum(update <= set(kernel.operators) for kernel in program.generated_kernels) == 2, program.not_generated


def test_close_updates_are_judged_by_the_type_of_their_arithmetic():
    # Units are counted where libtorch computes in float64 itself: the numbers of an update are doubles, its arithmetic is not.
    assert not any("units away" in reason for reason in program_of_step("close").not_generated)


def test_schedulers_and_groups():
    def groups(net):
        return [{"params": net.first.parameters(), "lr": 0.02}, {"params": net.second.parameters(), "weight_decay": 0}]

    eager, model = pair()
    of_eager, optimizer = AdamW(groups(eager), lr=0.01), AdamW(groups(model), lr=0.01)
    step = antegrad.compile_step(model, optimizer, loss_of(model))
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (of_eager, optimizer)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a scheduler that steps before its optimizer warns
        for i in range(4):
            torch.manual_seed(i)
            train_eagerly(eager, of_eager, 1, first=i)
            torch.manual_seed(i)
            step(*batch(i))
            for scheduler in schedulers:
                scheduler.step()
    assert_same(model, optimizer, eager, of_eager)
    assert len(step.report().programs) == 1


def test_goes_on_from_saved_state(tmp_path):
    eager, model = pair()
    of_eager, optimizer = Adam(eager.parameters(), lr=0.01), Adam(model.parameters(), lr=0.01)
    torch.manual_seed(1)
    train_eagerly(eager, of_eager, 4)
    torch.manual_seed(1)
    train_eagerly(model, optimizer, 1)  # an eager step first
    step = antegrad.compile_step(model, optimizer, loss_of(model))
    step(*batch(1))
    torch.save(optimizer.state_dict(), tmp_path / "state")
    optimizer.load_state_dict(torch.load(tmp_path / "state"))
    step(*batch(2))
    train_eagerly(model, optimizer, 1, first=3)
    assert_same(model, optimizer, eager, of_eager)


def test_modes_of_the_model():
    eager, model = pair()
    of_eager, optimizer = SGD(eager.parameters(), lr=0.1), SGD(model.parameters(), lr=0.1)
    step = antegrad.compile_step(model, optimizer, loss_of(model))
    for i, training in enumerate((True, False, True)):
        eager.train(training), model.train(training)
        torch.manual_seed(i)
        train_eagerly(eager, of_eager, 1, first=i)
        torch.manual_seed(i)
        step(*batch(i))
    assert_same(model, optimizer, eager, of_eager)
    assert step.report().eager_calls == 0


def test_a_refused_loss_runs_eagerly():
    def losses(model):
        def loss(x, y):
            x.to_sparse()
            return loss_of(model)(x, y)

        return loss

    eager, model = pair()
    of_eager, optimizer = AdamW(eager.parameters(), lr=0.01), AdamW(model.parameters(), lr=0.01)
    step = antegrad.compile_step(model, optimizer, losses(model), accumulate=2, clip_norm=0.1, on_refusal="eager")
    torch.manual_seed(5)
    expected = train_eagerly(eager, of_eager, 4, accumulate=2, clip_norm=0.1)
    torch.manual_seed(5)
    assert same([step(*batch(i)) for i in range(4)], expected)
    assert_same(model, optimizer, eager, of_eager)
    assert step.report().eager_calls == 4


def test_an_argument_that_is_refused_runs_eagerly():
    class Opaque:
        pass

    eager, model = pair()
    of_eager, optimizer = SGD(eager.parameters(), lr=0.1), SGD(model.parameters(), lr=0.1)
    loss = lambda x, y, _: loss_of(model)(x, y)
    step = antegrad.compile_step(model, optimizer, loss, on_refusal="eager")
    torch.manual_seed(1)
    expected = train_eagerly(eager, of_eager, 2)
    torch.manual_seed(1)
    assert same([step(*batch(i), Opaque()) for i in range(2)], expected)
    assert_same(model, optimizer, eager, of_eager)
    assert step.report().eager_calls == 2


def test_forgets_gradients_on_request():
    eager, model = pair()
    of_eager, optimizer = SGD(eager.parameters(), lr=0.1), SGD(model.parameters(), lr=0.1)
    step = antegrad.compile_step(model, optimizer, loss_of(model), accumulate=2)
    step(*batch(9))
    step.zero_grad()
    torch.manual_seed(1)
    train_eagerly(eager, of_eager, 2, accumulate=2)
    torch.manual_seed(1)
    step(*batch(0)), step(*batch(1))
    assert_same(model, optimizer, eager, of_eager)


def test_refuses_what_it_cannot_compile():
    model, _ = pair()
    before = copy.deepcopy(model.state_dict())
    usual = SGD(model.parameters(), lr=0.1)
    with pytest.raises(antegrad.OptionError, match="RMSprop"):
        antegrad.compile_step(model, torch.optim.RMSprop(model.parameters()), loss_of(model))
    with pytest.raises(antegrad.OptionError, match="accumulate"):
        antegrad.compile_step(model, usual, loss_of(model), accumulate=0)
    with pytest.raises(antegrad.OptionError, match="check_against_eager"):
        antegrad.compile_step(model, usual, loss_of(model), check_against_eager=1)
    for settings, words in [({"fused": True}, "fused"), ({"lr": torch.tensor(0.1)}, "lr as a number")]:
        with pytest.raises(antegrad.InputError, match=words):
            antegrad.compile_step(model, AdamW(model.parameters(), **settings), loss_of(model))(*batch(0))
    hooked = SGD(model.parameters(), lr=0.1)
    hooked.register_step_post_hook(lambda *_: None)
    with pytest.raises(antegrad.InputError, match="hooks"):
        antegrad.compile_step(model, hooked, loss_of(model))(*batch(0))
    for loss, words in [(lambda x, y: model(x), "elements"), (lambda x, y: 3.0, "float"), (lambda x, y: x.sum(), "no gradient")]:
        with pytest.raises(antegrad.InputError, match=words):
            antegrad.compile_step(model, usual, loss)(*batch(0))
    assert same(model.state_dict(), before)


def test_the_models_own_errors():
    model, _ = pair()
    step = antegrad.compile_step(model, AdamW(model.parameters()), loss_of(model), accumulate=2)
    with pytest.raises(RuntimeError, match="reduction dim|cannot be multiplied"):
        step(torch.ones(4, 19), torch.zeros(4, dtype=torch.long))
