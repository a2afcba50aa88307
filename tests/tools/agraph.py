"""Writes graphs in their textual form (docs/graph-format.md), in the exact layout of src/graph/text.cpp.

The form identifies values by numbers; names are written as comments.
"""

import dataclasses

RECORD_COLUMN = 36  # where the record of an input starts
NODE_ID_COLUMN = 88  # where the id of a node starts, unless its line is longer
TOKEN = "token"  # the metadata of a value that is not a tensor


class Unsupported(Exception):
    """A graph that the textual form or this tool cannot express."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Metadata of a tensor as written to the text. `storage`: a key that values with the same storage share; None
    for a storage of its own."""

    dtype: str
    sizes: tuple
    strides: tuple | None  # None: contiguous
    offset: int = 0
    device: str = "cpu"
    storage: object = None
    storage_bytes: int = 0

    def __str__(self):
        text = self.dtype + listed(self.sizes)
        if self.strides not in (None, contiguous_strides(self.sizes)):
            text += listed(self.strides, "{}")
        if self.offset:
            text += f"+{self.offset}"
        return text if self.device == "cpu" else f"{text} {self.device}"


def listed(values, brackets="[]"):
    return brackets[0] + ", ".join(map(str, values)) + brackets[1]


def contiguous_strides(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def padded(text, column):
    return text.ljust(max(len(text) + 1, column))


class Writer:
    """Collects a graph from its inputs to its outputs; numbers values in the order in which they are defined."""

    def __init__(self, name, comment=""):
        self.name = name
        self.comment = comment
        self.owner = []  # by value: the value that made its storage; itself for tokens
        self.bytes = []  # by value: of that storage
        self.kinds = []  # by value: the kind of the input that it is, or the phase of its node
        self.results = set()  # storages of results, by owner
        self.inputs, self.nodes, self.outputs = [], [], []  # lines
        self.storages = {}  # by key: the owner
        self.tokens = {}  # by generator: its last token
        self.phase = "forward"
        self.node_count = 0

    def define(self, meta, kind):
        value = len(self.owner)
        key = ("own", value) if meta is TOKEN or meta.storage is None else meta.storage
        owner = self.storages.setdefault(key, value)
        self.owner.append(owner)
        self.bytes.append(0 if meta is TOKEN else meta.storage_bytes)
        self.kinds.append(kind)
        return value, f"%{value}: {meta}" + (f" &{owner}" if owner != value else "")

    def input(self, meta, record, name=""):
        value, definition = self.define(meta, record.split()[0])
        self.inputs.append("  " + padded(definition, RECORD_COLUMN) + record + (f"  # {name}" if name else ""))
        return value

    def input_tokens(self, generators):
        """Adds a token for each generator, after the primals and before the tangents."""
        for index, generator in enumerate(generators):
            self.tokens[generator] = self.input(TOKEN, f"generator {index}")

    def node(self, op, arguments, outputs, phase, name, generator=None):
        """Adds a call with the texts of its arguments and the metadata of its outputs, None for an undefined one.
        Returns the values of the outputs."""
        if phase != self.phase:
            self.phase = phase
            self.nodes.append(phase)
        call = ", ".join(arguments)
        defined = [(None, "none") if meta is None else self.define(meta, phase) for meta in outputs]
        values = [value for value, _ in defined]
        if generator is not None:
            call += f"; %{self.tokens[generator]}"
            defined.append(self.define(TOKEN, phase))
            self.tokens[generator] = defined[-1][0]
        line = padded("  " + ", ".join(text for _, text in defined) + f" = {op}({call})", NODE_ID_COLUMN)
        self.nodes.append(f"{line}# {self.node_count} {name}")
        self.node_count += 1
        return values

    def output(self, value, record):
        if record.startswith("result") and value is not None:
            self.results.add(self.owner[value])
        self.outputs.append(f"  {'none' if value is None else f'%{value}'} {record}")

    def output_tokens(self):
        for index, token in enumerate(self.tokens.values()):
            self.output(token, f"generator {index}")

    def text(self):
        lines = [f"# {line}" for line in self.comment.splitlines()]
        lines.append(f"antegrad.graph 1 {quoted(self.name)}")
        if self.tokens:
            lines.append("generators " + ", ".join(self.tokens))
        lines += ["inputs", *self.inputs, "nodes", *self.nodes, "outputs", *self.outputs]
        return "\n".join(lines) + "\n"
