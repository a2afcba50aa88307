"""What the Python programs of bench/ share: their command line, and rows for scripts/bench_table."""

import argparse
import json
import platform


def arguments_of(description, add=lambda parser: None):
    """`add` adds options of the program's own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--threads", type=int, default=2)
    add(parser)
    return parser.parse_args()


def write(arguments, rows):
    """Writes the rows, each with what all have in common, and prints them."""
    common = {"threads": arguments.threads, "cpu": platform.processor() or platform.machine()}
    with open(arguments.out, "w") as file:
        for row in rows:
            file.write(json.dumps(row | common) + "\n")
            name = f"{row['bench']}/{row['case']}/{row['metric']}"
            beside = f"  ({row['peer']}: {row['peer_value']:.4g})" if "peer" in row else ""
            print(f"{name} = {row['value']:.4g} {row['unit']}{beside}")
