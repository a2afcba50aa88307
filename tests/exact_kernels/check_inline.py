#!/usr/bin/env python3
"""Compares functions of Sleef that generated kernels compute in line with those that libtorch exports, over all floats.

    check_inline.py TOOL [--every N]

TOOL is the program inline_functions. There are none without AVX2.
"""

import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile

import torch

from check_groups import FLAGS
from program import header, load, parsed

PIECE = 2**22


def apply(kernel, x):
    y = torch.empty_like(x)
    buffers = (ctypes.c_void_p * 2)(x.data_ptr(), y.data_ptr())
    numbers = (ctypes.c_int64 * 1)(x.numel())
    kernel(buffers, numbers, ctypes.c_int64(0), ctypes.c_int64(x.numel()), ctypes.c_int64(0))
    return y


def check(library, name, every):
    """How many floats have other bits; those that are NaN on both sides are equal."""
    kernels = [getattr(library, f"{form}_{name}") for form in ("own", "sleef")]
    different = 0
    for first in range(-(2**31), 2**31, PIECE * every):
        x = torch.arange(first, min(first + PIECE * every, 2**31), every).to(torch.int32).view(torch.float32)
        own, sleef = (apply(kernel, x) for kernel in kernels)
        other = (own.view(torch.int32) != sleef.view(torch.int32)) & ~(own.isnan() & sleef.isnan())
        different += int(other.sum())
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program inline_functions")
    parser.add_argument("--every", type=int, default=1)
    options = parsed(parser)
    if options.capability == "default":
        return 0
    print(header(options.capability))
    source = pathlib.Path(tempfile.mkdtemp(prefix="inline_")) / "kernels.c"
    made = subprocess.run([options.tool, options.capability, source], check=True, capture_output=True, text=True)
    library = load(source, options.capability, FLAGS)
    failed = False
    for name in made.stdout.split():
        different = check(library, name, options.every)
        failed |= different > 0
        print(f"{name:8} {f'{different} floats differ' if different else 'exact'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
