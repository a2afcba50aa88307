"""antegrad's partitioners for AOTAutograd and PyTorch's compiler: antegrad.partition_fn, antegrad.inductor_partitioner."""

import inspect
import json
import operator
import time
import warnings

import torch
from torch._functorch import config, partitioners
from torch._functorch.compile_utils import fx_graph_cse, raise_getitems
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx.experimental.proxy_tensor import is_sym_node

from antegrad._C import BudgetError, Error, Kernels, OptionError, check_partition, library_version, plan_exported
from antegrad._joint_graph import JointGraph, is_view, is_write, refuse
from antegrad._kernel_order import keep_sums_apart


class PartitionRecord:
    """How one joint graph was partitioned. `peak_bytes` is predicted, `measured_bytes` is the peak of a step, None before
    antegrad.inductor measured one. `as_planned`: whether it gave Inductor the settings that keep it to the plan. str() is a graph
    file, which the commands `antegrad explain`, `pareto`, `timeline` and `replay` read."""

    def __init__(self, plan, saved, seconds):
        self.peak_bytes = plan["peak_bytes"]
        self.measured_bytes = None
        self.as_planned = False
        self.graph = plan["graph"]
        self.saved = saved
        self.seconds = seconds  # that partitioning took
        forward = set(plan["forward"])
        self.recomputed = sum(call["node"] in forward for call in plan["backward"])

    def __str__(self):
        return self.graph

    def __repr__(self):
        measured = "" if self.measured_bytes is None else f", measured {self.measured_bytes} bytes"
        measured += ", as planned" if self.as_planned else ""
        return (f"PartitionRecord({len(self.saved)} saved, {self.recomputed} recomputed, peak {self.peak_bytes} bytes"
                f"{measured})")

    def save(self, file):
        with open(file, "w") as stream:
            stream.write(self.graph)


class Partition:
    """A partitioner for AOTAutograd, with the interface of min_cut_rematerialization_partition(). `records` has one entry
    for each graph that it has split."""

    # Who builds a backend on AOTAutograd may call kernels one by one.
    kernels = Kernels.one_by_one

    def __init__(self, fallback, options):
        self.fallback = fallback
        chosen = options.keys() & {"partition", "memory_budget", "memory_share"}
        self.options = options if chosen else {"partition": "min_cut"} | options
        check_partition(self.options)
        self.records = []

    def __call__(self, joint_module, joint_inputs=(), compiler="inductor", *, num_fwd_outputs,
                 static_lifetime_input_indices=None, **unknown):
        if unknown:
            raise OptionError(f"expected the arguments of AOTAutograd's partitioners, found {', '.join(unknown)}")
        static = static_lifetime_input_indices or []
        try:
            return self.split(joint_module, joint_inputs, num_fwd_outputs, static)
        except (BudgetError, OptionError):
            raise
        except Error as error:
            if not self.fallback:
                raise
            warnings.warn(f"antegrad cannot partition this graph, so AOTAutograd's partitioner does: {error}", stacklevel=2)
        return partitioners.min_cut_rematerialization_partition(
            joint_module, joint_inputs, compiler, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static)

    def split(self, module, inputs, num_fwd_outputs, static):
        start = time.perf_counter()
        module = prepared(module)
        joint = JointGraph(module, num_fwd_outputs, static)
        text = joint.text()
        if not any(node in joint.index for node in joint.gradients):
            return partitioners.default_partition(
                module, inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static)
        plan = json.loads(plan_exported(text, self.options, self.kernels))
        forward, backward, saved = split_as_planned(joint, plan, num_fwd_outputs)
        if self.kernels != Kernels.one_by_one:
            keep_sums_apart(backward.graph)
            backward.recompile()
        self.records.append(PartitionRecord(plan, saved, time.perf_counter() - start))
        return forward, backward


class InductorPartition(Partition, CustomPartitionerFn):
    """The same for torch._inductor.config.custom_partitioner_fn. `in_order`: whether Inductor keeps the order of the plan."""

    def __init__(self, fallback, options, in_order=False):
        super().__init__(fallback, options)
        self.kernels = Kernels.generated_in_order if in_order else Kernels.generated

    def uuid(self):
        files = (__file__, inspect.getfile(JointGraph), inspect.getfile(keep_sums_apart))
        return get_hash_for_files(files, library_version() + repr((self.kernels, sorted(self.options.items()))))


