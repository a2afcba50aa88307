"""The time of torch.compile to capture and partition a GPT with its backward (no code generation).

peers/capture.py THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH

Prints one JSON object. first_call_ms: the time of the first forward beyond that of later ones. aot_ms: the
part of it spent in AOTAutograd. trace_ms: the part of that spent tracing the joint graph.
"""

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
from torch._dynamo.utils import compilation_time_metrics

from gpt import from_command_line


def main():
    model, tokens, targets = from_command_line(sys.argv[1:])
    compiled = torch.compile(model, backend="aot_eager_decomp_partition")

    def forward_ms():
        start = time.perf_counter()
        compiled(tokens, targets)
        return (time.perf_counter() - start) * 1e3

    first = forward_ms()
    later = min(forward_ms() for _ in range(3))
    spent_ms = lambda phase: sum(compilation_time_metrics.get(phase, [])) * 1e3
    print(json.dumps({
        "first_call_ms": first - later,
        "aot_ms": spent_ms("create_aot_dispatcher_function"),
        "trace_ms": spent_ms("aot_trace_joint_graph"),
    }))


main()
