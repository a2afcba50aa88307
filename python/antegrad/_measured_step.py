"""Measures the peak of one call of a compiled function and of its backward."""

import torch
import torch.utils._pytree as pytree

from antegrad._C import AllocationWatch

# AOTAutograd's name for the node of a compiled backward.
BACKWARD = "CompiledFunctionBackward"


class MeasuredStep:
    """One call. `done` is called with its peak in bytes when the backward has run: as docs/architecture.md defines it, of what
    this call allocates on its device, without what other code allocates between the two passes."""

    def __init__(self, done):
        self.done = done
        self.watch = None
        self.held = 0  # by the call, between the two passes
        self.peak = 0

    def run(self, function, args):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        self.device = next((tensor.device.type for tensor in tensors if tensor.device.type != "cpu"), "cpu")
        watch = AllocationWatch(self.device)
        try:
            results = function(*args)
        finally:
            watch.stop()
        self.peak, self.held = watch.peak_bytes, watch.live_bytes
        node = backward_node(results)
        if node is not None:
            node.register_prehook(self.begin)
            node.register_hook(self.end)
        return results

    def begin(self, tangents):
        self.held += sum(tangent.untyped_storage().nbytes() for tangent in tangents if tangent is not None)
        self.watch = AllocationWatch(self.device)

    def end(self, gradients, tangents):
        if self.watch is None:  # a second backward through a retained graph
            return
        self.watch.stop()
        self.done(max(self.peak, self.held + self.watch.peak_bytes))
        self.watch = None


def backward_node(results):
    """The node of the compiled backward behind the results, or behind what AOTAutograd makes views of."""
    stack = [leaf.grad_fn for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        if node.name() == BACKWARD:
            return node
        stack.extend(following for following, _ in node.next_functions)
    return None
