#!/usr/bin/env python3
"""The time that importing antegrad adds to importing torch.

    python_import.py --out FILE [--quick] [--threads N]

The least of several processes, after one that fills the file cache. Peer: importing torch. Writes rows for scripts/bench_table.
"""

import subprocess
import sys

from common.program import arguments_of, write

CODE = """
import time
start = time.perf_counter()
import torch
between = time.perf_counter()
import antegrad
print(between - start, time.perf_counter() - between)
"""


def main():
    arguments = arguments_of(__doc__)
    runs = [[1e3 * float(word) for word in subprocess.check_output([sys.executable, "-c", CODE], text=True).split()]
            for _ in range(4 if arguments.quick else 11)]
    torch, antegrad = map(min, zip(*runs[1:]))
    row = {"bench": "overhead", "case": "python_import", "metric": "added_ms", "value": antegrad, "unit": "ms", "limit": 100,
           "peer": "import torch", "peer_value": torch, "ratio": antegrad / torch}
    write(arguments, [row])


if __name__ == "__main__":
    sys.exit(main())
