"""Compares the kernels of casts from float32 to integers and bool with ATen, over all 2^32 inputs."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch

from check_groups import FLAGS, TYPES, run_kernel
from program import header, load, onednn_level, parsed

PART = 1 << 22
RESULTS = ("i64", "i32", "u8", "bool")


class Cast:
    """The graph of one cast, as text, and its input."""

    def __init__(self, result):
        self.result = result
        self.inputs = [(0, torch.empty(PART))]

    def text(self):
        none = "layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none"
        return f"""antegrad.graph 1 "cast"
inputs
  %0: f32[{PART}]{{1}} primal argument 0
nodes
  %1: {self.result}[{PART}]{{1}} = aten::_to_copy.default(%0, dtype={self.result}, {none})
outputs
  %1 result
----
"""


def differing(library, line, cast, step):
    """How many results differ, and the first of them."""
    wrong, first = 0, ""
    for low in range(-(2**31), 2**31, PART * step):
        patterns = torch.arange(low, low + PART * step, step, dtype=torch.int64)
        x = patterns.to(torch.int32).view(torch.float32)
        cast.inputs = [(0, x)]
        expected = x.to(TYPES[cast.result])
        found = run_kernel(library, line, cast, 1, {1: expected})[1]
        bad = expected != found
        if bad.any() and not wrong:
            at = int(bad.nonzero()[0])
            first = f"; of {x[at].item()!r} ATen makes {expected[at].item()!r}, the kernel {found[at].item()!r}"
        wrong += int(bad.sum())
    return wrong, first


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program group_kernels")
    parser.add_argument("--every", type=int, default=1, help="every n-th input only; a power of two")
    options = parsed(parser)
    torch.set_num_threads(1)
    casts = [Cast(result) for result in RESULTS]
    source = pathlib.Path(tempfile.mkdtemp(prefix="check_casts_")) / "kernels.c"
    made = subprocess.run(
        [options.tool, options.capability, str(onednn_level()), source, "1", "exact"],
        input="".join(cast.text() for cast in casts),
        text=True,
        capture_output=True,
        check=True,
    )
    library = load(source, options.capability, FLAGS)
    print(header(options.capability), flush=True)
    failed = False
    for cast, line in zip(casts, made.stdout.splitlines(), strict=True):
        if line.startswith("no "):
            wrong, first = 1, f"; {line}"
        else:
            wrong, first = differing(library, line, cast, options.every)
        print(f"{'to_' + cast.result:10s} {f'{wrong} differ{first}' if wrong else 'exact'}", flush=True)
        failed |= wrong > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
