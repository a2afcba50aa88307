"""Ready-made hooks on saved tensors, as in C++ (docs/saved-tensor-hooks.md). Each is a scope:

    with antegrad.compress.fp8_e4m3():
        loss = step(x, y)
"""

from antegrad import _C
from antegrad._C import offloaded_bytes
from antegrad._saved_tensors import ready_made_hooks as _scope

__all__ = ["bf16", "fp8_e4m3", "fp8_e5m2", "int8_rowwise", "offload_to_host", "offloaded_bytes"]


def fp8_e4m3():
    """8 bits with one scale a tensor: three bits of mantissa."""
    return _scope(_C.fp8_e4m3())


def fp8_e5m2():
    """8 bits with one scale a tensor: two bits of mantissa and a larger range."""
    return _scope(_C.fp8_e5m2())


def int8_rowwise():
    """8 bits with a scale for each row of the last dimension."""
    return _scope(_C.int8_rowwise())


def bf16():
    """16 bits of floating point."""
    return _scope(_C.bf16())


def offload_to_host(*, min_bytes=64 << 10, max_bytes=16 << 30, directory=""):
    """Saved tensors leave the memory of their device and come back to the bit: from a GPU to pinned memory of the host, from
    the CPU to a file without a name in `directory` ($TMPDIR, or /tmp).

    Tensors of fewer than `min_bytes` stay. `max_bytes` is the most that may be out at once in this process, 0 as many as
    there is room for. Raises OptionError for negative numbers; what saves raises HookError where there is no room.
    """
    return _scope(_C.offload_to_host(min_bytes, max_bytes, str(directory)))
