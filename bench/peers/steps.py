"""Training steps of torch.compile, also under hooks that compress saved tensors, in turns with another process.

peers/steps.py MODEL WORD...    a model of subjects.py and its words

Answers each line on stdin with a line that is one JSON object, until the end of input:

    compile BACKEND COMPRESSOR   torch.compile(backend=BACKEND), or inductor:MODE for a mode of Inductor, with hooks
                                 equivalent to antegrad's compressor of that name, or with "none": compile_ms,
                                 held_mib (live between forward and backward), peak_mib, gradient_error
    train BACKEND                from now on steps end with an update by AdamW, which is compiled too: peak_mib
    step                         step_ms of one forward and backward of the last compiled step

The hooks are graph modules, which torch.compile inlines for the tensors of its default filter, "donated".
gradient_error is relative to the gradients without hooks under the same backend.
"""

import contextlib
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

from measure import clear_gradients, live_and_peak_mib, peak_mib, synchronize  # before torch, since it sets the environment

import torch
import torch._dynamo
import torch.fx
from torch.autograd.graph import saved_tensors_hooks

from subjects import subject

LIMITS = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, torch.int8: 127.0}
SMALLEST = torch.finfo(torch.float32).tiny


def scaled(x, dtype, *rows):
    """The tensor in 8 bits, with one scale per row of its last dimension or one for the whole tensor."""
    scales = x.numel() // x.shape[-1] if rows and x.dim() > 0 and x.numel() > 0 else 1
    if not x.is_floating_point() or x.dim() == 0 or x.numel() + 4 * scales >= x.numel() * x.element_size():
        return x, x.dtype
    most, least = (x.amax(-1, True), x.amin(-1, True)) if rows else (x.amax(), x.amin())
    scale = (torch.maximum(most, -least).to(torch.float32) / LIMITS[dtype]).clamp_min(SMALLEST)
    small = x.to(torch.float32) / scale
    return (small.round() if dtype == torch.int8 else small).to(dtype), scale, x.dtype


def scaled_back(packed):
    if len(packed) == 2:
        return packed[0]
    small, scale, dtype = packed
    return (small.to(torch.float32) * scale).to(dtype)


@torch.fx.wrap
def pack_fp8_e4m3(x):
    return scaled(x, torch.float8_e4m3fn)


@torch.fx.wrap
def pack_fp8_e5m2(x):
    return scaled(x, torch.float8_e5m2)


@torch.fx.wrap
def pack_int8_rowwise(x):
    return scaled(x, torch.int8, "rows")


@torch.fx.wrap
def unpack_scaled(packed):
    return scaled_back(packed)


@torch.fx.wrap
def pack_bf16(x):
    shrinks = x.is_floating_point() and x.dim() > 0 and x.element_size() > 2
    return (x.to(torch.bfloat16) if shrinks else x), x.dtype


@torch.fx.wrap
def unpack_bf16(packed):
    return packed[0].to(packed[1])


# Tracing turns each hook into a graph with one call. torch.compile traces the call again for each saved tensor.
HOOKS = {
    "fp8_e4m3": (lambda x: pack_fp8_e4m3(x), lambda packed: unpack_scaled(packed)),
    "fp8_e5m2": (lambda x: pack_fp8_e5m2(x), lambda packed: unpack_scaled(packed)),
    "int8_rowwise": (lambda x: pack_int8_rowwise(x), lambda packed: unpack_scaled(packed)),
    "bf16": (lambda x: pack_bf16(x), lambda packed: unpack_bf16(packed)),
}


class Peer:
    def __init__(self, name, words):
        self.model, *self.batch = subject(name, words)
        self.exact = {}  # gradients without hooks, by backend
        self.update = lambda: None

    def forward(self):
        with self.scope():
            return self.compiled(*self.batch)

    def step(self):
        torch.compiler.cudagraph_mark_step_begin()
        clear_gradients(self.model)
        self.forward().backward()
        self.update()
        synchronize()

    def train(self, backend):
        optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)
        self.update = torch.compile(optimizer.step, backend=backend)
        for _ in range(2):  # the first step makes the state
            self.step()
        return {"peak_mib": peak_mib(self.model, self.step)}

    def compile(self, backend, compressor):
        torch._dynamo.reset()
        self.scope = contextlib.nullcontext
        if compressor != "none":
            hooks = [torch.fx.symbolic_trace(hook) for hook in HOOKS[compressor]]
            self.scope = lambda: saved_tensors_hooks(*hooks)
        kind, _, mode = backend.partition(":")
        self.compiled = torch.compile(self.model, backend=kind, mode=mode or None)
        start = time.perf_counter()
        self.step()
        compile_ms = (time.perf_counter() - start) * 1e3
        self.step()
        gradients = [parameter.grad.clone() for parameter in self.model.parameters()]
        exact = self.exact.setdefault(backend, gradients)
        difference = sum((a - b).square().sum().item() for a, b in zip(gradients, exact))
        size = sum(b.square().sum().item() for b in exact)
        clear_gradients(self.model)
        return {
            "compile_ms": compile_ms,
            "held_mib": live_and_peak_mib(self.forward)[0],
            "peak_mib": peak_mib(self.model, self.step),
            "gradient_error": (difference / size) ** 0.5,
        }

    def timed_step(self):
        start = time.perf_counter()
        self.step()
        return {"step_ms": (time.perf_counter() - start) * 1e3}


def main():
    name, *words = sys.argv[1:]
    peer = Peer(name, words)
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = {"compile": peer.compile, "train": peer.train, "step": peer.timed_step}[command](*arguments)
        print(json.dumps(answer), flush=True)


main()
