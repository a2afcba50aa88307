#!/usr/bin/env python3
"""Writes joint graphs of PyTorch's AOTAutograd in our textual form, with the values that its partitioners save.

    fx_to_agraph.py list                                    the built-in models
    fx_to_agraph.py model gpt mine:small --out DIR          built-in models, or a function in a module of yours that
                                                            returns an nn.Module and the tuple of its arguments
    fx_to_agraph.py all --out DIR                           all built-in models

Each graph becomes DIR/NAME.agraph and DIR/NAME.saved.json; docs/graph-format.md describes both. The same model gives
the same bytes.
"""

import argparse
import importlib
import json
import pathlib
import sys

import torch
from agraph import Unsupported
from fx_graph import convert
from joint_graph import DEFAULTS, VARIANTS, capture, with_budget
from small_models import MODELS


def convert_model(name, asked=DEFAULTS):
    """The arguments of `write`: the graph as a Writer, the name of the reference, and for each partitioner with its options
    the names of the values that it saves."""
    torch.manual_seed(0)
    made = model_of(name)()
    try:
        model, args = made
        model.train()
    except (TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"expected a module and a tuple of arguments from {name}, found {made!r}") from error
    joint = capture(model, args, asked)
    writer, values = convert(name.replace(":", "."), joint)
    values = {node.name: value for node, value in values.items()}
    reference = "torch " + torch.__version__.split("+")[0]
    return writer, reference, [(partitioner.name, partitioner.options, {node: values[node] for node in saved})
                               for partitioner, saved in joint.saved]


def model_of(name):
    if name in MODELS:
        return MODELS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise Unsupported(f"expected one of {', '.join(MODELS)} or module:function, found {name}")
    sys.path.insert(0, ".")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"expected a function {function} in a module {module}: {error}") from error


def write(out, writer, reference, partitions):
    texts = []
    for partitioner, options, saved in partitions:
        owners = {writer.owner[value] for value in saved.values()}
        held = sum(writer.bytes[owner] for owner in owners
                   if writer.kinds[owner] != "primal" and owner not in writer.results)
        texts.append(json.dumps({"partitioner": partitioner, "options": options, "saved_bytes": held, "saved": saved}))
        print(f"{writer.name}: {writer.node_count} nodes, {partitioner} {options or ''} saves {len(saved)} values, "
              f"{held} B")
    head = json.dumps({"graph": writer.name, "reference": reference}).removesuffix("}")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{writer.name}.agraph").write_text(writer.text())
    (out / f"{writer.name}.saved.json").write_text(head + ', "partitions": [\n' + ",\n".join(texts) + "\n]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the built-in models")
    some = commands.add_parser("model", help="some models")
    some.add_argument("names", nargs="+", metavar="NAME")
    some.add_argument("--budget", type=float, action="append", default=[],
                      help="what is saved under this activation_memory_budget too; may be given again")
    every = commands.add_parser("all", help="all built-in models, with other options of the minimum cut too")
    for command in (some, every):
        command.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.command == "list":
        print("\n".join(MODELS))
        return 0
    try:
        if arguments.command == "all":
            names, more = MODELS, VARIANTS
        else:
            names, more = arguments.names, map(with_budget, arguments.budget)
        asked = (*DEFAULTS, *more)
        for name in names:
            write(arguments.out, *convert_model(name, asked))
    except Unsupported as error:
        print(f"fx_to_agraph: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
