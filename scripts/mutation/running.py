"""`run`: the tests against no mutant, then against each.

A mutant is killed when a test fails that passes without it, when a program crashes, or when one test takes
several times as long as the slowest does without it. A program that never comes by the mutant's place
is not run: it cannot tell the difference.
"""

import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import tempfile
import threading

from mutation import programs
from mutation.building import BUILD, TREE, files_below
from mutation.mutant import FOLDER, Manifest, MutationError, digest_of

MANIFEST = FOLDER / "src" / "manifest.json"
RESULTS = FOLDER / "results.json"
SLOWER, LEAST = 8, 30  # a test may take so many times the slowest one's time, and at least so many seconds
ROUNDS = 20            # of tests that fail without a mutant, until the rest passes


@dataclasses.dataclass
class Baseline:
    """A program without a mutant."""
    tests: int
    excluded: list     # tests that fail without a mutant
    seconds: float
    slowest: float
    reached: list      # numbers of the mutants whose places it comes by

    @property
    def silence(self):
        return max(LEAST, SLOWER * self.slowest)


class Results:
    """What is known so far; saved after each mutant. Of other mutants or tests than the present nothing is kept."""

    def __init__(self, path=RESULTS):
        self.path = path
        self.lock = threading.Lock()
        self.mutants_digest = digest_of(MANIFEST)
        self.suite = suite_digest()
        self.baseline, self.mutants = {}, {}
        data = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if data.get("manifest") != self.mutants_digest:
            return
        if data.get("suite") == self.suite:
            self.baseline = {name: Baseline(**b) for name, b in data["baseline"].items()}
        # Tests are only added: who was killed by fewer is killed by more.
        self.mutants = {id: r for id, r in data["mutants"].items()
                        if r["result"] == "killed" or data.get("suite") == self.suite}

    def save(self):
        text = json.dumps({"manifest": self.mutants_digest, "suite": self.suite,
                           "baseline": {n: dataclasses.asdict(b) for n, b in self.baseline.items()},
                           "mutants": self.mutants}, indent=1) + "\n"
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.path)

    def put(self, id, result):
        with self.lock:
            self.mutants[id] = result
            self.save()


def suite_digest():
    """Of everything that the programs are built from, and of which they are."""
    state = hashlib.sha256(repr(programs.PROGRAMS).encode())
    for name, path in files_below(TREE, ("CMakeLists.txt", "cmake", "include", "src", "tests")):
        state.update(f"{name}\0{digest_of(path)}\n".encode())
    return state.hexdigest()


def say(text):
    print(f"mutate: {text}", flush=True)


# ---- without a mutant

def measure(program):
    """Runs a program without a mutant, without the tests that fail, until all others pass."""
    excluded = []
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(ROUNDS):
            report, reached = f"{folder}/{attempt}.json", f"{folder}/{attempt}.reached"
            outcome = programs.run(BUILD / "tests", program, excluded=excluded,
                                   arguments=[f"--gtest_output=json:{report}"],
                                   variables={"ANTEGRAD_MUTANTS_REACHED": reached})
            tests = programs.tests_of(report) if os.path.exists(report) else {}
            failed = [test for test, (passed, _) in tests.items() if not passed]
            if outcome.how == "passed":
                places = {int(line) for line in open(reached)} if os.path.exists(reached) else set()
                return Baseline(len(tests), excluded, outcome.seconds,
                                max((seconds for _, seconds in tests.values()), default=0), sorted(places))
            failed = failed or [test for test in [outcome.test] if test]
            if not failed:
                raise MutationError(f"{program.name} {outcome.how} outside of a test, without a mutant")
            excluded += failed
    raise MutationError(f"{program.name}: tests fail without a mutant, other ones each time: {' '.join(excluded)}")


def measure_all(results, jobs, strict):
    missing = [p for p in programs.PROGRAMS if not (BUILD / "tests" / p.name).is_file()]
    if missing:
        raise MutationError(f"{missing[0].name} is not built: run 'scripts/mutate build'")
    todo = [p for p in programs.PROGRAMS if p.name not in results.baseline]
    with concurrent.futures.ThreadPoolExecutor(min(jobs, len(programs.PROGRAMS))) as pool:
        for program, baseline in zip(todo, pool.map(measure, todo)):
            results.baseline[program.name] = baseline
            results.save()
            say(f"without a mutant: {baseline.tests} tests of {program.name} pass in {baseline.seconds:.0f} s, "
                f"come by {len(baseline.reached)} places")
    for name, baseline in results.baseline.items():
        if baseline.excluded:
            say(f"warning: {len(baseline.excluded)} tests of {name} fail without a mutant and are left out: "
                + " ".join(baseline.excluded))
    if strict and any(baseline.excluded for baseline in results.baseline.values()):
        raise MutationError("tests fail without a mutant, which --strict does not allow")


# ---- with one

def judge(mutant, baselines):
    """Runs the programs in their order until one notices the mutant."""
    seconds, ran = 0.0, []
    for program in programs.PROGRAMS:
        baseline = baselines[program.name]
        if mutant.number not in baseline.reached:
            continue
        outcome = programs.run(BUILD / "tests", program, mutant.number, baseline.excluded, baseline.silence,
                               ["--gtest_fail_fast"])
        seconds += outcome.seconds
        ran.append(program.name)
        if outcome.how != "passed":
            return {"result": "killed", "how": outcome.how, "program": program.name, "test": outcome.test,
                    "seconds": round(seconds, 1)}
    return {"result": "survived", "reached_by": ran, "seconds": round(seconds, 1)}


def chosen(mutants, only, shard):
    part, of = shard
    wanted = {word.strip() for word in only.split(",") if word.strip()}
    known = {str(m.number) for m in mutants} | {m.id for m in mutants}
    if wanted - known:
        raise MutationError("no such mutants: " + " ".join(sorted(wanted - known)))
    return [m for m in mutants if (not wanted or wanted & {str(m.number), m.id}) and m.number % of == part % of]


def run(jobs, only="", shard=(1, 1), strict=False, again=False):
    manifest = Manifest.load(MANIFEST)
    results = Results()
    measure_all(results, jobs, strict)
    mutants = chosen(manifest.mutants, only, shard)
    todo = [m for m in mutants if again or m.id not in results.mutants]
    say(f"{len(todo)} of {len(mutants)} mutants to run, {jobs} at a time")
    done = 0

    def one(mutant):
        result = judge(mutant, results.baseline)
        results.put(mutant.id, result)
        return mutant, result

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, m) for m in todo]):
            mutant, result = future.result()
            done += 1
            end = (f"{result['how']} in {result['program']} {result['test']}" if result["result"] == "killed"
                   else "no test noticed" if result["reached_by"] else "no test comes by")
            say(f"[{done}/{len(todo)}] {result['result']:8} {mutant.number:3} {mutant.id} {mutant.file}:{mutant.line} "
                f"{mutant.kind}: {end} ({result['seconds']:.0f} s)")
    count = collections.Counter(results.mutants[m.id]["result"] for m in mutants)
    say(f"{count['killed']} killed, {count['survived']} survived of {len(mutants)}; next: scripts/mutate report")
