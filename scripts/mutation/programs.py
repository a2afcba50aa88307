"""One run of a test program under a mutant."""

import dataclasses
import json
import os
import pathlib
import re
import resource
import select
import signal
import subprocess
import time

MEMORY_LIMIT = 48 << 30  # address space; a changed size must not take the machine down


@dataclasses.dataclass(frozen=True)
class Program:
    name: str


# In the order in which they run: what is fast and kills much first.
PROGRAMS = (
    Program("core_tests"),
    Program("error_tests"),
    Program("differential_tests"),
    Program("exact_tests"),
    Program("model_tests"),
    Program("runtime_tests"),
    Program("torch_unit_tests"),
    Program("core_fuzz_tests"),
    Program("torch_fuzz_tests"),
)


@dataclasses.dataclass
class Outcome:
    """How a run ended: 'passed', 'failed', 'crashed' or 'timed out', and where."""
    how: str
    test: str
    seconds: float


def limit_resources():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment_of(mutant):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ANTEGRAD_", "GTEST_"))}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "LC_ALL": "C"}
    if mutant:
        environment["ANTEGRAD_MUTANT"] = str(mutant)
    return environment


def stop(process):
    """Ends the run and all that it started: it leads a process group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(folder, program, mutant=0, excluded=(), silence=None, arguments=(), variables=None):
    """Runs a program until it ends or has said nothing for `silence` seconds (one test takes that long)."""
    command = [str(folder / program.name), "--gtest_color=no", *arguments]
    if excluded:
        command.append("--gtest_filter=-" + ":".join(excluded))
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment_of(mutant) | (variables or {}),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               start_new_session=True, preexec_fn=limit_resources)
    current, failed, rest, timed_out = "", "", b"", False
    descriptor = process.stdout.fileno()
    while True:
        ready, _, _ = select.select([descriptor], [], [], silence)
        if not ready:
            timed_out = True
            break
        data = os.read(descriptor, 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            said = re.match(rb"\[ +(RUN|OK|FAILED) +\] +([^\s,]+)", line)
            if said:
                name = said[2].decode(errors="replace")
                current = name if said[1] == b"RUN" else ""
                if said[1] == b"FAILED" and not failed:
                    failed = name
    if not timed_out:
        try:
            process.wait(silence)
        except subprocess.TimeoutExpired:
            timed_out = True
    stop(process)
    process.stdout.close()
    seconds = time.monotonic() - started
    if timed_out:
        return Outcome("timed out", current, seconds)
    if failed:
        return Outcome("failed", failed, seconds)
    if process.returncode != 0:
        return Outcome("crashed", current, seconds)
    return Outcome("passed", "", seconds)


def tests_of(report):
    """{test: (passed, seconds)} of a gtest JSON report."""
    tests = {}
    for suite in json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("status") == "RUN":
                tests[f"{suite['name']}.{test['name']}"] = ("failures" not in test, float(test["time"].rstrip("s")))
    return tests
