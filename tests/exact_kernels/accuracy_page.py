"""Writes docs/operator-accuracy.md from the results of check_operators.py: `python accuracy_page.py`."""

import pathlib
import re

from cases import NO_CLOSE_KERNEL
from recipes import CAPABILITIES, DTYPES, INTEGERS, ROOT, read

RESULTS = pathlib.Path(__file__).parent / "results"
PAGE = ROOT / "docs/operator-accuracy.md"
LINE = re.compile(r"(?P<name>\w+) +(?P<dtype>\w+) +(?:equal|mean (\S+) (\S+) largest (\S+) (\S+))$")
TITLES = {"pointwise.txt": "Pointwise operators", "rows.txt": "Reductions"}
SHOWN = tuple(reversed(CAPABILITIES))
HEAD = """# Accuracy by operator

After reading this page you know how large the errors of each operator are at `lowering=close`, beside those of eager mode.
Made by `make accuracy` (`tests/exact_kernels/check_operators.py`, `tests/exact_kernels/accuracy_page.py`); do not edit.

Each operator runs alone, as a kernel of the level [`close`](lowering.md#close) and as libtorch's kernel, and both are compared with
float64; float64 itself is compared with 64-bit significands (x87). The rule is that of the [proof](lowering.md#proof) that each kernel passes
before it is used, and `check_operators.py` fails where an operator breaks it. For float64 it is stricter than a proof, which has no wider type.

A cell tells eager's error, then that of the kernel where it is another: `0.410 → 0.402`. *mean* is that of log2(1 + error), *largest*
the largest error, both in units of the last place of the exact element. `equal`: the results
are integers or bools, and the same. `none`: no kernel of the level for such operands, since another row computes the operator, or none. These are errors of
contiguous operands, 1000 and 40,001 elements or 64 to 300 rows of 100 to 768 elements, of normally distributed numbers of three sizes.
The check also looks at infinities, NaNs, zeros of both signs, denormal numbers and all bit patterns, and without `--quick` at other lengths,
rows of up to 9001 elements, broadcast and transposed operands, and every second element.
"""


def cells(match):
    if match is None:
        return "none", ""
    if match[3] is None:
        return "equal", ""
    pairs = (match[3], match[4]), (match[5], match[6])
    return tuple(eager if eager == kernel else f"{eager} → {kernel}" for eager, kernel in pairs)


def results(folder):
    """Cells by capability, operator and element type; and the first line of a file."""
    found, head = {}, ""
    for capability in CAPABILITIES:
        head, *lines = (folder / f"operators.{capability}.txt").read_text().splitlines()
        for match in map(LINE.match, lines):
            found[capability, match["name"], match["dtype"]] = cells(match)
    return found, head


def rows(operator, found):
    """Cells of an operator, by the element types that share them."""
    grouped = {}
    for dtype in (*DTYPES, *INTEGERS):
        if not any(operator.close_row(dtype, capability) for capability in CAPABILITIES):
            continue
        none = cells(None) if operator.name in NO_CLOSE_KERNEL else None
        line = tuple(none or found[capability, operator.name, dtype] for capability in SHOWN)
        grouped.setdefault(line, []).append(dtype)
    for line, dtypes in grouped.items():
        flat = " | ".join(cell for pair in line for cell in pair)
        yield f"| `{operator.name}` | {' '.join(dtypes)} | {flat} |"


def page(folder):
    found, head = results(folder)
    _, torch, cpu = re.match(r"(# )(torch \S+), .*oneDNN level \d, (.*)", head).groups()
    lines = [HEAD, f"Measured with {torch} on an {cpu}.", ""]
    for file, title in TITLES.items():
        titles = " | ".join(f"{capability}: mean | largest" for capability in SHOWN)
        lines += [f"## {title}", "", f"| operator | types | {titles} |", "|---|---|" + "---:|" * 6]
        for operator in read(file).values():
            lines += rows(operator, found)
        lines.append("")
    return "\n".join(lines)


def main():
    # Of several CPUs, the first one whose results are there.
    folder = next(p.parent for p in sorted(RESULTS.glob("*/operators.default.txt")))
    PAGE.write_text(page(folder))


if __name__ == "__main__":
    main()
