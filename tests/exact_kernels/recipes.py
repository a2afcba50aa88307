"""Reads the recipes of src/lower/recipes and turns each row into C."""

import ast
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "src/lower/recipes"
C = pathlib.Path(__file__).parent / "c"
PRELUDE = [C / name for name in ("prelude.c", "libraries.c", "onednn.c")]

DTYPES = ("f32", "f64", "bf16", "f16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "bool")  # compared by check_groups.py
CAPABILITIES = ("default", "avx2", "avx512")
C_ELEMENT = {"f32": "float", "f64": "double", "bf16": "u16", "f16": "u16", "bool": "u8"}
ELEMENT_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2}


@dataclasses.dataclass
class Row:
    """What one operator computes for some element types and capabilities."""

    dtypes: tuple
    capabilities: tuple
    constant: str  # the operand that is the same for a whole row of elements, or ""
    body: str = ""
    tail: str = ""
    tail16: str = ""  # of the tail from its second element on, in whole groups of 16 bytes
    of_rows: list = dataclasses.field(default_factory=list)  # formulas of results with one element a row
    sums: list = dataclasses.field(default_factory=list)  # of results with one element a column


@dataclasses.dataclass
class Operator:
    name: str
    inputs: list  # (name, element type or None for the row's)
    numbers: list
    result: str  # element type, or None for the row's
    upto: str = "avx512"
    when: str = ""
    split: str = ""
    vectors: str = "2"  # in a block of the body
    over: str = ""  # what is reduced, where not rows
    source: str = ""
    rows: list = dataclasses.field(default_factory=list)
    close_rows: list = dataclasses.field(default_factory=list)  # those that are not eager's
    second_rows: list = dataclasses.field(default_factory=list)  # those of other builds of ATen

    def row(self, dtype, capability, constant=""):
        """The first row that applies, or None."""
        for row in self.rows:
            if dtype in row.dtypes and capability in row.capabilities and row.constant == constant:
                return row
        return None

    def close_row(self, dtype, capability):
        """The row of the level `close`, or None."""
        fitting = (row for row in self.close_rows if dtype in row.dtypes and capability in row.capabilities)
        return next(fitting, None) or self.row(dtype, capability)

    def constants(self, dtype, capability):
        """Operands for which another row applies where they are constant."""
        return [n for n in [*dict(self.inputs), *self.numbers] if self.row(dtype, capability, n)]


def read(name):
    """All operators of a file of recipes, by name."""
    operators = {}
    operator = row = None
    for number, line in enumerate((RECIPES / name).read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#") or "recipes(" in line or line == ')recipes"':
            continue
        rest = line.strip()[len(words[0]) :].strip()
        if words[0] == "operator":
            match = re.fullmatch(r"(\w+)\((.*?)(?:;(.*))?\)(?: -> (\w+))?", rest)
            if not match:
                raise ValueError(f"{name}:{number}: not an operator: {rest}")
            inputs = [tuple(part.strip() for part in text.split(":")) for text in match[2].split(",")]
            numbers = [text.strip() for text in (match[3] or "").split(",") if text.strip()]
            operator = Operator(
                match[1], [(i[0], i[1] if len(i) > 1 else None) for i in inputs], numbers, match[4]
            )
            operators[operator.name] = operator
        elif words[0] in ("source", "upto", "when", "split", "vectors", "over"):
            setattr(operator, words[0], rest)
        elif words[0] in ("promotes", "added", "close"):
            pass
        elif words[0] in ("row", "sums"):
            (row.of_rows if words[0] == "row" else row.sums).append(rest)
        elif words[0] in ("body", "tail", "tail16"):
            setattr(row, words[0], rest)
        elif words[0] == "each":
            row.body = row.tail = rest
        elif words[0] in DTYPES + INTEGERS:
            asked = tuple(w[1:] for w in words if w[0] == "@")
            constant = words[words.index("constant") + 1] if "constant" in words else ""
            row = Row(tuple(w for w in words if w in DTYPES + INTEGERS), asked or CAPABILITIES, constant)
            kinds = {"close": operator.close_rows, "second": operator.second_rows}
            next((rows for word, rows in kinds.items() if word in words), operator.rows).append(row)
        else:
            raise ValueError(f"{name}:{number}: unknown word {words[0]}")
    return operators


class Printer:
    """Prints an expression of a recipe as C that computes in `compute`, for elements of `dtype`.

    `vector` is the type of ATen's vectors in this kernel: where one element needs a vec_ function
    (the rest of a row that ATen loads into a vector), it is computed in all lanes of such a vector.
    """

    COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
    BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}

    def __init__(self, compute, dtype, vector):
        self.compute = compute
        self.vector = vector
        self.dtype = dtype

    def statements(self, text, numbers):
        """Lines of C; the last one declares `result`."""
        scalar = self.compute[:3]
        lines = [f"const {self.compute} {n} = splat_{self.compute}(({scalar})number_{n});" for n in numbers]
        parts = [part.strip() for part in text.split(";")]
        for part in parts[:-1]:
            name, value = part.split("=", 1)
            lines.append(f"const __auto_type {name.strip()} = {self.expression(value)};")
        return lines + [f"const __auto_type result = {self.expression(parts[-1].split(' = ')[-1])};"]

    def expression(self, text):
        return self.print(ast.parse(text.strip(), mode="eval").body)

    def print(self, node):
        if isinstance(node, ast.Constant):
            return f"splat_{self.compute}(({self.compute[:3]}){float(node.value)!r})"
        if isinstance(node, ast.Name):
            if node.id == "inf":
                return f"splat_{self.compute}(({self.compute[:3]})__builtin_inf())"
            return node.id
        if isinstance(node, ast.UnaryOp):
            return f"(-{self.print(node.operand)})"
        if isinstance(node, ast.BinOp):
            sign = self.BINARY[type(node.op)]
            return f"({self.print(node.left)} {sign} {self.print(node.right)})"
        if isinstance(node, ast.Compare):
            sign = self.COMPARE[type(node.ops[0])]
            return f"({self.print(node.left)} {sign} {self.print(node.comparators[0])})"
        if isinstance(node, ast.Call):
            name = f"rnd_{self.dtype}" if node.func.id == "rnd" else node.func.id
            if name == "libm_pow_double":  # computes in float64, with the number as it was given
                return f"({self.compute})pow((double){self.print(node.args[0])}, number_{node.args[1].id})"
            if name == "exact":
                return f"number_{node.args[0].id}"
            arguments = [self.print(a) for a in node.args]
            if name in ("wide", "narrow"):
                return f"(({'f64' if name == 'wide' else self.compute}){arguments[0]})"
            if name.startswith("vec_") and self.compute != self.vector:
                lanes = ", ".join(f"splat_{self.vector}({a})" for a in arguments)
                return f"{name}_{self.vector}({lanes})[0]"
            return f"{name}_{self.compute}({', '.join(arguments)})"
        raise ValueError(ast.dump(node))


