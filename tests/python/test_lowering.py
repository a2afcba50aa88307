"""Generated kernels from Python: the option, and what happens on machines that cannot make kernels."""

import os
import stat
import subprocess
import sys

import pytest
import torch

import antegrad

TRAINING = """
import torch, antegrad
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 8))
x = torch.randn(33, 8)
def loss(x): return ((model(x).sigmoid() * x).exp() + x * 2).sum()
def gradients(step):
    model.zero_grad()
    step(x).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]
step = antegrad.compile(loss, lowering="exact", keep_slow_kernels=True)
assert all(torch.equal(a, b) for a, b in zip(gradients(step), gradients(loss)))
program = step.report().programs[0]
print(len(program.generated_kernels), program.lowering_failure)
for reason in program.not_generated: print(reason)
"""


def train(tmp_path, before="", after="", **environment):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **environment}
    program = f"import antegrad\n{before}\n{TRAINING}\n{after}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def test_lowered_training_has_eagers_bits(tmp_path):
    done = train(tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 2
    assert any(name.endswith(".so") for name in os.listdir(tmp_path / "antegrad" / "kernels"))


def test_without_a_compiler_libtorchs_kernels_run(tmp_path):
    done = train(tmp_path, PATH="", CC="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 no_compiler: ")
    assert done.stderr.count("libtorch's kernels run instead") == 1


def test_kernels_travel_in_a_file(tmp_path):
    file = str(tmp_path / "app.bundle")
    saved = train(tmp_path, after=f"antegrad.save_bundle({file!r})")
    assert saved.returncode == 0, saved.stderr
    loaded = train("/proc/none", before=f"antegrad.load_bundle({file!r})", PATH="", CC="")
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout == saved.stdout
    with pytest.raises(antegrad.InputError, match="No such file"):
        antegrad.load_bundle(str(tmp_path / "none"))


def test_a_compiler_that_fails_is_named(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1.0 && exit\necho "no disk" >&2\nexit 3\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    done = train(tmp_path, CC=str(compiler))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 ")
    assert "compiler_failed" in done.stdout and "no disk" in done.stdout


def test_a_folder_that_others_can_write_is_not_used(tmp_path):
    folder = tmp_path / "antegrad" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    done = train(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 ") and "folder_refused" in done.stdout


def test_a_program_shows_its_kernels():
    step = antegrad.compile(lambda x: (x.sigmoid() * x).exp().sum(), lowering="exact", keep_slow_kernels=True)
    step(torch.randn(33, 8, requires_grad=True)).backward()
    program = step.report().programs[0]
    lines = program.kernel_table().splitlines()
    assert lines[0].split() == ["runs", "us", "library", "us", "GB/s", "phase", "operators"]
    assert len(lines) == 1 + len(program.generated_kernels) >= 3
    assert any("forward" in line and "sigmoid.default, mul.Tensor, exp.default" in line for line in lines)
    saved = [kernel.library_microseconds - kernel.microseconds for kernel in program.generated_kernels]
    shown = [float(line.split()[2]) - float(line.split()[1]) for line in lines[1:]]
    assert shown == pytest.approx(sorted(saved, reverse=True), abs=0.2)


def test_equal_kernels_are_one_line_of_the_table():
    def blocks(x):
        for _ in range(3):
            x = (x.sigmoid() * x).exp().sum(1, keepdim=True).expand(33, 8).sin()
        return x.sum()

    step = antegrad.compile(blocks, lowering="exact", keep_slow_kernels=True)
    step(torch.randn(33, 8))
    program = step.report().programs[0]
    runs = [int(line.split()[0]) for line in program.kernel_table().splitlines()[1:]]
    assert sum(runs) == len(program.generated_kernels)


def test_without_kernels_the_table_is_empty():
    step = antegrad.compile(lambda x: x.exp().sum(), lowering="off")
    step(torch.randn(3, requires_grad=True)).backward()
    assert len(step.report().programs[0].kernel_table().splitlines()) == 1


def test_unknown_words_are_refused():
    with pytest.raises(antegrad.OptionError, match="off, exact, close"):
        antegrad.compile(torch.sin, lowering="fast")
