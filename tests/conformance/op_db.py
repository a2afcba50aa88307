#!/usr/bin/env python3
"""Runs PyTorch's databases of operators and modules through antegrad.compile and compares with eager.

Every operator, dtype and sample input of torch.testing's op_db and module_db runs eagerly and compiled. Results, their strides,
gradients and written inputs must be equal bit for bit, and no call may have run eagerly; or the call is refused by a typed
error. Everything else is a failure, crashes included.

    op_db.py run --out DIR [--part K/N] [--jobs J] [--only REGEX] [--cross-check] [--fresh]    resumes where it stopped
    op_db.py report DIR [--page FILE] [--bench FILE]       counts, refusals by reason, failures; writes docs/conformance.md,
                        [--operators FILE] [--kernels FILE]    rows for scripts/bench_table, docs/operators.md, and
                                                           docs/operators-with-kernels.md

`--part 0/10` takes every tenth operator and dtype. Results are lines of JSON in DIR, one per sample.
"""

import argparse
import collections
import pathlib
import sys

import kernels
import operators
from contained import command_line, run_cases, serve, write_rows
from outcome import STATUSES
from samples import answers_of, cases_of
from summary import Summary, listed, page_of, rows_of

SECONDS_A_CASE = 300  # for all samples of an operator and dtype


def record_of(answers):
    """The results of all samples of a case, and counts of shape checks. The sample at which the process died or hung is
    a crash."""
    results, begun, differentiable, shapes, kernels = [], None, False, [], []
    for answer in answers:
        if "differentiable" in answer:
            differentiable = answer["differentiable"]
        elif "begin" in answer:
            begun = answer["begin"]
        elif "shapes" in answer:
            shapes = answer["shapes"]
        elif "kernels" in answer:
            kernels = answer["kernels"]
        elif "crashed" in answer:
            detail = f"after sample {len(results) - 1}" if begun is None else ""
            results.append({"sample": begun, "status": "crashed", "kind": answer["crashed"], "detail": detail})
        else:
            results.append(answer)
            begun = None
    return {"differentiable": differentiable, "results": results, "shapes": shapes, "kernels": kernels}


def run(arguments):
    counts = collections.Counter()

    way = {"through": arguments.through, "cross_check": arguments.cross_check, "lowering": arguments.lowering}

    def progress(record, number, total, seconds):
        counts.update(r["status"] for r in record["results"])
        if number % 50 == 0 or number == total:
            print(f"{number}/{total} cases, {sum(counts.values())} samples in {seconds:.0f} s: "
                  + ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]), flush=True)

    run_cases(__file__, cases_of(arguments.part, arguments.only), arguments, seconds=SECONDS_A_CASE,
              request=lambda case: [case, way], record=record_of, progress=progress)
    return report_of(arguments.out)


def report_of(out, page=None, bench=None, dynamo=None, operators_page=None, kernels_page=None):
    summary = Summary(out)
    print(", ".join(f"{summary.counts[s]} {s}" for s in STATUSES))
    for reason, names in summary.reasons():
        print(f"refused {sum(names.values())}: {reason} ({listed(names)})")
    for (name, text), places in sorted(summary.failed.items()):
        print(f"FAILED {name}: {text} [{len(places)}: {', '.join(places[:3])}]")
    print(f"{sum(summary.counts.values())} samples of {len(summary.operators)} operators: "
          f"{summary.percent('passed'):.2f} % pass, {summary.percent('refused'):.2f} % refused "
          f"({summary.percent('refused', summary.differentiable):.2f} % of those with gradients)")
    if page:
        page.write_text(page_of(summary, Summary(dynamo) if dynamo else None))
    if operators_page:
        operators_page.write_text(operators.page_of(out))
    if kernels_page:
        kernels_page.write_text(kernels.page_of(out))
    if bench:
        write_rows(bench, rows_of(summary))
    return 1 if summary.failed else 0


def part(text):
    k, n = map(int, text.split("/"))
    if not 0 <= k < n:
        raise argparse.ArgumentTypeError(f"expected K/N with 0 <= K < N, found {text}")
    return k, n


def main():
    parser, running, reporting = command_line(__doc__)
    running.add_argument("--part", type=part, default=(0, 1), metavar="K/N")
    running.add_argument("--through", choices=("compile", "dynamo"), default="compile",
                         help="antegrad.compile, or torch.compile with antegrad as its backend")
    running.add_argument("--cross-check", nargs="?", const="error", default="off", choices=("off", "error", "use_kernel"),
                         help="compare all shapes with what real kernels return; a difference is a failure")
    running.add_argument("--lowering", choices=("off", "exact"), default="off", help="with generated kernels, also of small nodes")
    reporting.add_argument("--dynamo", type=pathlib.Path, metavar="DIR", help="a run through Dynamo, for the page")
    reporting.add_argument("--operators", type=pathlib.Path, help="docs/operators.md, after a run with --cross-check")
    reporting.add_argument("--kernels", type=pathlib.Path,
                           help="docs/operators-with-kernels.md, after a run with --cross-check and --lowering exact")
    arguments = parser.parse_args()
    if arguments.command == "worker":
        return serve(answers_of)
    if arguments.command == "run":
        return run(arguments)
    return report_of(arguments.out, arguments.page, arguments.bench, arguments.dynamo, arguments.operators,
                     arguments.kernels)


if __name__ == "__main__":
    sys.exit(main())
