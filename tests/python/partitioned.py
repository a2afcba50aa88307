"""What tests of partition functions share: settings, and functions compiled with a partition whose graphs can be looked at."""

import contextlib

import antegrad
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.multiprocessing.reductions import StorageWeakRef

SETTINGS = {
    "minimum cut": {},
    "as written": {"partition": "as_written"},
    "ratio 0.5": {"activation_memory_budget": 0.5},
    "share 1.0": {"memory_share": 1.0},
    "share 0.5": {"memory_share": 0.5},
    "share 0.25": {"memory_share": 0.25},
    "share 0.0": {"memory_share": 0.0},
}
LONG = ("share 1.0", "share 0.25")
every_setting = pytest.mark.parametrize(
    "setting", [pytest.param(setting, marks=pytest.mark.long) if setting in LONG else setting for setting in SETTINGS])


class Partitioned:
    """A backend that runs kernels one by one, as aot_eager, with another partition. `forwards` and `backwards` are its graphs."""

    def __init__(self, partition=min_cut_rematerialization_partition):
        self.partition = partition
        self.static_inputs, self.forwards, self.backwards = [], [], []
        self.backend = aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=self.split,
                                    keep_inference_input_mutations=True)

    def split(self, *args, **keywords):
        self.static_inputs.append(keywords["static_lifetime_input_indices"])
        forward, backward = self.partition(*args, **keywords)
        self.forwards.append(forward)
        self.backwards.append(backward)
        return forward, backward

    def compile(self, function, **keywords):
        torch._dynamo.reset()
        return torch.compile(function, backend=self.backend, **keywords)

    def saved_bytes(self):
        """Bytes that live from the forward to the backward, beyond the inputs."""
        bytes = 0
        for forward, backward in zip(self.forwards, self.backwards):
            read = {node.name for node in backward.graph.find_nodes(op="placeholder")}
            known = {storage for node in forward.graph.find_nodes(op="placeholder") for storage in storages_of(node)}
            for node in forward.graph.output_node().all_input_nodes:
                for storage in set(storages_of(node)) - known if node.name in read else ():
                    known.add(storage)
                    bytes += node.meta["val"].untyped_storage().nbytes()
        return bytes

    def records(self):
        """One for each graph: none was left to AOTAutograd's partitioner."""
        assert len(self.partition.records) == len(self.forwards) > 0
        return self.partition.records


def storages_of(node):
    value = node.meta.get("val")
    return [StorageWeakRef(value.untyped_storage())] if isinstance(value, torch.Tensor) else []


def partitioned(setting="minimum cut"):
    return Partitioned(antegrad.partition_fn(**SETTINGS[setting]))


@contextlib.contextmanager
def inductor(partitioner):
    """Inductor with another partition, or None for its own."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(custom_partitioner_fn=partitioner, fx_graph_cache=False):
        yield


def expect_same_bits(found, expected):
    assert len(found) == len(expected)
    for number, (a, b) in enumerate(zip(found, expected)):
        assert a.dtype == b.dtype and a.shape == b.shape, number
        a, b = (t.detach().reshape(-1).contiguous().view(torch.uint8) for t in (a, b))
        assert torch.equal(a, b), number
