"""User-defined passes over joint graphs (docs/passes.md)."""

import pytest
import torch

import antegrad


def test_a_pass_changes_what_runs():
    antegrad.register_joint_pass("sin_to_cos", lambda graph: graph.replace("aten::sin.", "aten::cos."))
    step = antegrad.compile(lambda x: x.sin(), joint_custom_pass="sin_to_cos")
    x = torch.randn(4)
    assert torch.equal(step(x), x.cos())
    assert step.report().eager_calls == 0


def test_what_a_pass_raises_is_raised():
    def fails(graph):
        raise ValueError("no such luck")

    antegrad.register_joint_pass("fails", fails)
    with pytest.raises(ValueError, match="no such luck"):
        antegrad.compile(lambda x: x.sin(), joint_custom_pass="fails")(torch.randn(4))


def test_what_is_no_graph_is_refused_in_the_name_of_the_pass():
    antegrad.register_joint_pass("nothing", lambda graph: None)
    with pytest.raises(antegrad.InputError, match="nothing"):
        antegrad.compile(lambda x: x.sin(), joint_custom_pass="nothing")(torch.randn(4))
    antegrad.register_joint_pass("broken", lambda graph: graph.replace("outputs", "outputs\n  %99 result"))
    with pytest.raises(antegrad.GraphError, match="broken"):
        antegrad.compile(lambda x: x.sin(), joint_custom_pass="broken")(torch.randn(4))


def test_names_that_are_not_registered_and_objects_that_are_no_functions():
    with pytest.raises(antegrad.OptionError, match="unknown"):
        antegrad.compile(lambda x: x, joint_custom_pass="unknown")
    with pytest.raises(antegrad.InputError):
        antegrad.register_joint_pass("three", 3)


def test_a_pass_that_is_left_out_keeps_the_bits():
    def twice(x):
        return (x.exp() * x.exp()).sum()

    x = torch.randn(8, requires_grad=True)
    wanted = torch.autograd.grad(twice(x), x)[0]
    step = antegrad.compile(twice, disabled_passes="cse,reinplace", lowering="off")
    assert torch.equal(torch.autograd.grad(step(x), x)[0], wanted)
    assert step.report().programs[0].forward_nodes == 4
