"""Memory of training steps: live bytes in libtorch's allocator, of the GPU if the model is on one."""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences the profiler's log

import torch
from torch.profiler import ProfilerActivity, profile


def uses_gpu():
    return torch.cuda.is_available() and torch.cuda.memory_allocated() > 0


def synchronize():
    """Waits for what runs on a GPU."""
    if uses_gpu():
        torch.cuda.synchronize()


def clear_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


def live_and_peak_mib(run):
    """Live bytes after run(), its result included, and the peak during it, both minus the live bytes before."""
    if uses_gpu():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = run()
        synchronize()
        live, most = torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before
        del result
        return live / 2**20, most / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    live = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    del result
    return live / 2**20, most / 2**20


def peak_mib(model, step):
    """The peak of live bytes during the step, minus those live before."""
    clear_gradients(model)
    return live_and_peak_mib(step)[1]
