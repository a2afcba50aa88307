"""`python -m antegrad`: the command line (docs/command-line.md), which is a program of its own in this package."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).with_name("bin") / "antegrad"
    os.execv(program, ["antegrad", *sys.argv[1:]])


if __name__ == "__main__":
    main()
