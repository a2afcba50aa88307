"""python -m antegrad is the command-line tool."""

import os
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


def test_minify_runs_a_script_and_looks_at_all_its_graphs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import sys, torch, antegrad
step = antegrad.compile(lambda x: (x * 2).sigmoid().sum())
for size in map(int, sys.argv[1:]):
    step(torch.randn(size, requires_grad=True)).backward()
""")
    done = run("minify", "--seed", 3, script, 4, 5)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nothing fails in the 7 stages") == 2, done.stdout + done.stderr
    nothing = run("minify", "--", sys.executable, "-c", "pass")
    assert nothing.returncode == 2 and "compiled nothing" in nothing.stderr


def test_minify_writes_a_small_graph_and_a_script(tmp_path):
    wrong = tmp_path / "wrong.agraph"
    wrong.write_text("""antegrad.graph 1 "wrong"
inputs
  %0: f32[8, 6]  primal argument 0
nodes
  %1: f32[8, 6] = aten::exp.default(%0)
  %2: f64[8, 6] = aten::neg.default(%1)
  %3: f64[8, 6] = aten::sin.default(%2)
outputs
  %3 result
""")
    for first in (True, False):
        done = run("minify", wrong)
        assert done.returncode == 1, done.stderr
        assert "nodes        1 of 3" in done.stdout and "aten::neg" in done.stdout, done.stdout
        assert ("continues with" in done.stderr) is not first
    script = tmp_path / "wrong.small.sh"
    again = subprocess.run(["sh", script], capture_output=True, text=True,
                           env={**os.environ, "ANTEGRAD": f"{sys.executable} -m antegrad"})
    assert again.returncode == 1 and "fails in capture" in again.stderr, again.stderr
    right = wrong.read_text().replace("f64", "f32")
    assert run("minify", "-", "--check", input=right).returncode == 0
