"""What the package depends on: a wheel on exactly the torch that it is built for, the sources on any."""

import subprocess
import sys

_state = "wheel"


def build_state(state):
    global _state
    _state = state


def dynamic_metadata(settings, project):
    return {"dependencies": ["torch" if _state == "sdist" else f"torch=={_installed()}"]}


def dynamic_wheel(settings):
    return {"dependencies": True}


def _installed():
    """The public version of the torch that CMake finds: of the interpreter's own environment, which pip hides."""
    code = "import importlib.metadata; print(importlib.metadata.version('torch'))"
    found = subprocess.run([sys.executable, "-E", "-s", "-c", code], capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(f"expected torch in the environment of {sys.executable}, to build antegrad against; found none. "
                           "Install it first, and build without isolation: pip install --no-build-isolation .")
    return found.stdout.strip().partition("+")[0]
