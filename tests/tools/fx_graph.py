"""Converts AOTAutograd's joint graph (torch.fx) to our textual form."""

import operator

import torch
from agraph import Tensor, Unsupported, Writer
from fx_arguments import DTYPES, arguments
from torch._functorch._aot_autograd import descriptors

# Tagged as random because of its signature, but it does not support dropout.
DRAWS_NOTHING = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}

# In our order: results, then written inputs.
FORWARD_OUTPUTS = (descriptors.PlainAOTOutput, descriptors.InputMutationAOTOutput)


def convert(name, joint):
    """The graph, collected in a Writer, and the value of each fx node."""
    graph = joint.module.graph
    converter = Converter(Writer(name), joint)
    placeholders = graph.find_nodes(op="placeholder")
    tangents = [node for node in placeholders if isinstance(node.meta["desc"], descriptors.TangentAOTInput)]
    outputs = [(output, node) for output, node in zip(graph.output_node().meta["desc"], graph.output_node().args[0])
               if output is not None]  # the gradient of an input that does not require one
    for output, _ in outputs:
        if not isinstance(output, (*FORWARD_OUTPUTS, descriptors.GradAOTOutput)):
            raise Unsupported(f"expected results, written inputs and gradients, found {output.expr()}")
    calls = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    converter.add_primals([node for node in placeholders if node not in tangents], outputs)
    converter.writer.input_tokens(sorted({device_of(node) for node in calls if is_random(node)}))
    converter.add_tangents(tangents, outputs)
    for node in calls:
        converter.add_call(node)
    converter.add_outputs(outputs, {node.meta["desc"].output for node in tangents})
    return converter.writer, converter.values


def meta_of(tensor):
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if not all(isinstance(number, int) for number in numbers):
        raise Unsupported(f"expected sizes that are numbers, found {tuple(tensor.shape)}")
    if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
        raise Unsupported(f"expected a dense tensor of a usual dtype, found {tensor.dtype} in {tensor.layout}")
    storage = tensor.untyped_storage()
    return Tensor(DTYPES[tensor.dtype], tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
                  str(tensor.device), storage._cdata, storage.nbytes())


def returned(node):
    """The tensors that a call returns, None for an undefined one."""
    value = node.meta["val"]
    tensors = list(value) if isinstance(value, (tuple, list)) else [value]
    if not tensors or not all(tensor is None or isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise Unsupported(f"expected operators that return tensors, found {node.target}")
    return tensors


def device_of(node):
    return str(next(tensor for tensor in returned(node) if tensor is not None).device)


def is_random(node):
    """Whether a node draws from a generator."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        raise Unsupported(f"expected operators of the dispatcher that write nothing, found {node.target}")
    return torch.Tag.nondeterministic_seeded in node.target.tags and node.target not in DRAWS_NOTHING


def phase_of(node):
    return "backward" if node.meta["partitioner_tag"].endswith("backward") else "forward"


def forward_outputs(outputs):
    for kind in FORWARD_OUTPUTS:
        yield from ((output, node) for output, node in outputs if isinstance(output, kind))


class Converter:
    def __init__(self, writer, joint):
        self.writer = writer
        self.module = joint.module
        self.tensors = joint.tensors
        self.values = {}  # by fx node of one tensor
        self.positions = {}  # of primals among the inputs, by descriptor

    def add_primals(self, nodes, outputs):
        mutated = {output.mutated_input for output, _ in outputs
                   if isinstance(output, descriptors.InputMutationAOTOutput)}
        for position, node in enumerate(nodes):
            primal = node.meta["desc"]
            self.positions[primal] = position
            record = f"primal {source_of(primal)}"
            record += " grad" * self.tensors[primal].requires_grad + " mutates_data" * (primal in mutated)
            self.values[node] = self.writer.input(meta_of(node.meta["val"]), record, node.name)
            if self.writer.owner[-1] != self.values[node]:
                raise Unsupported(f"expected arguments that share no memory, found {primal.expr()}")
        for node in self.module.graph.find_nodes(op="get_attr"):
            constant = getattr(self.module, node.target)
            if not isinstance(constant, torch.Tensor):
                raise Unsupported(f"expected tensors and no code in the graph, found {node.target}")
            self.values[node] = self.writer.input(meta_of(constant), f'primal constant "{node.target}"', node.name)

    def add_tangents(self, nodes, outputs):
        positions = {output: position for position, (output, _) in enumerate(forward_outputs(outputs))}
        for node in nodes:
            position = positions[node.meta["desc"].output]
            self.values[node] = self.writer.input(meta_of(node.meta["val"]), f"tangent {position}", node.name)

    def add_call(self, node):
        """Operators with several outputs are followed by a `getitem` for each used output, which gives the output
        its name."""
        tensors = returned(node)
        single = isinstance(node.meta["val"], torch.Tensor)
        named = [[] for _ in tensors]
        for user in node.users:
            if not single:
                named[user.args[1]].append(user)
        name = node.name
        if not single:
            name += "(" + ", ".join(users[0].name if users else "-" for users in named) + ")"
        op = node.target.name() if "." in node.target.name() else node.target.name() + ".default"
        metas = [tensor if tensor is None else meta_of(tensor) for tensor in tensors]
        values = self.writer.node(op, arguments(node, self.values), metas, phase_of(node), name,
                                  device_of(node) if is_random(node) else None)
        if single:
            self.values[node], = values
        for value, users in zip(values, named):
            self.values |= dict.fromkeys(users, value)

    def add_outputs(self, outputs, with_tangent):
        taken = {owner for owner in self.writer.owner if self.writer.kinds[owner] == "primal"}
        for output, node in forward_outputs(outputs):
            if node is not None and node not in self.values:
                raise Unsupported(f"expected results that are tensors, found {node}")
            value = None if node is None else self.values[node]
            record = "result"
            if isinstance(output, descriptors.InputMutationAOTOutput):
                record = f"mutated {self.positions[output.mutated_input]}"
            elif value is not None:
                if self.writer.owner[value] in taken:
                    raise Unsupported(f"expected results that share no memory, found {node.name}: clone it")
                taken.add(self.writer.owner[value])
            self.writer.output(value, record + " grad" * (output in with_tangent))
        self.writer.output_tokens()
        for output, node in outputs:
            if isinstance(output, descriptors.GradAOTOutput):
                self.add_gradient(output.grad_of, node, taken)

    def add_gradient(self, primal, node, taken):
        if not self.tensors[primal].requires_grad:
            return
        value = None if node is None else self.values[node]
        if value is not None and self.writer.kinds[self.writer.owner[value]] != "tangent":
            if self.writer.owner[value] in taken:
                # Our gradients own their memory.
                copy = meta_of(node.meta["val"].clone())
                value, = self.writer.node("aten::clone.default", [f"%{value}", "memory_format=none"], [copy],
                                          "backward", f"copy of {node.name}")
            taken.add(self.writer.owner[value])
        self.writer.output(value, f"gradient {self.positions[primal]}")


def source_of(primal):
    if isinstance(primal, descriptors.ParamAOTInput):
        return f'parameter "{primal.target}"'
    if isinstance(primal, descriptors.BufferAOTInput):
        return f'buffer "{primal.target}"'
    if isinstance(primal, descriptors.PlainAOTInput):
        return f"argument {primal.idx}"
    raise Unsupported(f"expected parameters, buffers and arguments, found the input {primal.expr()}")
