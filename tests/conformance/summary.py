"""Summary of a run over the operator database: counts, the page, rows for scripts/bench_table."""

import collections
import re

import torch
from contained import results_in
from outcome import STATUSES
from samples import DTYPES, ROUNDED, UNINITIALISED


# The answer of samples.py if torch.compile compiled nothing.
WITHOUT_GRAPH = "nothing that Dynamo makes a graph of"


class Summary:
    """Counts of the results of a run."""

    def __init__(self, out):
        self.counts = collections.Counter()
        self.differentiable = collections.Counter()  # of samples that have gradients
        self.operators = set()
        self.refused = {}  # by reason: samples by operator
        self.failed = {}  # by operator and what: places
        for record in results_in(out):
            self.add(record)

    def add(self, record):
        name, dtype = record["case"]
        self.operators.add(name)
        for result in record["results"]:
            status = result["status"]
            self.counts[status] += 1
            if record["differentiable"]:
                self.differentiable[status] += 1
            kind, detail = result.get("kind", ""), re.sub(r"[0-9]+", "N", result.get("detail", ""))
            if status == "refused":
                self.refused.setdefault(reason_of(kind, detail), collections.Counter())[name] += 1
            if status in ("failed", "crashed"):
                place = f"{dtype} {result['sample']}"
                self.failed.setdefault((name, f"{kind}: {detail[:160]}"), []).append(place)

    def percent(self, status, counts=None):
        counts = counts or self.counts
        tried = sum(counts[s] for s in STATUSES[:4])
        return 100 * counts[status] / max(tried, 1)

    def reasons(self):
        return sorted(self.refused.items(), key=lambda item: (-sum(item[1].values()), item[0]))


def reason_of(kind, detail):
    """The part of a refusal that says what was found, without the operator, which is listed separately."""
    found = re.search(r"found (.*?)(, called at|, at |;|$)", detail)
    text = found.group(1) if found else detail
    return re.sub(r"^aten::\w+, which needs", "an operator that needs", text)[:120] or kind


def listed(names, most=8):
    names = [name for name, _ in names.most_common()]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def rows_of(summary):
    failed = summary.counts["failed"] + summary.counts["crashed"]
    for metric, value, limit in (
        ("silent_differences", failed, 0),
        ("pass_percent", summary.percent("passed"), None),
        ("refused_percent", summary.percent("refused"), None),
        ("refused_percent_with_gradients", summary.percent("refused", summary.differentiable), 5),
    ):
        row = {"bench": "conformance", "case": "op_db", "metric": metric, "value": value, "unit": ""}
        yield row if limit is None else row | {"limit": limit}


def page_of(summary, dynamo):
    lines = [
        "# Conformance",
        "",
        "After reading this page you know how many of PyTorch's operator tests give the results of eager mode, and which are refused.",
        "Made by `tests/conformance/op_db.py report`; do not edit.",
        "",
        f"The tests are PyTorch's databases of operators and modules (`op_db` and `module_db` of torch {torch.__version__.split('+')[0]}). They run through",
        f"`antegrad.compile` on the CPU with {', '.join(DTYPES)}. Results with their strides, gradients and written inputs are",
        "compared with eager mode, bit for bit. No call may run eagerly, and all shapes must equal those of the real kernels",
        "([operators.md](operators.md)). [conformance_models.md](conformance_models.md) has whole models, trained for some steps.",
        "",
        "| samples | all | with gradients |",
        "|---|---:|---:|",
    ]
    words = {"passed": "as in eager", "refused": "refused by a typed error", "failed": "**differ**", "crashed": "**crash**",
             "not in eager": "not tried, since eager refuses them"}
    for status in STATUSES:
        lines.append(f"| {words[status]} | {summary.counts[status]:,} | {summary.differentiable[status]:,} |")
    lines += [
        f"| as in eager, of those tried | {summary.percent('passed'):.2f} % | "
        f"{summary.percent('passed', summary.differentiable):.2f} % |",
        f"| refused | {summary.percent('refused'):.2f} % | {summary.percent('refused', summary.differentiable):.2f} % |",
        "",
        f"There are {len(summary.operators)} operators and modules. These are compared with a tolerance ([accuracy.md](accuracy.md)): "
        + ", ".join(f"`{name}`" for name in ROUNDED) + ". The values of these are not compared, since they are uninitialised memory: "
        + ", ".join(f"`{name}`" for name in UNINITIALISED) + ".",
        "",
        "## Refused",
        "",
        "| samples | what was found | operators |",
        "|---:|---|---|",
    ]
    for reason, names in summary.reasons():
        lines.append(f"| {sum(names.values()):,} | {reason.replace('|', chr(92) + '|')} | {listed(names, 12)} |")
    if dynamo:
        graphless = sum(sum(names.values()) for reason, names in dynamo.reasons() if reason == WITHOUT_GRAPH)
        lines += [
            "",
            "## Through torch.compile",
            "",
            f"Every tenth operator and dtype runs through `torch.compile(..., backend=\"antegrad\")`. Of "
            f"{sum(dynamo.counts[s] for s in STATUSES[:4]):,} samples {dynamo.counts['passed']:,} are as in eager. "
            f"For {graphless:,} Dynamo makes no graph, so nothing is compiled. "
            f"Refused: {dynamo.counts['refused'] - graphless:,}. "
            f"Differ or crash: {dynamo.counts['failed'] + dynamo.counts['crashed']:,}.",
        ]
    if summary.failed:
        lines += ["", "## Failed", "", "| operator | what | samples |", "|---|---|---|"]
        for (name, text), places in sorted(summary.failed.items()):
            lines.append(f"| {name} | {text.replace('|', chr(92) + '|')} | {len(places)} |")
    return "\n".join(lines) + "\n"
