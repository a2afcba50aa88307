"""Memory of training steps, for peers: bytes alive through libtorch's CPU allocator."""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's remarks on itself

from torch.profiler import ProfilerActivity, profile


def clear_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


def live_and_peak_mib(run):
    """More bytes alive after run() than before, what it returns included; and the most in between."""
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
    """The most bytes alive during the step, less those alive before."""
    clear_gradients(model)
    return live_and_peak_mib(step)[1]
