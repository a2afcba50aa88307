"""Numbers that change from call to call in Dynamo's graphs.

Dynamo passes a float that changes as a float64 tensor without dimensions, and the graph reads it with item(). It passes an int
as an int. What the graph computes from such numbers alone, such as 1 - scale, Python computes before each call, as in eager. A
number that is only added to, subtracted from, multiplied with or divided by floating-point tensors becomes a tensor argument of
the compiled function: one program serves all its values. Any other number stays a number, which the compiled function makes an
input from its second value on, if it can.
"""

import copy
import operator

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_symbols

from antegrad._checkpoint import run_tagged
from antegrad._triton import run_kernel

# Operators that give the same bits with a number and with that number as a tensor without dimensions.
_operators = {
    operator.add, operator.sub, operator.mul, operator.truediv, operator.iadd, operator.isub, operator.imul, operator.itruediv,
    torch.add, torch.sub, torch.mul, torch.div, "add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_",
}  # fmt: skip
# Those that also do so if the number comes first.
_reversible = {operator.add, operator.sub, operator.mul, operator.truediv}


class CallWithNumbers:
    """A compiled function behind a graph with changing numbers, as Dynamo calls it."""

    def __init__(self, function, prepare, places):
        self._function = function
        self._prepare = prepare
        self._places = places

    def __call__(self, *args):
        arguments, numbers = self._prepare(*args)
        results = self._function(*arguments)
        if not self._places:
            return results
        results = list(results)
        for place, number in zip(self._places, numbers):
            results.insert(place, number)
        return tuple(results)


def take_numbers(graph_module):
    """Takes what is computed from changing numbers out of a Dynamo graph.

    Returns the graph alone if no number changes. Otherwise returns a graph without them, a function that makes, from Dynamo's
    arguments, those of this graph and the numbers that are results themselves, and the places of these among the results.
    """
    if not _roots(graph_module.graph):
        return (graph_module,)
    graph_module = GraphModule(graph_module, copy.deepcopy(graph_module.graph))  # Dynamo still reads its own
    graph = graph_module.graph
    placeholders = graph.find_nodes(op="placeholder")
    _hoist(graph_module, {node for node in placeholders if _is_wrapped_float(node)})
    numbers = _numbers_in(graph)
    changing = [node for node, changes in numbers.items() if changes]

    prepare = Graph()
    values = {node: prepare.placeholder(node.name) for node in placeholders}
    for node in numbers:
        if node not in values:
            values[node] = prepare.node_copy(node, values.__getitem__)
    places, results = _take_results(graph, changing)
    used = [node for node in changing if not numbers.keys() >= node.users.keys()]
    added = [_make_argument(node, values[node], changing, graph_module) for node in used]
    for node in reversed(changing):
        graph.erase_node(node)
    kept = [_keep(node, values[node], graph_module) for node in placeholders if node not in changing]
    arguments = [value for value in kept if value is not None] + added
    prepare.output((tuple(arguments), tuple(values[node] for node in results)))
    prepare.eliminate_dead_code()
    for node in placeholders:
        node.meta.pop("grapharg", None)  # it holds the first call's argument
    for module in graph_module.modules():
        if isinstance(module, GraphModule):
            module.recompile()
    return graph_module, GraphModule({}, prepare).forward, places


def _roots(graph):
    """The placeholders that are changing numbers, or tensors that the graph reads such a number from: wrapped floats, ints that
    are not sizes of arguments, and floating-point tensors without dimensions that are read by item()."""
    placeholders = graph.find_nodes(op="placeholder")
    examples = {node: node.meta.get("example_value") for node in placeholders}
    roots = {node for node in placeholders if _is_wrapped_float(node)} | _read_tensors(graph, examples)
    if ints := {node for node in placeholders if _is_number(node)}:
        sizes = set().union(*(free_symbols(value) for value in examples.values() if isinstance(value, torch.Tensor)))
        roots |= {node for node in ints if not free_symbols(examples[node]) <= sizes}
    return roots


def _read_tensors(graph, examples):
    """The arguments that are read by item() and have the same value throughout the call."""
    reads = graph.find_nodes(op="call_method", target="item")
    sources = {read.args[0] for read in reads if isinstance(read.meta.get("example_value"), torch.SymFloat)}
    found = {node for node in sources if isinstance(examples.get(node), FakeTensor) and examples[node].dim() == 0}
    return found if found and not _may_write(graph, examples) else set()


