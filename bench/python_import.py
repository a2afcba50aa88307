#!/usr/bin/env python3
"""The time that importing antegrad adds to importing torch.

    python_import.py --out FILE [--quick] [--threads N]

The least of several processes, after one that fills the file cache. Peer: importing torch. Writes rows for scripts/bench_table.
"""

import argparse
import json
import platform
import subprocess
import sys

CODE = """
import time
start = time.perf_counter()
import torch
between = time.perf_counter()
import antegrad
print(between - start, time.perf_counter() - between)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    runs = [[1e3 * float(word) for word in subprocess.check_output([sys.executable, "-c", CODE], text=True).split()]
            for _ in range(4 if arguments.quick else 11)]
    torch, antegrad = map(min, zip(*runs[1:]))
    row = {"bench": "overhead", "case": "python_import", "metric": "added_ms", "value": antegrad, "unit": "ms", "limit": 100,
           "peer": "import torch", "peer_value": torch, "ratio": antegrad / torch, "threads": arguments.threads,
           "cpu": platform.processor() or platform.machine()}
    with open(arguments.out, "w") as file:
        file.write(json.dumps(row) + "\n")
    print(f"overhead/python_import/added_ms = {antegrad:.4g} ms  ({row['peer']}: {torch:.4g})")


if __name__ == "__main__":
    sys.exit(main())
