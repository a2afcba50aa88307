#!/usr/bin/env python3
"""PyTorch's own databases of operators and modules through antegrad.compile, against eager.

Every operator, dtype and sample input of torch.testing's op_db and module_db runs eagerly and compiled: results, their strides,
gradients and written inputs must be the same to the bit, and no call may have run eagerly; or the call is refused by a
typed error. All else is a failure, a crash included.

    op_db.py run --out DIR [--part K/N] [--jobs J] [--only REGEX] [--cross-check] [--fresh]    goes on where it stopped
    op_db.py report DIR [--page FILE] [--bench FILE]       counts, refusals by reason, failures; writes docs/conformance.md,
                        [--operators FILE]                 rows for scripts/bench_table, and docs/operators.md

`--part 0/10` takes every tenth operator and dtype. Results are lines of JSON in DIR, one a sample.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import threading
import time

import operators
from samples import cases_of, worker
from summary import STATUSES, Summary, listed, page_of, rows_of

SECONDS_A_CASE = 300  # for all samples of an operator and dtype


class Worker:
    def __init__(self, way):
        self.process = None
        self.way = way

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        self.process.stdout.readline()

    def run(self, case):
        """Whether a case is differentiable, the results of all its samples, and counts of shape checks; the sample
        at which the process dies or stops is a crash."""
        if self.process is None:
            self.start()
        process = self.process
        timer = threading.Timer(SECONDS_A_CASE, process.kill)
        timer.start()
        results, begun, differentiable = [], None, False
        try:
            process.stdin.write(json.dumps([case, self.way]) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                result = json.loads(line)
                if "end" in result:
                    return differentiable, results, result["shapes"]
                if "differentiable" in result:
                    differentiable = result["differentiable"]
                elif "begin" in result:
                    begun = result["begin"]
                else:
                    results.append(result)
                    begun = None
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        code = process.wait()
        self.process = None
        results.append({"sample": begun, "status": "crashed", "kind": f"exit {code}", "detail": "after sample "
                        f"{len(results) - 1}" if begun is None else ""})
        return differentiable, results, []


def run(arguments):
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "results.jsonl"
    if arguments.fresh:
        file.unlink(missing_ok=True)
    done = {tuple(json.loads(line)["case"]) for line in file.open()} if file.exists() else set()
    cases = [c for c in cases_of(arguments.part, arguments.only) if c not in done]
    if done:
        print(f"{len(done)} cases are there already", flush=True)
    local, lock = threading.local(), threading.Lock()
    counts = collections.Counter()
    start = time.monotonic()

    def one(case):
        if not hasattr(local, "worker"):
            local.worker = Worker({"through": arguments.through, "cross_check": arguments.cross_check})
        differentiable, results, shapes = local.worker.run(case)
        with lock:
            with file.open("a") as f:
                f.write(json.dumps({"case": case, "differentiable": differentiable, "results": results,
                                    "shapes": shapes}) + "\n")
            counts.update(r["status"] for r in results)
            counts["cases"] += 1
            if counts["cases"] % 50 == 0 or counts["cases"] == len(cases):
                took = time.monotonic() - start
                print(f"{counts['cases']}/{len(cases)} cases, {sum(counts.values()) - counts['cases']} samples in "
                      f"{took:.0f} s: " + ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]), flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(one, cases):
            pass
    return report_of(out)


def report_of(out, page=None, bench=None, dynamo=None, operators_page=None):
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
        pathlib.Path(page).write_text(page_of(summary, Summary(dynamo) if dynamo else None))
    if operators_page:
        pathlib.Path(operators_page).write_text(operators.page_of(out))
    if bench:
        pathlib.Path(bench).write_text("".join(json.dumps(row) + "\n" for row in rows_of(summary)))
    return 1 if summary.failed else 0


def part(text):
    k, n = map(int, text.split("/"))
    if not 0 <= k < n:
        raise argparse.ArgumentTypeError(f"expected K/N with 0 <= K < N, found {text}")
    return k, n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run what has not been run yet")
    running.add_argument("--out", required=True)
    running.add_argument("--part", type=part, default=(0, 1), metavar="K/N")
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument("--through", choices=("compile", "dynamo"), default="compile",
                         help="antegrad.compile, or torch.compile with antegrad as its backend (some samples of each)")
    running.add_argument("--cross-check", nargs="?", const="error", default="off", choices=("off", "error", "use_kernel"),
                         help="compare all shapes with what real kernels return; a difference is a failure")
    running.add_argument("--fresh", action="store_true", help="forget what is there")
    running.add_argument("--only", default="", metavar="REGEX")
    reporting = commands.add_parser("report", help="what a run found")
    reporting.add_argument("out")
    reporting.add_argument("--dynamo", type=pathlib.Path, metavar="DIR", help="a run through Dynamo, for the page")
    reporting.add_argument("--page")
    reporting.add_argument("--bench")
    reporting.add_argument("--operators", help="docs/operators.md, after a run with --cross-check")
    commands.add_parser("worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.command == "worker":
        return worker()
    if arguments.command == "run":
        return run(arguments)
    return report_of(pathlib.Path(arguments.out), arguments.page, arguments.bench, arguments.dynamo,
                     arguments.operators)


if __name__ == "__main__":
    sys.exit(main())
