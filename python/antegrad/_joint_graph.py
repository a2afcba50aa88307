"""Joint graphs of AOTAutograd, written for the planner in the JSON form of docs/graph-format.md.

Operators, edges, sizes, devices and dimensions of reductions are written. Other constant arguments are not, and integers (symbolic sizes and arithmetic on
them) are left out: a size counts as its hint.
"""

import json
import operator

import torch
import torch.utils._pytree as pytree
from torch._functorch import partitioners
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.fx.experimental import symbolic_shapes
from torch.utils.checkpoint import CheckpointPolicy

from antegrad._C import GraphError

COPY = torch.ops.aten.copy_.default
RESIZE = torch.ops.inductor.resize_storage_bytes_.default
# Symbolic sizes without a hint, such as those of nonzero().
UNKNOWN_SIZE = 4096
POLICIES = {
    CheckpointPolicy.MUST_RECOMPUTE: "must_recompute",
    CheckpointPolicy.PREFER_RECOMPUTE: "prefer_recompute",
    CheckpointPolicy.PREFER_SAVE: "prefer_save",
}
# Arguments by which an operator can be told to draw nothing, and their values then.
DRAWS_NOTHING = {"dropout_p": 0.0, "dropout": 0.0, "train": False}


def refuse(expected, found, remedy=""):
    remedy = f"; {remedy}" if remedy else ""
    raise GraphError(f"expected {expected}, found {found}{remedy}")


def is_write(node):
    """Whether a call writes one of its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def is_view(node):
    """Whether a call returns views of its arguments, as its schema says."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    returned = [result.alias_info for result in node.target._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def leaves_of(value, path=()):
    """The tensors and other values in what a node returns, with the keys that lead to each."""
    if isinstance(value, (tuple, list)):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, (*path, key))
    else:
        yield path, value


def hint(size):
    if isinstance(size, int):
        return size
    if hasattr(symbolic_shapes, "optimization_hint"):
        return symbolic_shapes.optimization_hint(size, fallback=UNKNOWN_SIZE)
    return symbolic_shapes.hint_int(size, fallback=UNKNOWN_SIZE)


def tensor_text(tensor):
    if not isinstance(tensor, torch.Tensor):
        return None
    if tensor.layout is not torch.strided:
        refuse("dense tensors", tensor.layout)
    return [None, [hint(size) for size in tensor.shape], str(tensor.dtype).removeprefix("torch."), str(tensor.device)]


def operator_name(target):
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._opname}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}.default"
    return f"python.{getattr(target, '__name__', type(target).__name__)}.default"


def arguments_of(node):
    """The arguments of a call by name, with defaults."""
    schema = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in schema}
    return values | {argument.name: value for argument, value in zip(schema, node.args)} | node.kwargs


def dims_of(node):
    """The dimensions over which an operator works, where it has such an argument."""
    dims = arguments_of(node).get("dim") if isinstance(node.target, torch._ops.OpOverload) else None
    dims = [dims] if isinstance(dims, int) else dims
    known = isinstance(dims, (list, tuple)) and all(isinstance(dim, int) for dim in dims)
    return {"dims": list(dims)} if known else {}


def draws(node):
    """Whether a call of a random operator draws, as its arguments say."""
    values = arguments_of(node)
    return not any(values.get(name) is not None and values[name] == nothing for name, nothing in DRAWS_NOTHING.items())


