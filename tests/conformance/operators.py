"""docs/operators.md: for each operator in a run, the source of the metadata of its results, and how often it was checked."""

import collections
import json
import pathlib
import re

import torch

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src/shapes"


def families():
    """Operators with a shape function, by the file of their family."""
    found = {}
    for file in sorted(SOURCES.glob("*.cpp")):
        operators = re.findall(r'^    \{"aten::([\w.]+)", ', file.read_text(), re.M)
        if operators:
            found[file.stem] = sorted(operators)
    return found


class Met:
    """The calls of a run with --cross-check: counts by operator and fact."""

    def __init__(self, out):
        self.calls = collections.defaultdict(collections.Counter)
        self.refused = collections.Counter()
        for line in (out / "results.jsonl").open():
            record = json.loads(line)
            for name, fact, count in record["shapes"]:
                self.calls[short(name)][fact] += count
            for result in record["results"]:
                needs_data = re.match(r"aten::(\w+): .* needs the data", result.get("detail", ""))
                if needs_data:
                    self.refused[needs_data.group(1)] += 1

    def total(self, fact):
        return sum(counts[fact] for counts in self.calls.values())

    def by_fact(self, fact, others):
        """Operators with this fact, and the number of their calls."""
        return {name: counts[fact] for name, counts in sorted(self.calls.items()) if counts[fact] and name not in others}


def short(name):
    """"aten::add.Tensor" and "aten::mm.default" as in the tables: "add.Tensor", "mm"."""
    return name.removeprefix("aten::").removesuffix(".default")


def listed(counts):
    return ", ".join(f"`{name}` {count:,}" if count else f"`{name}`" for name, count in counts.items())


def page_of(out):
    met, tables = Met(out), families()
    known = {name for operators in tables.values() for name in operators}
    meta, real = met.by_fact("meta_kernels", known), met.by_fact("real_kernels", known)
    declined = {name: c["meta_kernels"] + c["real_kernels"] for name, c in sorted(met.calls.items()) if name in known}
    declined = {name: count for name, count in declined.items() if count}
    skipped = {name: c["skipped"] for name, c in sorted(met.calls.items()) if c["skipped"]}
    reached = sum(name in met.calls for name in known)
    lines = [
        "# Operators",
        "",
        "After reading this page you know, for each operator, what describes its results during capture, and how often that was compared",
        "with the real kernel. Made by `tests/conformance/op_db.py report`; do not edit.",
        "",
        "Numbers are calls that were compared with the real kernel, including strides, with `cross_check_shapes=error`",
        "([options.md](options.md)), in forward and backward. The calls come from PyTorch's databases of operators and of modules",
        f"(torch {torch.__version__.split('+')[0]}, CPU; [conformance.md](conformance.md)). An operator without a number does not occur there; some exist only on CUDA.",
        "Each shape function is also compared with its operator on 150 random calls, 3,000 in the long form, over dtypes, ranks,",
        "strides, zero sizes, broadcasting and memory formats (`shapes_crosscheck_test.cpp`).",
        "",
        "| described by | operators | tested | calls | compared |",
        "|---|---:|---:|---:|---:|",
        f"| shape functions | {len(known)} | {reached} | {met.total('shape_functions'):,} | |",
        f"| libtorch's Meta kernels | {len(meta)} | {len(meta)} | {met.total('meta_kernels'):,} | |",
        f"| the real kernel on zeros, memoised | {len(real)} | {len(real)} | {met.total('real_kernels'):,} | needs none |",
        f"| all | | {len(met.calls)} | | {met.total('checked'):,}, {met.total('skipped'):,} skipped |",
        "",
        "## Shape functions",
    ]
    for family, operators in tables.items():
        counts = {name: met.calls[name]["checked"] if name in met.calls else 0 for name in operators}
        lines += ["", f"### {family.replace('_', ' and ').capitalize()} (`src/shapes/{family}.cpp`), {len(operators)} operators",
                  "", listed(counts)]
    lines += ["", "## Calls that a shape function leaves to others", "",
              "Cases that a shape function does not know exactly, with the number of calls.", "", listed(declined) or "None."]
    lines += ["", "## Meta kernels of libtorch", "", listed({n: met.calls[n]["checked"] for n in meta}) or "None."]
    lines += ["", "## Real kernels on zeros", "",
              "Without a Meta kernel, or with a wrong one (`kWrongMeta` in `src/ops/op_table.cpp`), with the number of calls.",
              "", listed(real) or "None."]
    lines += ["", "## Not compared", "", "Kernels that refuse made-up data, with the number of calls.", "", listed(skipped) or "None."]
    lines += ["", "## Not captured", "", "Operators that need the data of a tensor ([capture.md](capture.md)), with the number of samples.",
              "", listed(dict(sorted(met.refused.items()))) or "None."]
    return "\n".join(lines) + "\n"
