"""Prints results/*.txt as one table: operator and element type by capability."""

import pathlib

from recipes import CAPABILITIES

RESULTS = pathlib.Path(__file__).parent / "results"


def read(kind):
    """What each row of a program said, by capability."""
    table = {}
    for capability in CAPABILITIES:
        path = RESULTS / f"{kind}.{capability}.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            verdict = "exact" if " exact" in line else "differs" if " differ" in line else ""
            if verdict and not line.startswith("#"):
                name = line[: line.rindex(" exact" if verdict == "exact" else line[38:])].rstrip(" :")
                name = " ".join(line.split()[:2]) if kind in ("pointwise", "floats") else name
                table.setdefault(name, {})[capability] = verdict
    return table


def main():
    for kind in ("pointwise", "reductions", "optimizers", "floats"):
        print(f"# {kind}\n{'':40s}" + "".join(f"{c:9s}" for c in CAPABILITIES))
        for name, verdicts in read(kind).items():
            print(f"{name:40s}" + "".join(f"{verdicts.get(c, '-'):9s}" for c in CAPABILITIES).rstrip())


if __name__ == "__main__":
    main()
