"""docs/operators-with-kernels.md: for each operator in a run, whether an exact kernel computes it, or why none does."""

import collections
import re

import torch
from contained import results_in
from operators import listed, short
from samples import DTYPES, KERNEL


class Met:
    """Nodes of the graphs of a run with --lowering exact and --cross-check, by operator."""

    def __init__(self, out):
        self.calls = collections.Counter()  # of all operators
        self.found = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))  # reasons by type
        for record in results_in(out):
            for name, _, count in record["shapes"]:
                self.calls[short(name)] += count
            for name, reason, count in record["kernels"]:
                self.found[short(name)][record["case"][1]][without_numbers(reason)] += count

    def kernels(self, name):
        return sum(reasons[KERNEL] for reasons in self.found[name].values())

    def reasons(self, name):
        """Why nodes have no kernel, with their number, the most frequent first."""
        every = sum(self.found[name].values(), collections.Counter())
        del every[KERNEL]
        return every.most_common()


def without_numbers(reason):
    return re.sub(r"%?\b[0-9]+\b", "N", reason).replace("|", "\\|")


def cell(reasons):
    """Of one operator and type: the share of its nodes that kernels compute."""
    nodes = reasons.total()
    if not nodes:
        return ""
    share = reasons[KERNEL] / nodes
    return "all" if share == 1 else "none" if share == 0 else f"{100 * share:.0f} %"


def page_of(out):
    met = Met(out)
    lowered = sorted(name for name in met.found if met.kernels(name))
    refused = sorted(name for name in met.found if not met.kernels(name))
    others = {name: 0 for name in sorted(met.calls) if name not in met.found}
    lines = [
        "# Operators with kernels",
        "",
        "After reading this page you know which operators generated kernels compute with `lowering=exact`, and why others stay library",
        "calls. Made by `tests/conformance/op_db.py report`; do not edit.",
        "",
        "The graphs come from PyTorch's databases of operators and of modules, forward and backward "
        f"(torch {torch.__version__.split('+')[0]}; [conformance.md](conformance.md)),",
        "compiled with `keep_slow_kernels`, so that size and speed refuse nothing. All of their results have the bits of eager mode; a kernel that",
        "has not is an error of this run. A cell tells which part of an operator's nodes kernels compute; types are those of the inputs of",
        "a sample. How the formulas are known: [exact-kernels.md](exact-kernels.md). At `lowering=close` the same operators have kernels, in",
        "more cases; errors are in [operator-accuracy.md](operator-accuracy.md).",
        "",
        f"## With a kernel: {len(lowered)} operators",
        "",
        "| operator | " + " | ".join(DTYPES) + " | nodes without one |",
        "|---|" + "---|" * len(DTYPES) + "---|",
    ]
    for name in lowered:
        cells = [cell(met.found[name][dtype]) for dtype in DTYPES]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {'; '.join(f'{reason} ({count})' for reason, count in met.reasons(name)[:3])} |")
    lines += ["", f"## Refused in every case: {len(refused)} operators", "", "| operator | reasons |", "|---|---|"]
    for name in refused:
        lines.append(f"| `{name}` | {'; '.join(f'{reason} ({count})' for reason, count in met.reasons(name)[:3])} |")
    lines += [
        "",
        f"## Library calls and views: {len(others)} operators",
        "",
        "The loop IR has no form for them, or they compute nothing: matrix products, convolutions, attention, decompositions, sorting, and operators",
        "that only make a view. [exact-kernels.md](exact-kernels.md#what-has-no-exact-recipe) has reasons.",
        "",
        listed(others) or "None.",
    ]
    return "\n".join(lines) + "\n"
