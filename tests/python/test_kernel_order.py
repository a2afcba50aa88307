"""Inductor keeps to the order of a plan: sums that stay apart from matrix products, and kernels that begin when the plan says."""

import antegrad
import pytest
import torch
from antegrad._C import AllocationWatch
from antegrad._kernel_order import ADD, MM, PERMUTE, KernelOrder, keep_sums_apart
from torch.fx.experimental.proxy_tensor import make_fx

MIB = 2**20


@pytest.fixture(autouse=True)
def without_caches():
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def product_waits_for_sum(large, w, x):
    return large.sin() @ w + x.sum(0)


def product_stands_before_sum(large, w, x):
    other = x.sum(0)
    return large.sin() @ w + other


def factors_are_small(large, w, x):
    return large[:2].sin().t() @ large[:2] + x.sum(0)


def factor_is_read_later(large, w, x):
    factor = large.sin()
    return factor @ w + x.sum(0) + factor.sum(0)[:4]


def factor_is_read_before_the_sum(large, w, x):
    factor = large.sin()
    return factor @ w + (factor.sum(0)[:4] + x.sum(0))


def product_is_read_twice(large, w, x):
    product = large.sin() @ w
    return product + x.sum(0) + product


def factors_are_inputs(large, w, x):
    return large @ w + x.sum(0)


@pytest.mark.parametrize("function, apart", [
    (product_waits_for_sum, True), (product_stands_before_sum, False), (factors_are_small, False),
    (factor_is_read_later, False),
    (factor_is_read_before_the_sum, True), (product_is_read_twice, False), (factors_are_inputs, False),
])
def test_a_sum_stays_apart_if_large_factors_would_wait_for_it(function, apart):
    inputs = [torch.randn(64, 64), torch.randn(64, 4), torch.randn(64, 4)]
    if function is factors_are_small:
        inputs[2] = torch.randn(64, 64)
    module = make_fx(function, tracing_mode="fake")(*inputs)
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.name = f"primals_{number}"
        node.target = node.name
    keep_sums_apart(module.graph)
    module.recompile()
    [product] = module.graph.find_nodes(op="call_function", target=MM)
    assert any(node.target is PERMUTE for node in product.users) == apart
    torch.testing.assert_close(module(*inputs), function(*inputs), rtol=0, atol=0)


def backward_of(function, *inputs):
    """The targets in the backward graph from which Inductor generates code."""
    graphs = []
    note = lambda graph: graphs.append([node.target for node in graph.nodes])
    options = {"custom_partitioner_fn": antegrad.inductor_partitioner(memory_share=1.0), "post_grad_custom_post_pass": note}
    torch.compile(function, options=options)(*inputs).backward()
    return graphs[1]


def test_tied_weights_do_not_keep_the_gradient_of_the_logits():
    def loss(tokens, table, weight):
        h = torch.tanh(torch.nn.functional.embedding(tokens, table) @ weight)
        return torch.nn.functional.cross_entropy(h @ table.t(), tokens)

    table, weight = (torch.randn(*size, requires_grad=True) for size in ((512, 8), (8, 8)))
    targets = backward_of(loss, torch.randint(512, (256,)), table, weight)
    assert torch.ops.aten.addmm.default not in targets and ADD in targets


def test_a_residual_sum_is_merged_with_the_product():
    def loss(x, weight):
        for _ in range(2):
            x = x + torch.tanh(x @ weight)
        return x.square().sum()

    x, weight = torch.randn(64, 32, requires_grad=True), torch.randn(32, 32, requires_grad=True)
    assert torch.ops.aten.addmm.default in backward_of(loss, x, weight)


def peak_of(settings, function, *inputs):
    compiled = torch.compile(function, options=settings or None)
    expected = function(*inputs)
    torch.testing.assert_close(compiled(*inputs), expected)
    watch = AllocationWatch("cpu")
    compiled(*inputs)
    watch.stop()
    return watch.peak_bytes


def two_products(x, w):
    return torch.sin(x) @ w + torch.cos(x) @ w


def sums_of_two_products(x, w):
    return ((w @ w.t()) * x).sum(1) + ((w @ w.flip(0).t()) * x).sum(1)


@pytest.mark.parametrize("function", [two_products, sums_of_two_products])
def test_kernels_that_read_the_same_tensor_run_where_they_stand(function):
    """A kernel neither runs before the library call that it follows nor after the one that it precedes."""
    x = torch.randn(1024, 512, dtype=torch.float64)
    inputs = (x, x[0, :, None].clone()) if function is two_products else (x @ x.t(), x[:, :8].clone())
    size = inputs[0].nbytes
    assert peak_of({}, function, *inputs) >= 2 * size
    torch._dynamo.reset()
    assert peak_of({"_pre_fusion_custom_pass": KernelOrder()}, function, *inputs) < 1.25 * size
