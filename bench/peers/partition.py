"""The time of AOTAutograd's minimum-cut partitioner on the joint graph of a GPT.

peers/partition.py THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH

Prints one JSON object: nodes of the joint graph, milliseconds of min_cut_rematerialization_partition, and mebibytes
that it saves besides arguments and parameters.
"""

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
from functorch.compile import aot_module, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from gpt import from_command_line


def storages_of(nodes):
    """Bytes by storage. All views share the storage of their base."""
    values = [n.meta["val"] for n in nodes if n is not None]
    storages = [v.untyped_storage() for v in values if isinstance(v, torch.Tensor)]
    return {s._cdata: s.nbytes() for s in storages}


def main():
    model, tokens, targets = from_command_line(sys.argv[1:])
    found = {}

    def partition(joint, *args, **kwargs):
        found["nodes"] = len(joint.graph.nodes)
        start = time.perf_counter()
        forward, backward = min_cut_rematerialization_partition(joint, *args, **kwargs)
        found["min_cut_ms"] = (time.perf_counter() - start) * 1e3
        arguments = [n for n in forward.graph.nodes if n.op == "placeholder"]
        outputs = next(n for n in forward.graph.nodes if n.op == "output").args[0]
        results = kwargs["num_fwd_outputs"]
        saved = storages_of(outputs[results:])
        for held in storages_of([*arguments, *outputs[:results]]):
            saved.pop(held, None)
        found["saved_mib"] = sum(saved.values()) / 2**20
        return forward, backward

    nothing = lambda graph, inputs: make_boxed_func(graph.forward)
    aot_module(model, nothing, nothing, partition_fn=partition)(tokens, targets)
    print(json.dumps(found))


main()