class JointGraph:
    """A joint graph with its inputs and outputs by role, and the nodes that the planner sees.

    `nodes` are the fx nodes that are written, and `index` is the position of each. `reads` are the positions of the tensors
    that a call reads, and `items`, for a call that returns several, where each is taken out: its number and the node.
    """

    def __init__(self, module, num_fwd_outputs, static_indices):
        self.module = module
        self.nodes = []
        self.index = {}
        self.reads = {}
        self.items = {}
        graph = module.graph
        placeholders = graph.find_nodes(op="placeholder")
        self.primals = [node for node in placeholders if partitioners._is_primal(node)]
        self.tangents = [node for node in placeholders if partitioners._is_tangent(node)]
        others = set(placeholders) - set(self.primals) - set(self.tangents)
        if others:
            refuse("primals and tangents", f"the input {others.pop().name}", "turn functionalize_rng_ops off")
        outputs = pytree.arg_tree_leaves(*graph.output_node().args)
        self.results, self.gradients = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
        self.held = {self.primals[index] for index in static_indices}
        self.descriptors = graph.output_node().meta.get("desc") or [None] * len(outputs)
        self.late = self.reached_from(self.tangents) | self.reads_of_state()
        self.copies = self.copies_in_forward()
        self.written = set(self.copies) | self.written_after_forward()
        self.freed = {node.args[0] for node in graph.nodes if node.target is RESIZE and node.args[1] == 0}

    def reached_from(self, nodes):
        reached = set(nodes)
        for node in self.module.graph.nodes:
            if any(argument in reached for argument in node.all_input_nodes):
                reached.add(node)
        return reached

    def reads_of_state(self):
        """What reads an input that the backward writes, and is not needed before. In eager mode that is read in the backward too:
        another backward pass may have written it meanwhile."""
        state = self.written_in_backward()
        if not state:
            return set()
        forward = [node for node in self.module.graph.nodes if partitioners._must_be_in_forward(node)]
        needed = set()
        stack = [node for node in self.results + forward if isinstance(node, torch.fx.Node)]
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack.extend(node.all_input_nodes)
        return self.reached_from(state) - state - needed

    def written_in_backward(self):
        """The primals that the backward writes in the graph."""
        return {node.args[0] for node in self.module.graph.nodes
                if node.target is COPY and partitioners._must_be_in_backward(node)}

    def copies_in_forward(self):
        """The primals that the forward writes in the graph, and the node of the new value of each."""
        copies = {}
        for node in self.module.graph.nodes:
            if node.op != "call_function" or not is_write(node):
                continue
            if node.target is not COPY or node.args[0] not in self.primals:
                refuse("operators that write nothing but inputs", node.target)
            if node not in self.late and not partitioners._must_be_in_backward(node):
                copies[node.args[0]] = node.args[1]
        return copies

    def written_after_forward(self):
        """The primals that AOTAutograd writes when the forward has returned."""
        written = {descriptor.mutated_input for descriptor in self.descriptors if isinstance(descriptor, InputMutationAOTOutput)}
        return {node for node in self.primals if node.meta.get("desc") in written}

    def is_backward(self, node):
        """Whether a node was traced in the backward pass, reads what was, or has to run in it."""
        return node in self.late or partitioners._has_tag_is_backward(node)

    def add(self, node, **fields):
        self.index[node] = len(self.nodes)
        self.nodes.append(node)
        return {"n": node.name, **fields}

    def add_call(self, node, late):
        value = node.meta.get("val")
        if value is None and any(user.op != "output" for user in node.users):
            refuse("metadata of every value", f"none of {node.name}")
        leaves = list(leaves_of(value))
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in leaves):
            return  # integers, checks of sizes, objects
        read = [leaf for leaf in pytree.arg_tree_leaves(*node.args, **node.kwargs)
                if isinstance(leaf, torch.fx.Node) and leaf in self.tensors]
        backward = self.is_backward(node) or any(leaf in late for leaf in read)
        if backward:
            late.add(node)
        fields = {"k": "op", "op": operator_name(node.target), "in": [self.index[leaf] for leaf in read], "bw": backward,
                  "o": [tensor_text(leaf) for _, leaf in leaves], **dims_of(node)}
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            fields |= {"tags": ["rnd"], "draws": draws(node)}
        yield self.add(node, **fields, **self.tag(node))
        self.reads[self.index[node]] = fields["in"]
        if isinstance(value, torch.Tensor):
            self.tensors.add(node)
        else:
            yield from self.add_items(node, {path: k for k, (path, _) in enumerate(leaves)}, self.index[node], late)

    def add_items(self, node, positions, root, late, path=()):
        """The nodes that take a tensor out of what a call returns."""
        for user in node.users:
            if user.target is not operator.getitem or user.args[0] is not node:
                continue
            taken = (*path, user.args[1])
            if isinstance(user.meta.get("val"), torch.Tensor):
                self.tensors.add(user)
                if self.nodes[root] in late:
                    late.add(user)
                yield self.add(user, k="op", op=f"getitem:{positions[taken]}", **{"in": [root], "o": []})
                self.items.setdefault(root, []).append((positions[taken], self.index[user]))
            else:
                yield from self.add_items(user, positions, root, late, taken)

    def results_of(self, index):
        """For a call: numbers and nodes of its results."""
        single = isinstance(self.nodes[index].meta["val"], torch.Tensor)
        return [(0, index)] if single else self.items.get(index, [])

    def tag(self, node):
        """What checkpoints say. Tags of parts of a result are tags of the call."""
        policy = node.meta.get("recompute")
        if any(user.target is operator.getitem and user.meta.get("recompute") == CheckpointPolicy.MUST_SAVE
               for user in node.users):
            policy = CheckpointPolicy.MUST_SAVE
        if partitioners._must_be_in_forward(node) or self.reads_freed(node):
            policy = CheckpointPolicy.MUST_SAVE
        if policy is None or self.is_backward(node):
            return {}
        block = self.blocks.setdefault(node.meta.get("ac_graph_id"), len(self.blocks))
        return {"recompute": POLICIES.get(policy, "must_save"), "block": block}

    def reads_freed(self, node):
        """Whether a call reads an input whose storage the forward frees, so that the backward cannot repeat it."""
        return not getattr(node.target, "is_view", False) and any(argument in self.freed for argument in node.all_input_nodes)

    def text(self):
        """The graph in JSON."""
        written, late = [], set(self.tangents)
        self.tensors = set()
        self.blocks = {}
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                if node.target is not operator.getitem and not is_write(node):
                    written.extend(self.add_call(node, late))
                continue
            value = getattr(self.module, node.target, None) if node.op == "get_attr" else node.meta.get("val")
            if node.op not in ("placeholder", "get_attr") or not isinstance(value, torch.Tensor):
                continue
            kind = "const" if node.op == "get_attr" else "tangent" if node in self.tangents else "primal"
            self.tensors.add(node)
            fields = {"in": [], "o": [tensor_text(value)]}
            written.append(self.add(node, k=kind, op="placeholder", held=node in self.held, **fields))
        positions, results = self.result_positions()
        inputs = [node for node in self.nodes if node.op != "call_function" and node not in self.tangents]
        gradient = dict(zip(self.primals, self.gradients))
        return json.dumps({
            "name": "joint", "params": 0, "nodes": written,
            "fw_out": [self.index[node] for node in results],
            "bw_out": [self.index.get(gradient.get(node), -1) for node in inputs],
            "tangent_of": positions,
            "mutated": [[inputs.index(primal), self.index[value]] for primal, value in self.copies.items()
                        if value in self.tensors],
        })

    def result_positions(self):
        """For each tangent the position of its result among those that are tensors; and these."""
        results = [(node, descriptor) for node, descriptor in zip(self.results, self.descriptors) if node in self.tensors]
        by_descriptor = {descriptor: position for position, (_, descriptor) in enumerate(results)}
        first = len(results) - len(self.tangents)
        if first < 0:
            refuse("a result for each tangent", f"{len(self.tangents)} tangents and {len(results)} results")
        positions = [by_descriptor.get(getattr(tangent.meta.get("desc"), "output", None), first + number)
                     for number, tangent in enumerate(self.tangents)]
        return positions, [node for node, _ in results]
