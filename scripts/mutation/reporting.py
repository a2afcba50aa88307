"""`report`: counts, survivors and docs/mutation.md.

docs/mutation_survivors.json explains survivors: {id: {"equivalent": bool, "why": text}}. Equivalent is a
mutant that no caller can tell from the original.
"""

import collections
import json

from mutation.mutant import KINDS, ROOT, Manifest, MutationError
from mutation.programs import PROGRAMS
from mutation.running import MANIFEST, Results

SURVIVORS = ROOT / "docs" / "mutation_survivors.json"
PAGE = ROOT / "docs" / "mutation.md"
LEAST_KILLED = 95.0

OPENING = """\
# Seeded bugs

After reading this page you know how many seeded bugs the tests find, and which they miss. Made by `make mutants`; do not edit.

`scripts/mutate` changes the sources of capture, compile (guards, audit), partition and runtime in {count} places chosen by
seed {seed}, one at a time, and runs the tests against each. A mutant is killed if a test fails, crashes or does not end.
"""


def explanations(path=SURVIVORS):
    if not path.is_file():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))
    for id, entry in entries.items():
        if not isinstance(entry.get("equivalent"), bool) or not entry.get("why", "").strip():
            raise MutationError(f"{path.name}: {id} needs \"equivalent\": true or false, and \"why\"")
    return entries


class Score:
    """Mutants by what became of them."""

    def __init__(self, mutants, results, known):
        self.killed = [m for m in mutants if results.get(m.id, {}).get("result") == "killed"]
        survived = [m for m in mutants if results.get(m.id, {}).get("result") == "survived"]
        self.equivalent = [m for m in survived if known.get(m.id, {}).get("equivalent")]
        self.survived = [m for m in survived if m not in self.equivalent]
        self.unexplained = [m for m in survived if m.id not in known]
        self.missing = [m for m in mutants if m.id not in results]
        self.contradicted = [m for m in self.killed if known.get(m.id, {}).get("equivalent")]

    @property
    def percent(self):
        different = len(self.killed) + len(self.survived)
        return 100.0 * len(self.killed) / different if different else 0.0

    def rows(self):
        columns = (self.killed, self.survived, self.equivalent)
        for kind in KINDS:
            yield kind, *(sum(m.kind == kind for m in column) for column in columns)
        yield "all", *map(len, columns)


def table(score):
    lines = ["| kind | mutants | killed | survived | equivalent | killed of the others |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for kind, killed, survived, equivalent in score.rows():
        different = killed + survived
        share = f"{100.0 * killed / different:.1f} %" if different else ""
        lines.append(f"| {kind} | {different + equivalent} | {killed} | {survived} | {equivalent} | {share} |")
    return "\n".join(lines)


def killers(score, results):
    """By which program, and how."""
    count = collections.Counter((results[m.id]["program"], results[m.id]["how"]) for m in score.killed)
    ways = ("failed", "crashed", "timed out")
    lines = ["| program | test failed | crashed | timed out |", "| --- | ---: | ---: | ---: |"]
    for program in PROGRAMS:
        if any(count[program.name, way] for way in ways):
            lines.append(f"| {program.name} | " + " | ".join(str(count[program.name, way]) for way in ways) + " |")
    return "\n".join(lines)


def described(mutant, known, result):
    by = ", ".join(result["reached_by"]) or "no test"
    why = known.get(mutant.id, {}).get("why", "**No explanation yet.**")
    diff = "\n".join([*(f"-{line}" for line in mutant.before), *(f"+{line}" for line in mutant.after)])
    return (f"### {mutant.id}: {mutant.kind}, `{mutant.file}`, `{mutant.function}`\n\n{why}\nReached by: {by}.\n\n"
            f"```diff\n{diff}\n```\n")


def page(manifest, score, results, known):
    parts = [OPENING.format(count=len(manifest.mutants), seed=manifest.seed), table(score) + "\n",
             "Which program noticed first:\n", killers(score, results.mutants) + "\n",
             "Places that compile when changed: "
             + ", ".join(f"{n} {kind}" for kind, n in manifest.candidates.items()) + ".\n"]
    excluded = {name: b.excluded for name, b in results.baseline.items() if b.excluded}
    if excluded:
        parts.append(f"{sum(map(len, excluded.values()))} tests fail without a mutant and were left out: "
                     + ", ".join(f"{len(tests)} of {name}" for name, tests in excluded.items()) + ".\n")
    for title, mutants in (("Survivors", score.survived), ("Equivalent", score.equivalent)):
        if mutants:
            parts.append(f"## {title}\n")
            parts += [described(m, known, results.mutants[m.id]) for m in mutants]
    return "\n".join(parts)


def report(partial=False):
    manifest, known = Manifest.load(MANIFEST), explanations()
    results = Results()
    score = Score(manifest.mutants, results.mutants, known)
    text = page(manifest, score, results, known)
    print(text)
    if partial:
        print(f"{len(score.missing)} of {len(manifest.mutants)} mutants were not run yet")
        return
    if score.missing:
        raise MutationError(f"{len(score.missing)} mutants were not run yet: run 'scripts/mutate run'")
    PAGE.write_text(text, encoding="utf-8")
    print(f"mutate: wrote {PAGE.relative_to(ROOT)}")
    problems = []
    if score.contradicted:
        problems.append(f"{SURVIVORS.name} calls these equivalent, but tests notice them: "
                        + " ".join(m.id for m in score.contradicted))
    if score.unexplained:
        problems.append(f"survivors without an entry in {SURVIVORS.name}: "
                        + " ".join(m.id for m in score.unexplained))
    if score.percent < LEAST_KILLED:
        problems.append(f"{score.percent:.1f} % of those that are not equivalent are killed, "
                        f"expected {LEAST_KILLED:.0f} %")
    if problems:
        raise MutationError("\n        ".join(problems))
