"""python -m antegrad is the command-line tool."""

import subprocess
import sys

import torch

import antegrad


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "antegrad", *map(str, arguments)], capture_output=True, text=True, **options)


def test_it_is_the_tool():
    shown = run("--version")
    assert shown.returncode == 0 and shown.stdout == f"antegrad {antegrad.__version__}\n", shown.stderr
    helped = run("--help")
    assert helped.returncode == 0 and "timeline" in helped.stdout and "Exit codes" in helped.stdout


def test_exit_codes_and_standard_input_are_passed_on(tmp_path):
    wrong = run("no_such_command")
    assert wrong.returncode == 2 and not wrong.stdout
    malformed = run("verify", "-", input="no graph")
    assert malformed.returncode == 1 and malformed.stderr.startswith("antegrad: ")
    step = antegrad.compile(lambda x: x.exp().sum())
    step(torch.randn(3, requires_grad=True)).backward()
    step.save_graph(tmp_path / "step.agraph")
    assert run("verify", tmp_path / "step.agraph").returncode == 0
