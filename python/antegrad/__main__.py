"""`python -m antegrad`: the command line (docs/command-line.md), which is a program of its own in this package."""

import os
import pathlib
import sys


def _words(given):
    """A script that is to be minified is run by this Python."""
    scripts = [i for i, word in enumerate(given) if word.endswith(".py")]
    if given[:1] != ["minify"] or not scripts or "--" in given:
        return given
    return [*given[: scripts[0]], "--", sys.executable, *given[scripts[0]:]]


def main():
    program = pathlib.Path(__file__).with_name("bin") / "antegrad"
    os.execv(program, ["antegrad", *_words(sys.argv[1:])])


if __name__ == "__main__":
    main()
