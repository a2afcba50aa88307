"""Keeps Inductor to the order in which a plan runs kernels and frees tensors."""

import operator

import torch
from torch._functorch import partitioners
from torch._inductor import custom_graph_pass
from torch._inductor.dependencies import WeakDep

from antegrad._joint_graph import hint, is_view

ADD, MM, PERMUTE = torch.ops.aten.add.Tensor, torch.ops.aten.mm.default, torch.ops.aten.permute.default
TRANSPOSED = (1, 0)


def keep_sums_apart(graph):
    """Inductor merges a matrix product and the sum that reads it into one `addmm` where the sum stands. If the factors would have
    to wait for it, and are larger than the product, the two are kept apart: by two transpositions, which cost nothing."""
    nodes = list(graph.nodes)
    position = {node: number for number, node in enumerate(nodes)}
    owner, last_read = {}, {}
    for node in nodes:
        owner[node] = owner[node.args[0]] if shares_memory(node) else node
        last_read.update((owner[read], node) for read in node.all_input_nodes)
    for product in graph.find_nodes(op="call_function", target=MM):
        reader = next(iter(product.users), None)
        if len(product.users) != 1 or reader.target is not ADD:
            continue
        waits = any(not shares_memory(node) for node in nodes[position[product] + 1:position[reader]])
        # Without the sum, these are free before it.
        free = {owner[factor] for factor in product.args if position[last_read[owner[factor]]] < position[reader]}
        if waits and sum(bytes_of(node) for node in free if not partitioners._is_primal(node)) > bytes_of(product):
            separate(graph, product, reader)


def separate(graph, product, reader):
    with graph.inserting_after(product):
        transposed = graph.call_function(PERMUTE, (product, TRANSPOSED))
    with graph.inserting_after(transposed):
        again = graph.call_function(PERMUTE, (transposed, TRANSPOSED))
    for node in (transposed, again):
        node.meta = {**product.meta, "val": node.args[0].meta["val"].permute(TRANSPOSED)}
    reader.replace_input_with(product, again)


def shares_memory(node):
    """Whether a call returns views of its first argument, or what is taken out of several."""
    call = node.args[0] if node.target is operator.getitem else node
    return call.op == "call_function" and is_view(call)


def bytes_of(node):
    value = node.meta["val"]
    return hint(value.numel()) * value.element_size()


class KernelOrder(getattr(custom_graph_pass, "CustomSchedulerPass", custom_graph_pass.CustomGraphPass)):
    """A pass of Inductor's scheduler, before fusion: kernels and library calls keep their order, and only kernels between the same
    two library calls are merged.

    Inductor merges kernels that read the same tensor, or have as many elements, also if a plan runs one of them much later. The
    result of that one would wait, and so would what the other one reads.
    """

    def __call__(self, nodes):
        call, kernels = None, []  # the last library call, and kernels after it
        for node in nodes:
            if call is not None:
                begin_after(node, call)
            if not node.is_extern():
                kernels.append(node)
            elif node.get_outputs():
                for kernel in kernels:
                    begin_after(node, kernel)
                call, kernels = node, []
        return nodes

    def uuid(self):
        return custom_graph_pass.get_hash_for_files((__file__,))


def begin_after(node, other):
    if other.get_name() not in node.ancestors and len(node.get_nodes()) == 1:
        result = other.get_outputs()[0].get_name()
        node.add_fake_dep(WeakDep(result, mutating_buf=result, is_fake=True))  # nothing is written
    # Fusion looks for cycles among the ancestors. What a node reads begins after the other one or an earlier one.
    node.ancestors = node.ancestors | other.ancestors | {other.get_name()}
