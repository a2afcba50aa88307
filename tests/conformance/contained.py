"""Runs cases in worker processes: a crash or a hang is a result like others, and a run resumes where it stopped.

A script that uses this module starts itself with the argument `worker` and then calls serve(). Results are lines of JSON in
results.jsonl of a folder, one per case.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time


def serve(run):
    """The worker: reads requests from standard input, and writes each value that `run(request)` yields as a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the output of libraries out of the answers
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        for answer in itertools.chain(run(json.loads(line)), [{"end": True}]):
            print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """A worker process, started on demand and restarted after it died."""

    def __init__(self, script, seconds):
        self.script, self.seconds, self.process = script, seconds, None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, self.script, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        self.process.stdout.readline()

    def run(self, request):
        """The answers. The last one is {"crashed": how} if the process died or took too long."""
        if self.process is None:
            self.start()
        process = self.process
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        answers = []
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                answer = json.loads(line)
                if "end" in answer:
                    return answers
                answers.append(answer)
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        code = process.wait()
        self.process = None
        return [*answers, {"crashed": f"exit {code}"}]


def command_line(doc):
    """The common parser of the scripts, and the parsers of its commands `run` and `report`, to which options can be added."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run what has not been run yet")
    running.add_argument("--out", type=pathlib.Path, required=True)
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument("--fresh", action="store_true", help="forget what is there")
    running.add_argument("--only", default="", metavar="REGEX", help="the cases whose name has this")
    reporting = commands.add_parser("report", help="what a run found")
    reporting.add_argument("out", type=pathlib.Path)
    reporting.add_argument("--page", type=pathlib.Path, help="write the page of docs")
    reporting.add_argument("--bench", type=pathlib.Path, help="write bench rows")
    commands.add_parser("worker", help=argparse.SUPPRESS)
    return parser, running, reporting


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run_cases(script, cases, arguments, *, seconds, request, record, progress):
    """Runs the cases without a result. The worker gets `request(case)`, and `record(answers)` is stored.
    `progress(record, number, total, seconds)` is called for each."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "results.jsonl"
    if arguments.fresh:
        file.unlink(missing_ok=True)
    done = {tuple(kept["case"]) for kept in results_in(arguments.out)}
    cases = [case for case in cases if case not in done]
    if done:
        print(f"{len(done)} cases are there already", flush=True)
    local, lock, start, number = threading.local(), threading.Lock(), time.monotonic(), 0

    def one(case):
        nonlocal number
        if not hasattr(local, "worker"):
            local.worker = Worker(script, seconds)
        kept = {"case": case, **record(local.worker.run(request(case)))}
        with lock:
            with file.open("a") as f:
                f.write(json.dumps(kept) + "\n")
            number += 1
            progress(kept, number, len(cases), time.monotonic() - start)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(one, cases):
            pass


def results_in(folder):
    file = folder / "results.jsonl"
    return [json.loads(line) for line in file.open()] if file.exists() else []
