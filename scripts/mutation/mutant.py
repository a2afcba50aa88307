"""What a mutant is and how it is written down."""

import dataclasses
import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"

# The kinds of change, with their share of a selection.
KINDS = {"dropped statement": 0.30, "negated condition": 0.35, "changed constant": 0.20,
         "swapped argument": 0.15}


class MutationError(Exception):
    """What stops a command; the text says what to do."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A place in a file that can be changed. Positions are bytes of the original."""
    kind: str
    start: int
    end: int
    line: int
    function: str
    text: str      # what is there
    changed: str   # what would be there
    id: str = ""   # keeps when lines move: of file, kind, the line's text and which of equal ones it is


@dataclasses.dataclass
class Mutant:
    """A candidate that was taken; `number` is what ANTEGRAD_MUTANT chooses it by."""
    number: int
    id: str
    kind: str
    file: str
    line: int
    function: str
    before: list   # the lines that it changes
    after: list


def with_ids(file, source, candidates):
    """The same candidates with their stable ids, in the order of the file."""
    seen, result = {}, []
    for candidate in sorted(candidates, key=lambda c: (c.start, c.end, c.kind, c.changed)):
        line = source[source.rfind(b"\n", 0, candidate.start) + 1:].split(b"\n", 1)[0].decode()
        key = "\0".join((file, candidate.kind, " ".join(line.split()), candidate.text, candidate.changed))
        seen[key] = seen.get(key, 0) + 1
        digest = hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()
        result.append(dataclasses.replace(candidate, id=digest[:10]))
    return result


def changed_lines(source, candidate):
    """The lines that a candidate changes, before and after."""
    first = source.rfind(b"\n", 0, candidate.start) + 1
    last = source.find(b"\n", candidate.end)
    last = len(source) if last < 0 else last
    changed = candidate.changed or ";"  # a dropped statement
    after = source[first:candidate.start] + changed.encode() + source[candidate.end:last]
    lines = lambda text: [line for line in text.decode().split("\n") if line.strip()]
    return lines(source[first:last]), lines(after)


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclasses.dataclass
class Manifest:
    """What `generate` leaves beside the changed sources."""
    seed: int
    candidates: dict   # kind: how many places compile
    files: dict        # file: digest of the original
    mutants: list

    def save(self, path):
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path):
        if not path.is_file():
            raise MutationError(f"{path} is missing: run 'scripts/mutate generate'")
        manifest = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        manifest.mutants = [Mutant(**mutant) for mutant in manifest.mutants]
        return manifest

    def check_sources(self, root=ROOT):
        """The changed copies fit only the sources that they were made of."""
        moved = [file for file, digest in self.files.items()
                 if not (root / file).is_file() or digest_of(root / file) != digest]
        if moved:
            raise MutationError("changed since the mutants were made: " + " ".join(moved)
                                + "\nrun 'scripts/mutate generate' again")
