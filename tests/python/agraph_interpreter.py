"""Runs the textual form of a graph (docs/graph-format.md) with libtorch's operators, and checks that each tensor has the
metadata in the text. Shares no code with the tools that write the form."""

import re

import torch

DEFINITION = re.compile(r"%(\d+): (\w+)(?:\[([\d, ]*)\])?(?:\{([\d, ]*)\})?(?:\+(\d+))?(?: &(\d+))?")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i32": torch.int32,
          "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64,
          "c128": torch.complex128}
# Arguments are evaluated as Python with these names:
WORDS = {"none": None, "true": True, "false": False, "scalar": lambda value: value, "wrapped": lambda value: value,
         "complex": complex,
         "cpu": torch.device("cpu"), "strided": torch.strided, "layout": lambda layout: layout, "inf": float("inf"),
         "preserve": torch.preserve_format, "contiguous": torch.contiguous_format,
         "format": lambda memory_format: memory_format, **DTYPES}


class Graph:
    def __init__(self, text):
        self.inputs = []  # (definition, record)
        self.nodes = []  # (definitions, operator, arguments)
        self.outputs = []  # (value or None, record)
        self.phases = []  # of nodes
        self.names = {}  # values by the name in a comment
        section = None
        for line in text.splitlines():
            line, _, comment = (part.strip() for part in line.partition("#"))
            if line in ("inputs", "nodes", "outputs", "forward", "backward"):
                section = line
            elif line and section:
                self.add(line, comment, section)

    def add(self, line, comment, section):
        if section == "outputs":
            value, record = line.split(" ", 1)
            self.outputs.append((None if value == "none" else int(value[1:]), record))
            return
        if section == "inputs":
            definition = DEFINITION.match(line)
            self.inputs.append((definition, line[definition.end():].strip()))
            self.names[comment] = int(definition[1])
            return
        left, operator, arguments = re.fullmatch(r"(.*) = (\w+::[\w.]+)\((.*)\)", line).groups()
        defined = [DEFINITION.fullmatch(text) for text in re.split(r", (?=%|none)", left)]
        self.nodes.append((defined, operator, arguments))
        self.phases.append("backward" if section == "backward" else "forward")
        names = re.findall(r"[\w-]+", comment.partition(" ")[2])
        named = zip(names[1:] if len(names) > 1 else names, defined)
        self.names |= {name: int(definition[1]) for name, definition in named if name != "-"}

    def run(self, tensors):
        """Outputs by record, computed from the tensors of all inputs except tokens."""
        values, remaining = {}, list(tensors)
        for definition, record in self.inputs:
            if definition[2] != "token":
                define(values, definition, remaining.pop(0))
        assert not remaining
        for definitions, operator, arguments in self.nodes:
            returned = call(operator, arguments, values)
            returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
            wanted = [d for d in definitions if d is None or d[2] != "token"]
            assert len(returned) == len(wanted), operator
            for definition, tensor in zip(wanted, returned):
                assert (definition is None) == (tensor is None), operator
                if definition:
                    define(values, definition, tensor)
        return [(record, values.get(value)) for value, record in self.outputs if not record.startswith("generator")]


def define(values, definition, tensor):
    value, dtype, sizes, strides, offset, storage = definition.groups()
    assert tensor.dtype == DTYPES[dtype], definition[0]
    assert list(tensor.shape) == integers(sizes), definition[0]
    expected = torch.empty(tensor.shape, device="meta").stride() if strides is None else tuple(integers(strides))
    # Fake kernels of AOTAutograd report other strides for dimensions of size 1; these have no meaning.
    compared = [(a, b) for size, a, b in zip(tensor.shape, tensor.stride(), expected) if size != 1]
    assert all(a == b for a, b in compared), definition[0]
    assert tensor.storage_offset() == int(offset or 0), definition[0]
    memory = tensor.untyped_storage().data_ptr()
    for other, known in values.items():
        assert (known.untyped_storage().data_ptr() == memory) == (known.owner == int(storage or value)), definition[0]
    tensor.owner = int(storage or value)
    values[int(value)] = tensor


def integers(text):
    return [int(number) for number in text.split(",") if number.strip()]


def call(operator, text, values):
    namespace, _, name = operator.partition("::")
    op = getattr(torch.ops, namespace)
    for part in name.split("."):
        op = getattr(op, part)
    schema = op._schema.arguments
    texts = split(text.split("; %")[0])
    assert len(texts) == len(schema), operator
    positional, keywords = [], {}
    for argument, text in zip(schema, texts):
        name, equals, rest = text.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            assert name == argument.name, operator
            text = rest
        value = read(text, values)
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return op(*positional, **keywords)


def split(text):
    """Splits at commas outside of brackets and strings."""
    parts, depth = [""], 0
    for token in re.findall(r'"(?:\\.|[^"\\])*"|.', text):
        depth += (token in "([{") - (token in ")]}")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


def read(text, values):
    if text.startswith('"'):
        return text[1:-1]
    text = re.sub(r" : \w+\)", ")", text)  # Python determines the dtype of a wrapped number
    text = re.sub(r"\b(?:floats|bools|strings|scalars)\[\]", "[]", text)
    text = re.sub(r"%(\d+)", r"values[\1]", text.translate(str.maketrans("{}", "[]")))
    return eval(text, {"__builtins__": {}, "values": values} | WORDS)
