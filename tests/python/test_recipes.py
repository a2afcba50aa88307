"""The examples of docs/recipes.md run, and losses and parameters are those of eager mode, bit for bit."""

import importlib.util
import pathlib
import re
import socket

import antegrad
import pytest
import torch
import torch.distributed as dist
from torch import nn

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs/recipes.md"
PACKAGES = ("accelerate", "lightning", "peft", "transformers")


def examples():
    """The common lines; and each example by its heading, with a number where a section has several."""
    common, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    found = {}
    for section in sections:
        heading = section.splitlines()[0]
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", section, re.S)):
            found[f"{heading} {number + 1}" if number else heading] = code
    return "".join(re.findall(r"```python\n(.*?)```", common, re.S)), found


COMMON, EXAMPLES = examples()


def run(code):
    """What an example leaves behind: its names, losses, and parameters and buffers."""
    torch._dynamo.reset()
    names = {}
    try:
        exec(compile(COMMON + code, str(PAGE), "exec"), names)  # noqa: S102
        assert len(names["losses"]) > 1
        state = [getattr(value, "full_tensor", value.clone)() for value in names["model"].state_dict().values()]
        return names, [*names["losses"], *state]
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def without_compilers(patch):
    """Makes all ways to compile do nothing."""
    patch.setattr(nn.Module, "compile", lambda self, *args, **keywords: None)
    patch.setattr(torch, "compile", lambda model, **keywords: model)
    patch.setattr(antegrad, "compile", lambda function=None, **options: function or (lambda function: function))
    patch.setattr(antegrad, "report", lambda compiled: "eager")


@pytest.fixture(scope="module", autouse=True)
def known_by_name():
    """As when the package is installed; the build folder has no entry points."""
    if "antegrad" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(antegrad.backend, name="antegrad")


def as_under_torchrun(patch):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for name, value in dict(RANK=0, LOCAL_RANK=0, WORLD_SIZE=1, MASTER_ADDR="localhost", MASTER_PORT=port).items():
        patch.setenv(name, str(value))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXAMPLES)
def test_trains_as_in_eager_mode(name, monkeypatch, tmp_path):
    code = EXAMPLES[name]
    monkeypatch.chdir(tmp_path)
    if "init_process_group" in code:
        as_under_torchrun(monkeypatch)
    for package in PACKAGES:
        if re.search(rf"^(from|import) {package}\b", code, re.M) and not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    names, found = run(code)
    reports = antegrad.report(names.get("step", names["model"]))
    reports = reports if isinstance(reports, list) else [reports]
    assert reports and all(report.compiled_calls and not report.eager_calls for report in reports)
    with monkeypatch.context() as patch:
        without_compilers(patch)
        _, expected = run(code)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert torch.equal(a, b)
