"""From joint graphs of the reference that were exported as JSON to our textual form.

The JSON has operators, edges, sizes, dtypes and storages, and what the reference saves under several budgets. It has
no constant arguments and no strides: a call is written with its tensors alone, and tensors as contiguous. That is
enough for a partitioner and its memory, and not to run or to simplify the graph.
"""

import gzip
import json

from agraph import Tensor, Unsupported, Writer

COMMENT = "From JSON: calls without their constant arguments, tensors without their strides."
DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16",
          "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool"}
FIELDS = ("name", "nodes", "storages", "fw_out", "bw_out", "params", "ref")
DRAWS_NOTHING = "aten._scaled_dot_product_flash_attention_for_cpu.default"  # though tagged as random


def read_json(file):
    """The graph as a Writer, what its reference is called, and its partitions."""
    try:
        with gzip.open(file, "rt") as text:
            exported = json.load(text)
    except (OSError, ValueError) as error:
        raise Unsupported(f"expected gzipped JSON, found {file}: {error}") from error
    if not isinstance(exported, dict) or any(field not in exported for field in FIELDS):
        raise Unsupported(f"expected the fields {', '.join(FIELDS)} in {file}")
    converter = Converter(exported)
    converter.convert()
    return converter.writer, "exported", list(converter.partitions())


class Converter:
    """Nodes go by their index."""

    def __init__(self, exported):
        self.exported = exported
        self.nodes = exported["nodes"]
        self.writer = Writer(exported["name"], COMMENT)
        self.values = {}  # by node of one tensor
        self.items = {}  # by node of several: the node of each that is used
        # The backward was recorded behind the last result.
        self.last_forward = max(exported["fw_out"])

    def convert(self):
        results, gradients = self.exported["fw_out"], self.exported["bw_out"]
        primals, tangents, calls = [], [], []
        for i, node in enumerate(self.nodes):
            if node["op"] == "placeholder":
                (primals if node["k"] == "primal" else tangents).append(i)
            elif node["op"].startswith("getitem:"):
                self.items.setdefault(node["in"][0], {})[int(node["op"].removeprefix("getitem:"))] = i
            elif node["op"].startswith(("aten.", "prims.")):
                calls.append(i)
            else:
                raise Unsupported(f"expected operators of aten and prims, found {node['op']}")
        for position, i in enumerate(primals):
            argument = position - self.exported["params"]
            source = f"argument {argument}" if argument >= 0 else f'parameter "{self.nodes[i]["n"]}"'
            self.add_input(i, f"primal {source}" + " grad" * (gradients[position] >= 0))
        self.writer.input_tokens(["cpu"] if any(map(self.is_random, calls)) else [])
        # Written inputs stand first among the results and have no tangents.
        with_tangent = range(len(results) - len(tangents), len(results))
        for position, i in zip(with_tangent, tangents):
            self.add_input(i, f"tangent {position}")
        for i in calls:
            self.add_call(i)
        for position, i in enumerate(results):
            self.writer.output(self.values[i], "result" + " grad" * (position in with_tangent))
        self.writer.output_tokens()
        for position, i in enumerate(gradients):
            if i >= 0:
                self.writer.output(self.values[i], f"gradient {position}")

    def is_random(self, i):
        return "rnd" in self.nodes[i].get("tags", ()) and self.nodes[i]["op"] != DRAWS_NOTHING

    def metas(self, i):
        for output in self.nodes[i]["o"]:
            if output is None:
                yield None
                continue
            storage, sizes, dtype = output
            yield Tensor(DTYPES[dtype], tuple(sizes), None, storage=storage,
                         storage_bytes=self.exported["storages"][storage])

    def add_input(self, i, record):
        meta, = self.metas(i)
        self.values[i] = self.writer.input(meta, record, self.nodes[i]["n"])

    def add_call(self, i):
        node, metas, items = self.nodes[i], list(self.metas(i)), self.items.get(i, {})
        name = node["n"]
        if items:
            name += "(" + ", ".join(self.nodes[items[k]]["n"] if k in items else "-" for k in range(len(metas))) + ")"
        values = self.writer.node(node["op"].replace(".", "::", 1), [f"%{self.values[j]}" for j in node["in"]], metas,
                                  "forward" if i <= self.last_forward else "backward", name,
                                  "cpu" if self.is_random(i) else None)
        self.values |= {j: values[k] for k, j in items.items()} or {i: values[0]}

    def partitions(self):
        values = {self.nodes[i]["n"]: value for i, value in self.values.items()}
        for budget, found in self.exported["ref"].items():
            saved = {node: values[node] for node in found["saved"]}
            if budget == "default":
                yield "default_partition", {}, saved
                continue
            options = {"treat_parameters_as_free_to_save": False}  # the partitioner was not told which they are
            if budget != "1.0":
                options["activation_memory_budget"] = float(budget)
            yield "min_cut_rematerialization_partition", options, saved
