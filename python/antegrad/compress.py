"""Ready-made hooks on saved tensors, as in C++ (docs/saved-tensor-hooks.md). Each is a scope:

    with antegrad.compress.fp8_e4m3():
        loss = step(x, y)
"""

from __future__ import annotations

import os

from antegrad import _C
from antegrad._C import offloaded_bytes
from antegrad._saved_tensors import ready_made_hooks as _scope
from antegrad._saved_tensors import saved_tensors_hooks

__all__ = ["bf16", "fp8_e4m3", "fp8_e5m2", "int8_rowwise", "offload_to_host", "offloaded_bytes"]


def fp8_e4m3() -> saved_tensors_hooks:
    """8-bit floats with one scale per tensor and 3 bits of mantissa."""
    return _scope(_C.fp8_e4m3())


def fp8_e5m2() -> saved_tensors_hooks:
    """8-bit floats with one scale per tensor, 2 bits of mantissa and a larger range."""
    return _scope(_C.fp8_e5m2())


def int8_rowwise() -> saved_tensors_hooks:
    """8-bit integers with one scale per row of the last dimension."""
    return _scope(_C.int8_rowwise())


def bf16() -> saved_tensors_hooks:
    """16-bit bfloat16 numbers."""
    return _scope(_C.bf16())


def offload_to_host(
    *, min_bytes: int = 64 << 10, max_bytes: int = 16 << 30, directory: str | os.PathLike[str] = ""
) -> saved_tensors_hooks:
    """Moves saved tensors out of the memory of their device, and back without loss: from a GPU to pinned host memory, from the
    CPU to an unnamed file in `directory` ($TMPDIR, or /tmp).

    Tensors smaller than `min_bytes` stay. `max_bytes` limits the bytes offloaded at once in this process; 0 is no limit.
    Raises OptionError for negative numbers. The code that saves a tensor raises HookError if there is no room.
    """
    return _scope(_C.offload_to_host(min_bytes, max_bytes, str(directory)))
