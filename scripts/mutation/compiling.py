"""Which candidates compile.

A file is compiled with all its candidates at once; each error takes out the candidate in whose text it lies,
until none is left. What a file says is kept by the digest of its text (build/mutants/compiles.json).
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess

from mutation import schemata
from mutation.mutant import FOLDER, ROOT, MutationError

LOCATION = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+):(?P<column>\d+):\s+(?P<what>.*)$")
# Without -w, which would let narrowing pass.
FLAGS = ["-fsyntax-only", "-fmax-errors=0", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never",
         "-fdiagnostics-column-unit=byte", "-Wno-fatal-errors"]


class Compiler:
    """Compiles changed texts as the build in `build` compiles their originals."""

    def __init__(self, build, root=ROOT):
        path = build / "compile_commands.json"
        if not path.is_file():
            raise MutationError(f"{path} is missing: configure that build first (make configure)")
        self.root = root
        self.commands = {pathlib.Path(entry["file"]).resolve(): entry for entry in json.loads(path.read_text())}

    def errors(self, file, text, folder):
        """Where in the text errors lie: [(line, column)]. The folder holds schemata.HEADER."""
        original = (self.root / file).resolve()
        if original not in self.commands:
            raise MutationError(f"{file} is not in compile_commands.json: configure again (make configure)")
        entry = self.commands[original]
        changed = folder / file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_bytes(text)
        return parse_errors(*self.compile(entry, original, changed, folder))

    def compile(self, entry, original, changed, folder):
        arguments = shlex.split(entry["command"])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        arguments.remove("-c")
        arguments = [str(changed) if pathlib.Path(entry["directory"], a).resolve() == original else a
                     for a in arguments]
        command = [*arguments, *FLAGS, f"-I{folder}", "-iquote", str(original.parent)]
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True,
                              env=os.environ | {"LC_ALL": "C", "CCACHE_DISABLE": "1"})
        return done, changed


def parse_errors(done, changed):
    """Errors in other files count where the changed file asked for them."""
    places, asked = [], None
    for line in done.stderr.splitlines():
        match = LOCATION.match(line)
        if not match:
            continue
        here = match["path"] == str(changed)
        place = (int(match["line"]), int(match["column"]))
        if re.match(r"(fatal )?error:", match["what"]):
            place = place if here else asked
            if place is not None:
                places.append(place)
        elif here and "required from" in match["what"]:
            asked = place
    if done.returncode != 0 and not places:
        raise MutationError(f"compiling {changed} failed:\n{done.stderr[:2000]}")
    return places


def blame(text, spans, place):
    """The innermost candidate whose text holds this place, or else the nearest on a line."""
    line, column = place
    lines = text.split(b"\n")
    ahead = 2  # the include and #line
    position = sum(len(lines[i]) + 1 for i in range(line - 1 + ahead)) + column - 1
    holding = [s for s in spans if s[0] <= position < s[1]]
    if holding:
        return min(holding, key=lambda s: s[1] - s[0])[2]
    return min((s[2] for s in spans), key=lambda c: (abs(c.line - line), c.start))


def that_compile(compiler, file, source, candidates, folder):
    """The candidates of a file that compile together. The folder is for changed copies."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / schemata.HEADER).write_text(schemata.header(len(candidates)))
    left = list(candidates)
    while left:
        numbers = {c.id: i for i, c in enumerate(left, 1)}
        text, spans = schemata.render(source, left, numbers)
        places = compiler.errors(file, text, folder)
        if not places:
            return left
        blamed = {blame(text, spans, place).id for place in places}
        left = [c for c in left if c.id not in blamed]
    return left


def all_that_compile(compiler, found, jobs, say):
    """{file: candidates} of what compiles; files whose text and candidates are known are not asked again."""
    store = FOLDER / "compiles.json"
    known = json.loads(store.read_text()) if store.is_file() else {}

    def one(file):
        source, candidates = found[file]
        key = schemata.digest(source, candidates, " ".join(FLAGS))
        if known.get(file, {}).get("of") != key:
            good = that_compile(compiler, file, source, candidates, FOLDER / "check" / file.removesuffix(".cpp"))
            known[file] = {"of": key, "ids": [c.id for c in good]}
            store.write_text(json.dumps(known, indent=1) + "\n")
            say(f"{file}: {len(good)} of {len(candidates)} compile")
        ids = set(known[file]["ids"])
        return file, [c for c in candidates if c.id in ids]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, sorted(found)))