# Switches of torch._functorch.config that change what AOTAutograd's partitioners return. Older versions lack some.
SWITCHES = ("enable_activation_offloading", "_sync_decision_cross_ranks")


def check_requests(graph):
    """Refuses what the program or the configuration asks of AOTAutograd's partitioner and this one does not do."""
    for name in SWITCHES:
        if getattr(config, name, False):
            refuse(f"torch._functorch.config.{name} off", "it on")
    annotation = getattr(partitioners, "_get_memory_budget_annotation", lambda node: None)
    for node in graph.nodes:
        if annotation(node) is not None or isinstance(node.meta.get("memory_budget"), float):
            refuse("a budget among the partitioner's options", f"one for a region of the program, at {node.name}",
                   "remove region_activation_memory_budget and give activation_memory_budget to the partitioner")


def prepared(module):
    """What AOTAutograd does with a joint graph before it is partitioned."""
    check_requests(module.graph)
    module.graph.eliminate_dead_code()
    if config.cse:
        module.graph = fx_graph_cse(module.graph)
    if partitioners.has_recomputable_ops(module):
        module = partitioners.cleanup_recompute_tags(module, is_default_partition=False)
    if not config.unsafe_allow_optimization_of_collectives:
        partitioners.force_save_collectives(module)
    for name in ("force_save_effectful_ops", "force_save_bw_mutation_src"):  # not in older versions
        getattr(partitioners, name, lambda module: None)(module)
    module.recompile()
    return module


class Crossing:
    """What crosses from the forward to the backward: all that the backward reads and that the plan does not let it compute.

    The plan says which tensors are saved. It knows no integers and no objects, and leaves out what costs nothing.
    """

    def __init__(self, joint, plan):
        self.joint = joint
        nodes = joint.nodes
        self.planned = {nodes[node] for _, node in plan["saved"]}
        self.again = {nodes[call["node"]] for call in plan["backward"]}
        self.values, self.integers, self.objects = [], [], []
        seen = set()
        stack = [node for node in joint.gradients if isinstance(node, torch.fx.Node)]
        stack += [node for node in joint.module.graph.nodes if partitioners._must_be_in_backward(node)]
        while stack:
            node = stack.pop()
            if node in seen or node in joint.tangents:
                continue
            seen.add(node)
            kept = self.kept_in(node)
            if kept is None:
                stack.extend(node.all_input_nodes)
            elif node not in kept:
                kept.append(node)
        order = {node: position for position, node in enumerate(joint.module.graph.nodes)}
        for kept in (self.values, self.integers, self.objects):
            kept.sort(key=order.__getitem__)

    def kept_in(self, node):
        """The list in which the forward keeps a node, None for one that the backward computes."""
        if node in self.joint.late or node.op == "get_attr":
            return None
        if is_sym_node(node):
            return self.integers if node.op == "placeholder" or isinstance(node.meta["val"], torch.SymInt) else None
        if is_object(node):
            return self.objects
        if node in self.planned or node.op == "placeholder":
            return self.values
        call = node.args[0] if node.target is operator.getitem else node
        if call in self.again or partitioners._must_be_in_backward(call):
            return None
        if is_view(call) or not isinstance(node.meta.get("val"), torch.Tensor):
            return None
        return self.values


def is_object(node):
    """Whether a node stands for something that is neither a tensor nor a number, a process group for example."""
    if hasattr(partitioners, "is_opaque_node"):  # not in older versions
        return partitioners.is_opaque_node(node)
    return isinstance(node.meta.get("val"), FakeScriptObject)


def split_as_planned(joint, plan, num_fwd_outputs):
    """The forward and the backward module, and the names of the nodes that are saved."""
    crossing = Crossing(joint, plan)
    renamed = keep_copies(joint, crossing)
    held = partitioners.OrderedSet(node for node in joint.primals if node in joint.held)
    objects = {}
    if "saved_opaque_nodes" in inspect.signature(partitioners._extract_fwd_bwd_modules).parameters:
        objects["saved_opaque_nodes"] = crossing.objects
    else:  # older versions pick them out themselves
        crossing.values += crossing.objects
    forward, backward = partitioners._extract_fwd_bwd_modules(
        joint.module, crossing.values, crossing.integers, num_fwd_outputs=num_fwd_outputs,
        static_lifetime_input_nodes=held, **objects)
    check_writes(joint.module.graph, backward.graph)
    graph = Schedule(backward.graph, joint, plan, renamed).run()
    backward = torch.fx._lazy_graph_module._make_graph_module(backward, graph)
    forward, backward = raise_getitems(forward), raise_getitems(backward)
    if hasattr(partitioners, "thread_graphsafe_rng_from_hops"):  # not in older versions
        forward = partitioners.thread_graphsafe_rng_from_hops(forward, is_backward=False)
        backward = partitioners.thread_graphsafe_rng_from_hops(backward, is_backward=True)
    return forward, backward, [node.name for node in crossing.values]


