"""`build`: the tree with the changed sources, and the test programs made of it."""

import shlex
import shutil
import subprocess

from mutation.mutant import FOLDER, ROOT, Manifest, MutationError
from mutation.programs import PROGRAMS

COPIED = ("CMakeLists.txt", "CMakePresets.json", "bench", "cmake", "examples", "include", "src", "tests", "tools",
          "build/setup.env")
TREE = FOLDER / "tree"
BUILD = TREE / "build" / "release"  # as deep as that of the sources: the compiler cache serves both


def files_below(root, names):
    for name in names:
        path = root / name
        if path.is_file():
            yield name, path
        elif path.is_dir():
            for file in sorted(p for p in path.rglob("*") if p.is_file()):
                yield file.relative_to(root).as_posix(), file


def assemble(tree=TREE, root=ROOT, changed=FOLDER / "src"):
    """Makes `tree` the sources with the changed ones over them; what is equal keeps its time."""
    wanted = dict(files_below(root, COPIED))
    wanted.update(files_below(changed, ("src",)))
    for name, path in wanted.items():
        target = tree / name
        if target.is_file() and target.read_bytes() == path.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name, path in list(files_below(tree, [n for n in COPIED if n != "build/setup.env"])):
        if name not in wanted:
            path.unlink()


def build(cmake_args, jobs):
    Manifest.load(FOLDER / "src" / "manifest.json").check_sources()
    assemble()
    configure = ["cmake", "--preset", "release", *shlex.split(cmake_args)]
    make = ["cmake", "--build", BUILD, "-j", str(jobs), "--target", *(program.name for program in PROGRAMS)]
    for command in (configure, make):
        if subprocess.run(list(map(str, command)), cwd=TREE).returncode != 0:
            raise MutationError("failed: " + " ".join(map(str, command)))
