"""PyTorch's own data parallelism, with its models compiled by antegrad: the losses of eager mode, on several ranks."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
import torch.distributed

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="PyTorch was built without Gloo")

FOLDER = pathlib.Path(__file__).parent


def run(strategy, way, ranks, script="ranks.py"):
    """What each rank printed, and its status. PyTorch's groups sometimes wait forever when they start or end, also in eager
    mode; then the ranks run again."""
    for _ in range(3):
        try:
            return run_once(strategy, way, ranks, script)
        except subprocess.TimeoutExpired:
            pass
    pytest.fail(f"{strategy} on {ranks} ranks did not end in three attempts")


def run_once(strategy, way, ranks, script):
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        outputs = [open(f"{folder}/{rank}", "w+") for rank in range(ranks)]
        processes = [subprocess.Popen([sys.executable, FOLDER / script, strategy, way, str(rank), str(ranks), f"{folder}/store"],
                                      env=environment, stdout=outputs[rank], stderr=subprocess.STDOUT)
                     for rank in range(ranks)]
        try:
            statuses = [process.wait(timeout=90) for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [(pathlib.Path(output.name).read_text(), status) for output, status in zip(outputs, statuses)]


def losses(strategy, way, ranks):
    found = []
    for output, status in run(strategy, way, ranks):
        assert status == 0, output
        found += [json.loads(line.split(" ", 1)[1]) for line in output.splitlines() if line.startswith("losses ")]
    assert len(found) == ranks
    return found


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_losses_are_those_of_eager_mode(strategy, ranks):
    assert losses(strategy, "torch.compile", ranks) == losses(strategy, "eager", ranks)


def test_a_module_of_fsdp2_alone_is_refused_in_words():
    for output, status in run("fsdp2", "antegrad.compile", 2):
        assert status != 0
        assert "antegrad._C.CaptureError: FSDP2: expected a module without hooks" in output, output


# Functional collectives in compiled functions.
COLLECTIVES = ["reduced", "gathered", "gathered_columns", "scattered", "exchanged", "several", "megatron"]


def collectives(case, way):
    for output, status in run(case, way, 2, "collectives.py"):
        assert status == 0 and "equal" in output, output


@pytest.mark.parametrize("case", COLLECTIVES)
@pytest.mark.parametrize("way", ["antegrad.compile", "torch.compile"])
def test_collectives_are_those_of_eager_mode(case, way):
    collectives(case, way)


# DTensor's operators choose collectives in Python.
@pytest.mark.parametrize("way, words", [("torch.compile", "DTensor: expected plain tensors as inputs of a graph"),
                                        ("antegrad.compile", "TensorKindError: expected strided tensors of libtorch itself")])
def test_dtensors_are_refused_in_words(way, words):
    for output, status in run("tensor_parallel", way, 2, "collectives.py"):
        assert status != 0
        assert words in output, output


def test_collectives_that_write_are_refused_in_words():
    for output, status in run("written", "antegrad.compile", 2, "collectives.py"):
        assert status != 0
        assert "expected functional collectives inside a compiled callable" in output, output