def check_writes(joint, backward):
    """AOTAutograd's extraction leaves out, without a word, what reads something that is neither saved nor computed."""
    kept = {node.name for node in backward.nodes}
    for node in joint.nodes:
        if partitioners._must_be_in_backward(node) and is_write(node) and node.name not in kept:
            refuse("a backward with all writes of the joint graph", f"one without {node.format_node()}")


def keep_copies(joint, crossing):
    """Saves copies of primals that are written before the backward reads them as they were. Returns the names of the copies.
    A primal that the backward itself writes is saved too, and read there as it is."""
    renamed = {}
    graph = joint.module.graph
    first = next(node for node in graph.nodes if node.op != "placeholder")
    state = joint.written_in_backward()
    values, crossing.values = crossing.values, []
    for node in values:
        if node in state or node not in joint.written:
            crossing.values.append(node)
        if node not in state and node not in joint.written:
            continue
        with graph.inserting_before(first):
            copy = graph.call_function(torch.ops.aten.clone.default, (node,))
        copy.meta = {"val": node.meta["val"].clone(), "partitioner_tag": "is_forward"}
        others = {copy} if node in joint.written else {copy} | joint.late
        node.replace_all_uses_with(
            copy, lambda user, others=others: user not in others and user.op != "output" and not is_write(user))
        renamed[node.name] = copy.name
        crossing.values.append(copy)
    return renamed


class Schedule:
    """Puts the backward graph into the order of the plan, in which a node may run several times. What the plan does not mention
    runs where it is first read."""

    def __init__(self, graph, joint, plan, renamed):
        self.old = graph
        self.joint = joint
        self.plan = plan
        self.renamed = renamed
        self.named = {node.name: node for node in graph.nodes}
        self.graph = torch.fx.Graph()
        self.latest = {}  # by node of the old graph: its last copy
        self.made = {}  # by value of the plan

    def node(self, index):
        """The node of the old graph for one of the joint graph; None if the backward does not need it."""
        name = self.joint.nodes[index].name
        return self.named.get(self.renamed.get(name, name))

    def run(self):
        for node in self.old.find_nodes(op="placeholder"):
            self.copy(node)
        for value, index in self.plan["saved"]:
            self.note(value, index)
        for call in self.plan["backward"]:
            self.call(call)
        for node in self.old.nodes:
            if partitioners._must_be_in_backward(node):
                self.emit(node)
        output = self.old.output_node()
        for node in output.all_input_nodes:
            self.emit(node)
        self.copy(output)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        return self.graph

    def copy(self, node, inputs=None):
        inputs = self.latest if inputs is None else inputs
        self.latest[node] = self.graph.node_copy(node, inputs.__getitem__)

    def note(self, value, index):
        node = self.node(index)
        if node in self.latest:
            self.made[value] = self.latest[node]

    def emit(self, node):
        """Copies a node that is not there, and before it what it reads."""
        stack = [node]
        while stack:
            node = stack.pop()
            missing = [read for read in node.all_input_nodes if read not in self.latest]
            if node in self.latest:
                continue
            if missing:
                stack += [node, *missing]
            else:
                self.copy(node)
        return self.latest[node]

    def call(self, call):
        """Runs one node of the plan, which reads the values that the plan says."""
        node = self.node(call["node"])
        if node is None or node.op == "placeholder":
            return
        inputs = {}
        for index, value in zip(self.joint.reads[call["node"]], call["in"]):
            if value in self.made:
                inputs[self.node(index)] = self.made[value]
        for read in node.all_input_nodes:
            if read not in inputs:
                inputs[read] = self.emit(read)
        self.copy(node, inputs)
        self.copy_items(node)
        for position, index in self.joint.results_of(call["node"]):
            self.note(call["out"][position], index)

    def copy_items(self, node):
        """Takes everything out of what a call returns, at once: otherwise its other results would live on."""
        for user in node.users:
            if user.target is operator.getitem:
                self.copy(user)
                self.copy_items(user)
