"""Compares compiled functions with the functions themselves."""

import torch
import torch.utils._pytree as pytree


def tensors_of(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def same(a, b):
    """Bitwise equal, except that all NaNs are equal."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.requires_grad == b.requires_grad
        and torch.equal(a.detach().nan_to_num(12345.0), b.detach().nan_to_num(12345.0))
    )


def outcome(function, leaves, args):
    """The outcome of a call: its results, and the gradients of `leaves` for the sum of the differentiable ones."""
    torch.manual_seed(1)
    result = function(*args)
    roots = [t for t in tensors_of(result) if t.requires_grad]
    gradients = []
    if roots and leaves:
        loss = sum((r.real if r.is_complex() else r).sum() for r in roots)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return result, gradients


def assert_as_eager(compiled, function, args, leaves=()):
    leaves = [*leaves, *(t for t in tensors_of(args) if t.requires_grad)]
    expected, expected_gradients = outcome(function, leaves, args)
    found, found_gradients = outcome(compiled, leaves, args)
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected)):
        assert same(a, b) if isinstance(b, torch.Tensor) else a == b
    assert len(found_gradients) == len(expected_gradients)
    for a, b in zip(found_gradients, expected_gradients):
        assert (a is None) == (b is None)
        assert a is None or same(a, b)