def _may_write(graph, examples):
    """Whether the graph may write to an argument. Dynamo has run it on the examples. Writes through x.data and by Triton kernels
    do not count there."""
    tensors = [value for value in examples.values() if isinstance(value, torch.Tensor)]
    written = any(value.is_inference() or value._version > 0 for value in tensors)
    uncounted = (torch._C._autograd._get_data_attr, run_kernel)
    return written or any(graph.find_nodes(op="call_function", target=target) for target in uncounted)


def _is_wrapped_float(placeholder):
    given = placeholder.meta.get("grapharg")
    value = placeholder.meta.get("example_value")
    return (
        getattr(given, "pass_arg_as_tensor", False)
        and not given.is_tensor
        and isinstance(value, torch.Tensor)
        and value.dtype == torch.float64
        and value.dim() == 0
        and value.is_cpu
    )


def _is_read(node, wrapped):
    return node.op == "call_method" and node.target == "item" and node.args[0] in wrapped


def _is_number(node):
    return isinstance(node.meta.get("example_value"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_computed(node, known):
    """Whether the node is a number computed from numbers in `known` alone."""
    return node.op == "call_function" and _is_number(node) and all(source in known for source in node.all_input_nodes)


def _numbers_in(graph):
    """The nodes that Python can compute before the call, in order, and whether each depends on a changing number."""
    roots = _roots(graph)
    numbers = {}
    for node in graph.nodes:
        if node.op == "placeholder" and _is_number(node):
            numbers[node] = node in roots
        elif _is_read(node, roots):
            numbers[node] = True
        elif _is_computed(node, numbers):
            numbers[node] = any(numbers[source] for source in node.all_input_nodes)
    return numbers


def _take_results(graph, changing):
    """Removes changing numbers from the results of a graph. Returns their places and their nodes."""
    (output,) = graph.find_nodes(op="output")
    results = output.args[0]
    taken = [(place, node) for place, node in enumerate(results) if node in changing]
    output.args = (tuple(node for node in results if node not in changing),)
    return [place for place, _ in taken], [node for _, node in taken]


def _make_argument(number, value, changing, graph_module):
    """Replaces the uses of a changing number by a new argument. Returns what `prepare` passes for it."""
    uses = list(_uses(number, graph_module, changing))
    dtype = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64}.get(type(number.meta["example_value"]))
    as_tensor = dtype is not None and all(_takes_tensor(*use) for use in uses)
    if as_tensor:
        for use in uses:
            _give_tensor(*use)
    argument = _add_placeholder(number, graph_module.graph)
    number.replace_all_uses_with(argument, delete_user_cb=lambda user: user not in changing)
    if not as_tensor:
        return value
    if number.op == "call_method" and _is_wrapped_float(number.args[0]):
        return value.args[0]  # Dynamo's own tensor
    return value.graph.call_function(torch.scalar_tensor, (value,), {"dtype": dtype, "device": "cpu"})


def _uses(number, graph_module, changing=()):
    """The nodes that use a number, also in checkpoints, each with the node that is the number in its graph."""
    for user in number.users:
        if body := _checkpointed(user, graph_module):
            for placeholder, given in zip(body.graph.find_nodes(op="placeholder"), user.args[1:]):
                if given is number:
                    yield from _uses(placeholder, body)
        elif user not in changing:
            yield user, number


def _takes_tensor(user, number):
    """Whether the number may be a tensor there."""
    if _is_result(user, number):
        return True
    if user.op not in ("call_function", "call_method") or user.target not in _operators or len(user.args) != 2 or user.kwargs:
        return False
    others = [arg for arg in user.args if arg is not number]
    if len(others) != 1 or not isinstance(others[0], Node) or (user.args[0] is number and user.target not in _reversible):
        return False
    value = others[0].meta.get("example_value")
    if not isinstance(value, FakeTensor) or value.layout != torch.strided:
        return False
    return value.dtype in (torch.float32, torch.float64) or value.is_floating_point() and value.dim() > 0


def _is_result(user, number):
    """Dynamo returns a float as torch.scalar_tensor(number, dtype=torch.float64)."""
    return user.target is torch.scalar_tensor and user.args == (number,) and user.kwargs == {"dtype": torch.float64}


def _give_tensor(user, number):
    """Changes a node for a number that is now a tensor."""
    if _is_result(user, number):
        user.replace_all_uses_with(number)
        user.graph.erase_node(user)
        return
    first, second = user.args
    tensor = second if first is number else first
    with user.graph.inserting_before(user):
        operand = user.graph.call_function(_operand, (number, tensor))
        if first is number and user.target is operator.truediv:  # torch.Tensor.__rtruediv__
            tensor = user.graph.call_method("reciprocal", (tensor,))
            user.target = operator.mul
    # A tensor comes first wherever eager has it first: half precision rounds a number that comes first.
    user.args = (operand, tensor) if first is number and user.target is operator.sub else (tensor, operand)


def _operand(number, tensor):
    """A number as the operand beside a tensor. Without dimensions, both would be promoted to the wider dtype."""
    if tensor.dim() > 0:
        return number
    # Half precision would lose bits of the number. Only a tensor that loses its dimensions in place gets here; it is refused.
    return number.to(tensor.dtype) if tensor.dtype in (torch.float32, torch.float64) else number.item()


def _keep(placeholder, value, graph_module):
    """What `prepare` passes for a placeholder of Dynamo's. None if it is no longer used, which removes it."""
    if not _is_wrapped_float(placeholder):
        return value
    bodies = {user: _bodies(user, graph_module) for user in placeholder.users}
    if not bodies:
        placeholder.graph.erase_node(placeholder)
        return None
    if not all(bodies.values()):
        return value
    for body in (body for found in bodies.values() for body in found):
        for module in body.modules():
            if isinstance(module, GraphModule):
                _read_either(module)
    return value.graph.call_method("item", (value,))


def _bodies(node, graph_module):
    """The graphs that a higher-order operator is given."""
    attributes = [source.target for source in node.all_input_nodes if source.op == "get_attr"]
    found = [operator.attrgetter(name)(graph_module) for name in attributes]
    return [body for body in found if isinstance(body, GraphModule)]


def _read_either(graph_module):
    """Lets a graph read a float where the caller wrapped it and where not."""
    for node in graph_module.graph.find_nodes(op="call_method", target="item"):
        if node.args[0].op == "placeholder":
            node.op, node.target = "call_function", _number
    graph_module.recompile()


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else value


def _checkpointed(node, graph_module):
    """The body of a checkpoint that no other checkpoint has, or None."""
    if node.target is not run_tagged:
        return None
    name = node.args[0].target
    calls = [user for source in node.graph.find_nodes(op="get_attr", target=name) for user in source.users]
    return graph_module.get_submodule(name) if len(calls) == 1 else None


def _hoist(graph_module, wrapped):
    """Moves what is computed from numbers alone out of the checkpoints in a graph."""
    for call in graph_module.graph.find_nodes(op="call_function", target=run_tagged):
        if body := _checkpointed(call, graph_module):
            given = dict(zip(body.graph.find_nodes(op="placeholder"), call.args[1:]))
            inside = {node for node, value in given.items() if value in wrapped}
            _hoist(body, inside)
            _hoist_numbers(body, call, given, inside)


def _hoist_numbers(body, call, given, wrapped):
    """`given` has the arguments of `call` by the placeholders of the body. `wrapped` are those that are wrapped floats."""
    outside = {node: value for node, value in given.items() if isinstance(value, Node) and _is_number(node)}
    outside |= {node: given[node] for node in wrapped}
    moved = []
    for node in body.graph.nodes:
        if _is_read(node, wrapped) or _is_computed(node, outside):
            with call.graph.inserting_before(call):
                outside[node] = call.graph.node_copy(node, outside.__getitem__)
            moved.append(node)
    for node in moved:
        if any(user not in moved for user in node.users):
            placeholder = _add_placeholder(node, body.graph)
            node.replace_all_uses_with(placeholder, delete_user_cb=lambda user: user not in moved)
            given[placeholder] = outside[node]
    for node in reversed(moved):
        body.graph.erase_node(node)
    for node in [node for node in given if not node.users and node in outside]:
        body.graph.erase_node(node)
        del given[node]
    call.args = (call.args[0], *given.values())


def _add_placeholder(number, graph):
    """A new last placeholder for a number."""
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        placeholder = graph.placeholder(number.name)
    placeholder.meta["example_value"] = number.meta["example_value"]
    return placeholder
