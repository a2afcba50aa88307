"""`generate`: from the sources to the changed sources and their manifest."""

import collections
import pathlib
import shutil

from mutation import candidates, compiling, schemata, selection
from mutation.mutant import FOLDER, KINDS, ROOT, Manifest, Mutant, MutationError, changed_lines, digest_of

FOLDERS = ("src/capture", "src/check", "src/compile", "src/guards", "src/hooks", "src/partition", "src/runtime")
# What only tells people: charts and reports.
LEFT_OUT = {"src/compile/charts.cpp", "src/compile/report.cpp"}


def source_files(root=ROOT):
    return [file for folder in FOLDERS
            for file in sorted(path.relative_to(root).as_posix() for path in (root / folder).rglob("*.cpp"))
            if file not in LEFT_OUT]


def write(chosen, by_file, sources, seed, folder, root=ROOT):
    """The changed sources, the header that they include, and the manifest."""
    shutil.rmtree(folder, ignore_errors=True)
    numbers = {candidate.id: number for number, (_, candidate) in enumerate(chosen, 1)}
    of_file = collections.defaultdict(list)
    mutants = []
    for file, candidate in chosen:
        of_file[file].append(candidate)
        before, after = changed_lines(sources[file], candidate)
        mutants.append(Mutant(numbers[candidate.id], candidate.id, candidate.kind, file, candidate.line,
                              candidate.function, before, after))
    for file, wanted in of_file.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(schemata.render(sources[file], wanted, numbers)[0])
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / schemata.HEADER).write_text(schemata.header(len(chosen)))
    count = collections.Counter(c.kind for found in by_file.values() for c in found)
    Manifest(seed, {kind: count[kind] for kind in KINDS}, {file: digest_of(root / file) for file in sorted(of_file)},
             mutants).save(folder / "manifest.json")


def generate(seed, count, build, jobs):
    say = lambda text: print(f"mutate: {text}", flush=True)
    sources = {file: pathlib.Path(ROOT, file).read_bytes() for file in source_files()}
    found = {file: (source, candidates.find(file, source)) for file, source in sources.items()}
    say(f"{sum(len(c) for _, c in found.values())} places in {len(found)} files")
    compiler = compiling.Compiler(build)
    by_file = compiling.all_that_compile(compiler, found, jobs, say)
    chosen = selection.select(by_file, seed, count)
    if len(chosen) < count:
        raise MutationError(f"expected {count} mutants, found {len(chosen)} places that compile")
    write(chosen, by_file, sources, seed, FOLDER / "src")
    kinds = collections.Counter(candidate.kind for _, candidate in chosen)
    say(f"{sum(map(len, by_file.values()))} compile; took {len(chosen)} by seed {seed}: "
        + ", ".join(f"{n} {kind}" for kind, n in kinds.items())
        + f"; in {len({file for file, _ in chosen})} files, see build/mutants/src")
