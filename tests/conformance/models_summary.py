"""Summary of trainings of models: counts, the page, rows for scripts/bench_table."""

import collections
import importlib.metadata
import re

import torch
from lockstep import STEPS

TITLES = {
    "plain": "Written here, in plain PyTorch",
    "transformers": "Of the transformers package",
}
OUTCOMES = {
    "passed": "as in eager", "as Dynamo": "as Dynamo's graphs run eagerly, which differ from eager",
    "refused": "refused by a typed error", "failed": "**differ or fail**", "crashed": "**crash**",
}
WAYS = {"compile": "`antegrad.compile`", "dynamo": "`torch.compile`"}


def counts_of(records):
    return collections.Counter(record["status"] for record in records)


def fails(record):
    """All differences from eager, except those allowed for third-party models."""
    let_pass = ("passed",) if record["case"][0] == "plain" else ("passed", "as Dynamo", "refused")
    return record["status"] not in let_pass


def rows_of(records):
    counts = counts_of(records)
    for metric, value, limit in (
        ("differ", counts["failed"] + counts["crashed"], 0),
        ("passed", counts["passed"], None),
        ("as_dynamo_alone", counts["as Dynamo"], None),
        ("refused", counts["refused"], None),
    ):
        row = {"bench": "conformance", "case": "models", "metric": metric, "value": value, "unit": ""}
        yield row if limit is None else row | {"limit": limit}


def page_of(records):
    version = torch.__version__.split("+")[0]
    lines = [
        "# Conformance of models",
        "",
        "After reading this page you know which models train bit for bit as in eager mode, and what capturing them costs.",
        "Made by `tests/conformance/models.py report`; do not edit.",
        "",
        f"Each model trains for {STEPS} steps on the CPU in float32, with torch {version}: forward, backward, a step of the optimiser.",
        "Two copies with equal weights step in turn, one eagerly and one compiled. They are compiled by `antegrad.compile` of the",
        "loss and by `torch.compile(..., backend=\"antegrad\")`. After each step the loss, all gradients with their strides,",
        "parameters and buffers, and the state of the generator are compared bit for bit. No call may run eagerly.",
        "",
        "| trainings | " + " | ".join(f"{WAYS[way]}" for way in WAYS) + " |",
        "|---|" + "---:|" * len(WAYS),
    ]
    counts = {way: counts_of([r for r in records if r["case"][2] == way]) for way in WAYS}
    for status, text in OUTCOMES.items():
        lines.append(f"| {text} | " + " | ".join(str(counts[way][status]) for way in WAYS) + " |")
    lines += [
        "",
        "In the tables below, *graphs* are Dynamo's graphs or compiled functions, *breaks* are Dynamo's, *nodes* are those of all",
        "joint graphs, and *ms* is the time of all captures and compilations of all programs, without Dynamo's own part.",
    ]
    if any(r["status"] == "as Dynamo" for r in records):
        lines += [
            "",
            "Some models compute something else while Dynamo traces them. If the compiled training differs from eager, it is compared",
            "with a training by `torch.compile(..., backend=\"eager\")`, also bit for bit: with Dynamo's graphs, and no compiler.",
        ]
    for group, title in TITLES.items():
        lines += ["", f"## {title}"]
        if group == "transformers":
            lines += ["", f"Version {importlib.metadata.version('transformers')}, tiny configurations with random weights."]
        lines += table_of([r for r in records if r["case"][0] == group])
    return "\n".join(lines) + "\n"


NUMBERS = {
    "parameters": "parameters", "graphs": "graphs", "graph_breaks": "breaks", "programs": "programs", "nodes": "nodes",
    "first_ms": "ms", "compiled_calls": "compiled calls", "eager_calls": "eager calls",
}


def table_of(records):
    lines = ["", f"| model | through | {' | '.join(NUMBERS.values())} | outcome |", f"|---|---|{'---:|' * len(NUMBERS)}---|"]
    for record in records:
        _, name, through = record["case"]
        numbers = [f"{record[key]:,.0f}" if key in record else "" for key in NUMBERS]
        outcome = OUTCOMES[record["status"]] + (f": {found_in(record['detail'])}" if "detail" in record else "")
        lines.append("| " + " | ".join([name, WAYS[through], *numbers, outcome]) + " |")
    return lines


def found_in(detail):
    """The part of a refusal that says what was found."""
    found = re.search(r"found (.*?)(, called at|, at |;|$)", detail)
    return (found.group(1) if found else detail).replace("|", r"\|")
