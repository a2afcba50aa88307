"""Prints results/*/*.txt as tables, one a CPU: operator and element type by capability."""

import pathlib
import re

from recipes import CAPABILITIES

RESULTS = pathlib.Path(__file__).parent / "results"
LINE = re.compile(r"(?P<name>[^#].*?):?\s+(?P<verdict>exact|\d+ (of \d+ )?differ|ATen refuses)")


def read(folder, kind):
    """What each line of a program's results on a CPU said, by capability."""
    table = {}
    for capability in CAPABILITIES:
        path = folder / f"{kind}.{capability}.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            match = LINE.match(line)
            if match:
                verdict = "differs" if "differ" in match["verdict"] else match["verdict"]
                table.setdefault(match["name"], {})[capability] = verdict
    return table


def main():
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        for kind in ("pointwise", "floats"):
            print(f"# {folder.name}: {kind}\n{'':40s}" + "".join(f"{c:9s}" for c in CAPABILITIES).rstrip())
            for name, verdicts in read(folder, kind).items():
                print(f"{name:40s}" + "".join(f"{verdicts.get(c, '-'):9s}" for c in CAPABILITIES).rstrip())


if __name__ == "__main__":
    main()
