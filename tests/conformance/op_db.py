#!/usr/bin/env python3
"""PyTorch's own operator database through antegrad.compile, against eager.

Every operator, dtype and sample input of torch.testing's op_db runs eagerly and compiled: results, their strides,
gradients and written inputs must be the same to the bit, and no call may have run eagerly; or the call is refused by a
typed error. All else is a failure, a crash included.

    op_db.py run --out DIR [--part K/N] [--jobs J] [--only REGEX] [--fresh]    goes on where it stopped
    op_db.py report DIR [--page FILE] [--bench FILE]       counts, refusals by reason, failures; writes docs/conformance.md
                                                           and rows for scripts/bench_table

`--part 0/10` takes every tenth operator and dtype. Results are lines of JSON in DIR, one a sample.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import warnings

DTYPES = ("float32", "float64", "bfloat16", "int64")
MOST_SAMPLES = 400  # of one operator and dtype
MOST_SAMPLES_OF_DYNAMO = 4  # every fifth; each takes Dynamo tenths of a second
SECONDS_A_CASE = 300  # for all samples of an operator and dtype


# ---- One process that runs cases: names come in on standard input, results go out as lines of JSON.


def worker():
    import torch

    import antegrad

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    by_name = {name_of(op): op for op in op_db()}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        (name, dtype), through = json.loads(line)
        for result in run_case(torch, antegrad, by_name[name], getattr(torch, dtype), through):
            print(json.dumps(result), flush=True)
        print(json.dumps({"end": True}), flush=True)


def run_case(torch, antegrad, op, dtype, through):
    import torch.utils._pytree as pytree

    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    yield {"differentiable": differentiable}
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    most, every = (MOST_SAMPLES, 1) if through == "compile" else (MOST_SAMPLES_OF_DYNAMO, 5)
    for number, sample in enumerate(samples):
        if number >= most * every:
            return
        if number % every != 0:
            continue
        yield {"begin": number}
        yield {"sample": number, **run_sample(torch, antegrad, pytree, op, sample, through)}


def compile_by(through, torch, antegrad, function):
    if through == "compile":
        return antegrad.compile(function)
    torch._dynamo.reset()
    return torch.compile(function, backend=antegrad.backend, dynamic=False)


def run_sample(torch, antegrad, pytree, op, sample, through):
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors):
        filled = list(leaves)
        for place, tensor in zip(places, tensors):
            filled[place] = tensor
        value, args, kwargs = pytree.tree_unflatten(filled, structure)
        return op.op(value, *args, **kwargs)

    def outcome(call):
        tensors = [copy_of(torch, leaves[i]) for i in places]
        torch.manual_seed(1)
        result = call(*tensors)
        found = [t for t in pytree.tree_leaves(result)]
        roots = [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        gradients = []
        if roots and wanted:
            generator = torch.Generator().manual_seed(2)
            tangents = [
                torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.dtype) for r in roots
            ]
            gradients = torch.autograd.grad(roots, wanted, tangents, allow_unused=True)
        return found, gradients, tensors

    try:
        expected = outcome(function)
    except Exception as error:  # eager refuses the sample, or its backward
        return {"status": "not in eager", "detail": first_line(error)}
    compiled = compile_by(through, torch, antegrad, function)
    try:
        found = outcome(compiled)
    except antegrad.CaptureError as error:
        return {"status": "refused", "kind": type(error).__name__, "detail": first_line(error)}
    except Exception as error:
        refused = re.match(r"(aten::\w+: |data_ptr: )?expected .*; found ", str(error).replace("\n", " "))
        status = "refused" if refused else "failed"
        return {"status": status, "kind": type(error).__name__, "detail": first_line(error)}
    if through == "dynamo" and not antegrad._dynamo.functions_of(compiled):
        return {"status": "refused", "kind": "Dynamo", "detail": "found nothing that Dynamo makes a graph of"}
    reports = antegrad.report(compiled)
    if any(r.eager_calls for r in (reports if isinstance(reports, list) else [reports])):
        return {"status": "failed", "kind": "eager call", "detail": ""}
    for what, a, b in zip(("result", "gradient", "input"), found, expected):
        if len(a) != len(b):
            return {"status": "failed", "kind": "different", "detail": f"{len(a)} {what}s, {len(b)} in eager"}
        for i, (x, y) in enumerate(zip(a, b)):
            difference = differ(torch, x, y, strides=what != "gradient", op=op.name)
            if difference:
                return {"status": "failed", "kind": f"{what} differs", "detail": f"{what} {i}: {difference}"}
    return {"status": "passed"}


def copy_of(torch, tensor):
    """A tensor like it with memory of its own, a leaf; with the same strides where its elements do not overlap."""
    with torch.no_grad():
        copy = tensor.detach().clone(memory_format=torch.preserve_format)
        if tensor.layout == torch.strided and copy.stride() != tensor.stride() and 0 not in tensor.stride():
            extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
            copy = torch.empty(extent, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride()).copy_(tensor)
    return copy.detach().requires_grad_(tensor.requires_grad)


# Formulas that take another path for stand-ins, which rounds differently (docs/accuracy.md).
ROUNDED = ("prod", "cumprod", "masked.prod", "masked_fill")
# Results that are whatever was in memory.
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def differ(torch, x, y, strides, op):
    rounded = () if op not in ROUNDED else (3e-2, 3e-2) if y is not None and y.dtype == torch.bfloat16 else (1e-4, 1e-4)
    if isinstance(y, torch.Tensor) != isinstance(x, torch.Tensor):
        return f"{type(x).__name__}, in eager {type(y).__name__}"
    if not isinstance(y, torch.Tensor):
        return "" if x is y or x == y or x != x and y != y else f"{x}, in eager {y}"
    for fact in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(x, fact) != getattr(y, fact):
            return f"{fact} {getattr(x, fact)}, in eager {getattr(y, fact)}"
    if strides and x.layout == torch.strided and x.numel() > 1 and x.stride() != y.stride():
        return f"strides {x.stride()}, in eager {y.stride()}"
    x, y = x.detach().resolve_conj().resolve_neg(), y.detach().resolve_conj().resolve_neg()
    if op in UNINITIALISED:
        return ""
    if x.layout != torch.strided:
        x, y = x.to_dense(), y.to_dense()
    if x.dtype == torch.complex32:
        x, y = x.to(torch.complex64), y.to(torch.complex64)
    if torch.equal(x, y):
        return ""
    if x.is_complex():
        x, y = torch.view_as_real(x.contiguous()), torch.view_as_real(y.contiguous())
    if x.is_floating_point() and torch.equal(x.isnan(), y.isnan()):
        x, y = x.nan_to_num(0, 1e30, -1e30), y.nan_to_num(0, 1e30, -1e30)
        if torch.equal(x, y) or rounded and torch.allclose(x, y, *rounded):
            return ""
        return f"values, by up to {(x.double() - y.double()).abs().max().item():g}"
    return "values"


def first_line(error):
    return str(error).strip().split("\n")[0][:300]


# ---- The database


def op_db():
    from torch.testing._internal import common_methods_invocations as database

    # Some operators are wrapped so that they draw after a seed of their own, which a capture refuses. The harness seeds.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return database.op_db


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def cases_of(part, only):
    import torch

    cases = []
    for op in op_db():
        for dtype in DTYPES:
            if getattr(torch, dtype) in op.supported_dtypes("cpu"):
                cases.append((name_of(op), dtype))
    k, n = part
    return [c for i, c in enumerate(sorted(set(cases))) if i % n == k and re.search(only, c[0])]


# ---- The run: workers, and what is left of a case when one dies


class Worker:
    def __init__(self, through):
        self.process = None
        self.through = through

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        self.process.stdout.readline()

    def run(self, case):
        """The results of all samples of a case; the one at which the process dies or stops is a crash."""
        if self.process is None:
            self.start()
        process = self.process
        timer = threading.Timer(SECONDS_A_CASE, process.kill)
        timer.start()
        results, begun, differentiable = [], None, False
        try:
            process.stdin.write(json.dumps([case, self.through]) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                result = json.loads(line)
                if "end" in result:
                    return differentiable, results
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
        return differentiable, results


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
            local.worker = Worker(arguments.through)
        differentiable, results = local.worker.run(case)
        with lock:
            with file.open("a") as f:
                f.write(json.dumps({"case": case, "differentiable": differentiable, "results": results}) + "\n")
            counts.update(r["status"] for r in results)
            counts["cases"] += 1
            if counts["cases"] % 50 == 0 or counts["cases"] == len(cases):
                took = time.monotonic() - start
                print(f"{counts['cases']}/{len(cases)} cases, {sum(counts.values()) - counts['cases']} samples in "
                      f"{took:.0f} s: " + ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]), flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(one, cases):
            pass
    return report_of(out, None, None)


STATUSES = ("passed", "refused", "failed", "crashed", "not in eager")


# ---- The report


class Summary:
    """Results of a run, counted."""

    def __init__(self, out):
        self.counts = collections.Counter()
        self.differentiable = collections.Counter()  # of samples that have gradients
        self.operators = set()
        self.refused = {}  # by reason: samples by operator
        self.failed = {}  # by operator and what: places
        for line in (out / "results.jsonl").open():
            self.add(json.loads(line))

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
    """What a refusal found, without the operator, which is told beside it."""
    found = re.search(r"found (.*?)(, called at|, at |;|$)", detail)
    text = found.group(1) if found else detail
    return re.sub(r"^aten::\w+, which needs", "an operator that needs", text)[:120] or kind


def report_of(out, page, bench, dynamo=None):
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
    if bench:
        pathlib.Path(bench).write_text("".join(json.dumps(row) + "\n" for row in rows_of(summary)))
    return 1 if summary.failed else 0


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
    import torch

    lines = [
        "# Conformance",
        "",
        "Made by `tests/conformance/op_db.py report`; do not edit.",
        "",
        f"PyTorch's own operator database (`op_db` of torch {torch.__version__.split('+')[0]}) through `antegrad.compile` on "
        f"the CPU, {', '.join(DTYPES)}:",
        "results with their strides, gradients and written inputs against eager, to the bit, with no call that ran eagerly.",
        "",
        "| samples | all | with gradients |",
        "|---|---:|---:|",
    ]
    words = {"passed": "as in eager", "refused": "refused by a typed error", "failed": "**differ**", "crashed": "**crash**",
             "not in eager": "not tried: eager refuses them"}
    for status in STATUSES:
        lines.append(f"| {words[status]} | {summary.counts[status]:,} | {summary.differentiable[status]:,} |")
    lines += [
        f"| as in eager, of those tried | {summary.percent('passed'):.2f} % | "
        f"{summary.percent('passed', summary.differentiable):.2f} % |",
        f"| refused | {summary.percent('refused'):.2f} % | {summary.percent('refused', summary.differentiable):.2f} % |",
        "",
        f"{len(summary.operators)} operators. Compared with a tolerance, for reasons that [accuracy.md](accuracy.md) gives: "
        + ", ".join(f"`{name}`" for name in ROUNDED) + ". Values not compared, since they are whatever was in memory: "
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
        lines += [
            "",
            "## Through torch.compile",
            "",
            f"Every tenth operator and dtype, some samples of each, by `torch.compile(..., backend=\"antegrad\")`: of "
            f"{sum(dynamo.counts[s] for s in STATUSES[:4]):,} samples {dynamo.counts['passed']:,} as in eager, "
            f"{dynamo.counts['refused']:,} refused or without a graph of Dynamo's, "
            f"{dynamo.counts['failed'] + dynamo.counts['crashed']:,} that differ or crash.",
        ]
    if summary.failed:
        lines += ["", "## Failed", "", "| operator | what | samples |", "|---|---|---|"]
        for (name, text), places in sorted(summary.failed.items()):
            lines.append(f"| {name} | {text.replace('|', chr(92) + '|')} | {len(places)} |")
    return "\n".join(lines) + "\n"


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
    running.add_argument("--fresh", action="store_true", help="forget what is there")
    running.add_argument("--only", default="", metavar="REGEX")
    reporting = commands.add_parser("report", help="what a run found")
    reporting.add_argument("out")
    reporting.add_argument("--dynamo", type=pathlib.Path, metavar="DIR", help="a run through Dynamo, for the page")
    reporting.add_argument("--page")
    reporting.add_argument("--bench")
    commands.add_parser("worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.command == "worker":
        return worker()
    if arguments.command == "run":
        return run(arguments)
    return report_of(pathlib.Path(arguments.out), arguments.page, arguments.bench, arguments.dynamo)


if __name__ == "__main__":
    sys.exit(main())