def vector_bytes(operator, capability):
    """The size of ATen's vectors in the kernel that is registered for a capability."""
    return 64 if capability == "avx512" and operator.upto == "avx512" else 32


def functions(operator, dtype, capability):
    """C of all kernels of an operator: one, and one for each operand whose constancy matters."""
    constants = ["", *operator.constants(dtype, capability)]
    return "".join(function(operator, dtype, capability, constant) for constant in constants)


def kernel_name(operator, dtype, constant):
    return f"kernel_{operator.name}_{dtype}" + (f"_constant_{constant}" if constant else "")


def function(operator, dtype, capability, constant):
    """C of `void kernel_NAME_DTYPE(buffers, numbers, begin, end, vectors)`; contiguous elements."""
    row = operator.row(dtype, capability, constant)
    scalar = "f64" if dtype == "f64" else "f32"
    lanes = vector_bytes(operator, capability) // ELEMENT_BYTES[scalar]
    vector = f"{scalar}x{lanes}"
    block = int(operator.vectors) * vector_bytes(operator, capability) // ELEMENT_BYTES[dtype]
    result = operator.result or dtype
    resized = result in DTYPES and result != dtype

    def block_of(compute, text, index):
        lines = []
        for position, (name, kind) in enumerate(operator.inputs, 1):
            element = kind or dtype
            pointer = f"(const {C_ELEMENT[element]} *)buffers[{position}] + {index}"
            lines.append(f"const __auto_type {name} = load_{element}_{compute}({pointer});")
        lines += Printer(compute, dtype, vector).statements(text, operator.numbers)
        lines.append(f"store_{result}_{compute}(({C_ELEMENT[result]} *)buffers[0] + {index}, result);")
        return "\n      ".join(lines)

    numbers = "\n  ".join(
        f"const double number_{n} = numbers[{i}];" for i, n in enumerate(operator.numbers)
    )
    blocks = (
        ""
        if resized
        else f"""
  for (; vectors && i + {block} <= end; i += {block})
    for (i64 j = i; j < i + {block}; j += {lanes}) {{
      {block_of(vector, row.body, "j")}
    }}"""
    )
    group = 16 // ELEMENT_BYTES[dtype]
    groups = (
        f"""
  const i64 first = i + 1, grouped = end > i ? first + (end - first) / {group} * {group} : end;
  if (i < end) {{
      {block_of(scalar, row.tail, "i")}
      i++;
  }}
  for (; vectors && i < grouped; i++) {{
      {block_of(scalar, row.tail16, "i")}
  }}"""
        if row.tail16
        else ""
    )
    return f"""
void {kernel_name(operator, dtype, constant)}(char *const *buffers, const double *numbers, i64 begin, i64 end,
    i64 vectors) {{
  i64 i = begin;
  (void)numbers, (void)vectors;
  {numbers}{blocks}
{groups}
  for (; i < end; i++) {{
      {block_of(scalar, row.tail, "i")}
  }}
}}
"""
