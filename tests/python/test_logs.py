"""Logs by name, from set_logs, environment and Python's logging; structured traces."""

import hashlib
import json
import logging
import re
import subprocess
import sys

import pytest
import torch

import antegrad


def twice():
    """Two programs."""
    step = antegrad.compile(lambda x: x.sin().exp().sum(), name="wave")
    step(torch.randn(3, requires_grad=True)).backward()
    step(torch.randn(4))


@pytest.fixture
def quiet():
    yield
    antegrad.set_logs("")
    for name in ("antegrad", "antegrad.recompiles", "antegrad.memory"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    antegrad.compile(len)  # reads the levels again


def names(records):
    return {record.name for record in records if record.name.startswith("antegrad")}


def test_records_go_to_python_loggers(quiet, caplog):
    logging.getLogger("antegrad.recompiles").setLevel(logging.INFO)
    twice()
    assert names(caplog.records) == {"antegrad.recompiles"}
    (record,) = caplog.records
    assert record.levelno == logging.INFO and "wave" in record.getMessage()


def test_a_level_of_the_parent_is_for_all(quiet, caplog):
    logging.getLogger("antegrad").setLevel(logging.DEBUG)
    twice()
    assert {"antegrad.captures", "antegrad.graphs", "antegrad.partition", "antegrad.memory"} <= names(caplog.records)
    assert any("wave.backward" in record.getMessage() for record in caplog.records)


def test_nothing_is_logged_by_default(quiet, caplog):
    twice()
    assert not names(caplog.records)


def test_unknown_names_suggest_near_ones(quiet):
    with pytest.raises(antegrad.OptionError, match="did you mean partition"):
        antegrad.set_logs("+partitions")
    assert "recompiles" in antegrad.logs_help()


PROGRAM = """
import torch, antegrad
def wave(x): return x.sin().exp().sum()
step = {compiled}
step(torch.randn(3, requires_grad=True)).backward()
step(torch.randn(4, requires_grad=True))
"""
BY_ITSELF = PROGRAM.format(compiled="antegrad.compile(wave)")
BY_DYNAMO = PROGRAM.format(compiled="torch.compile(wave, backend=antegrad.backend, dynamic=False)")


def run(program, monkeypatch, **environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_the_environment_prints_to_standard_error(monkeypatch):
    done = run(BY_ITSELF, monkeypatch, ANTEGRAD_LOGS="recompiles,+captures")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[antegrad .*\] recompiles: wave: ", done.stderr) and "simplify" in done.stderr


def test_a_wrong_name_in_the_environment_is_named(monkeypatch):
    done = run(BY_ITSELF, monkeypatch, ANTEGRAD_LOGS="recompile")
    assert done.returncode != 0 and "ANTEGRAD_LOGS" in done.stderr and "did you mean recompiles?" in done.stderr


ARTIFACTS = ["antegrad_joint_graph", "antegrad_partition", "antegrad_forward_graph", "antegrad_backward_graph", "antegrad_report",
             "antegrad_chrome_trace"]


def records_in(folder):
    """The records of the only file, each with its payload; checks their form."""
    (file,) = folder.iterdir()
    assert file.name.startswith("dedicated_log_torch_trace_") and file.name.endswith(".log")
    records = []
    for line in file.read_text().splitlines():
        if line.startswith("\t"):
            records[-1][1].append(line[1:])
            continue
        prefix = re.fullmatch(r"V\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [^:]+:\d+\] (\{.*\})", line)
        assert prefix, line
        records.append((json.loads(prefix[1]), []))
    for record, payload in records:
        if "has_payload" in record:
            assert hashlib.md5("\n".join(payload).encode()).hexdigest() == record["has_payload"]
    return records


def ours(records):
    return [(record["artifact"]["name"], record["frame_id"], record["frame_compile_id"]) for record, _ in records
            if record.get("artifact", {}).get("name", "").startswith("antegrad")]


def test_antegrad_writes_traces_of_its_own(monkeypatch, tmp_path):
    done = run(BY_ITSELF, monkeypatch, ANTEGRAD_TRACE=tmp_path, TORCH_TRACE="")
    assert done.returncode == 0, done.stderr
    assert ours(records_in(tmp_path)) == [(name, 0, program) for program in (0, 1) for name in ARTIFACTS]


@pytest.mark.parametrize("program", [BY_ITSELF, BY_DYNAMO])
def test_records_are_among_those_of_torch(monkeypatch, tmp_path, program):
    done = run(program, monkeypatch, TORCH_TRACE=tmp_path)
    assert done.returncode == 0, done.stderr
    found = ours(records_in(tmp_path))
    assert [name for name, _, _ in found] == 2 * ARTIFACTS
    if program is BY_ITSELF:
        assert {(frame, compilation) for _, frame, compilation in found} == {(1_000_000, 0), (1_000_000, 1)}
    else:
        assert [(frame, compilation) for _, frame, compilation in found] == 6 * [(0, 0)] + 6 * [(0, 1)]
