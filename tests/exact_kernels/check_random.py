"""Compares the draws of src/lower/c/random.c with ATen: their results and the generator's state after them."""

import ctypes
import math
import sys

import torch
import torch.nn.functional as F

from program import compile_c, header
from recipes import ROOT

A = torch.ops.aten


def words():
    """The state of the default generator as random.c has it: 624 words, left, next."""
    state = torch.get_rng_state()
    ends = state[8:24].view(torch.int32)
    return torch.cat([state[24 : 24 + 624 * 8].view(torch.int64).to(torch.int32), ends[0:1], ends[2:3]]).contiguous()


def put(made):
    state = torch.get_rng_state()
    state[8:12].view(torch.int32)[0] = made[624]
    state[16:24].view(torch.int64)[0] = int(made[625])
    state[24 : 24 + 624 * 8].view(torch.int64).copy_(made[:624].to(torch.int64) & 0xFFFFFFFF)
    torch.set_rng_state(state)


def bernoulli(library, p, n):
    made, kept = words(), torch.empty(n, dtype=torch.uint8)
    threshold = ctypes.c_long(math.ceil(p * 2**53))
    library.bernoulli(ctypes.c_void_p(made.data_ptr()), threshold, ctypes.c_void_p(kept.data_ptr()), ctypes.c_long(n))
    put(made)
    return kept


def uniform(library, dtype, n):
    made, drawn = words(), torch.empty(n, dtype=dtype)
    fill = library.uniform_f64 if dtype == torch.float64 else library.uniform_f32
    fill(ctypes.c_void_p(made.data_ptr()), ctypes.c_void_p(drawn.data_ptr()), ctypes.c_long(n))
    put(made)
    return drawn


def main():
    capability = torch.backends.cpu.get_cpu_capability().lower()
    print(header(capability))
    library = compile_c((ROOT / "src/lower/c/random.c").read_text(), capability)
    masks = states = dropouts = uniforms = 0
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        for n in (0, 1, 2, 311, 312, 313, 1000, 40000, 1000003):
            for p in (0.9, 0.5, 0.1, 1 / 3, 1.0, 0.0):
                for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool):
                    before = n % 7
                    torch.manual_seed(n + before)
                    torch.rand(before)
                    start = torch.get_rng_state()
                    expected = torch.empty(n, dtype=dtype).bernoulli_(p)
                    after = torch.get_rng_state()
                    torch.set_rng_state(start)
                    found = bernoulli(library, p, n)
                    masks += int((expected.to(torch.uint8) != found).sum())
                    states += not torch.equal(after, torch.get_rng_state())
            for dtype in (torch.float32, torch.float64):
                torch.manual_seed(n)
                start = torch.get_rng_state()
                expected = torch.rand(n, dtype=dtype)
                after = torch.get_rng_state()
                torch.set_rng_state(start)
                uniforms += int((expected != uniform(library, dtype, n)).sum())
                states += not torch.equal(after, torch.get_rng_state())
        for p in (0.1, 0.3):
            x = torch.randn(1000, 333)
            start = torch.get_rng_state()
            expected = F.dropout(x, p)
            torch.set_rng_state(start)
            kept = bernoulli(library, 1 - p, x.numel()).reshape(x.shape).float()
            dropouts += int((expected != x * (kept / (1 - p))).sum())
            torch.set_rng_state(start)
            expected, mask = A.native_dropout(x, p, True)
            dropouts += int((expected != x * kept * (1 / (1 - p))).sum()) + int((mask != kept.bool()).sum())
    print(f"capability {capability}: {masks} elements of masks, {uniforms} of rand, {states} states, {dropouts} dropouts differ")
    return int(masks or states or dropouts or uniforms)


if __name__ == "__main__":
    sys.exit(main())
