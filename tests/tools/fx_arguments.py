"""Converts arguments of operators in AOTAutograd's graphs to our textual form."""

import json

import torch
from agraph import Unsupported, listed, quoted

DTYPES = {
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2", torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.bool: "bool",
    torch.complex32: "c32", torch.complex64: "c64", torch.complex128: "c128",
}
WRAPPED = {bool: "bool", int: "i64", float: "f64", complex: "c128"}  # dtypes of numbers that stand for a tensor


def arguments(node, values):
    """One text for each argument of the schema, with its name if the form has one. `values`: by fx node."""
    schema = node.target._schema
    given = dict(zip((argument.name for argument in schema.arguments), node.args), **node.kwargs)
    texts = []
    for argument in schema.arguments:
        value = given.get(argument.name, argument.default_value)
        text = text_of(str(argument.real_type), argument.N, value, values)
        texts.append(text if text[0] in "%{" else f"{argument.name}={text}")
    return texts


def text_of(kind, length, value, values):
    """`length`: the length of a list that may be given as one number, or None."""
    if kind.startswith("Optional["):
        kind = kind[len("Optional["):-1]
    if value is None:
        return "none"
    if kind == "Tensor":
        return f"%{values[value]}" if isinstance(value, torch.fx.Node) else wrapped(value)
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        return listed(("none" if entry is None else f"%{values[entry]}" for entry in value), "{}")
    if kind.startswith("List["):
        entry_kind = kind[len("List["):-1]
        entries = value if isinstance(value, (list, tuple)) else [value] * (length or 1)
        empty = {"float": "floats", "bool": "bools", "str": "strings", "number": "scalars"}.get(entry_kind, "")
        return ("" if entries else empty) + listed(constant(entry_kind, entry) for entry in entries)
    return constant(kind, value)


def constant(kind, value):
    writers = {"int": integer, "float": lambda v: repr(float(v)), "bool": lambda v: json.dumps(bool(v)), "str": quoted,
               "number": lambda v: f"scalar({number(v)})", "ScalarType": DTYPES.get, "Device": str,
               "Layout": lambda v: f"layout({str(v).removeprefix('torch.')})",
               "MemoryFormat": lambda v: f"format({str(v).removeprefix('torch.').removesuffix('_format')})"}
    text = writers[kind](value) if kind in writers else None
    if text is None:
        raise Unsupported(f"expected an argument that the textual form can write, found {value!r} for a {kind}")
    return text


def integer(value):
    if isinstance(value, torch.fx.Node) or not isinstance(value, int):
        raise Unsupported(f"expected numbers for sizes, found {value}: trace the model with fixed shapes")
    return str(int(value))


def number(value):
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value) if isinstance(value, float) else integer(value)


def wrapped(value):
    return f"wrapped({number(value)} : {WRAPPED[type(value)]})"
