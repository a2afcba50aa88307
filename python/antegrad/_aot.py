"""Partitioners for AOTAutograd and for PyTorch's compiler."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from torch.fx import GraphModule
from typing_extensions import Unpack

from antegrad._options import Options


class PartitionFunction(Protocol):
    """What AOTAutograd calls. `records` has one entry for each graph that it has partitioned."""

    records: list[Any]

    def __call__(self, joint_module: GraphModule, joint_inputs: Sequence[Any] = (), compiler: str = "inductor", *,
                 num_fwd_outputs: int, static_lifetime_input_indices: Sequence[int] | None = None,
                 ) -> tuple[GraphModule, GraphModule]: ...


class InductorBackend(Protocol):
    """A backend of torch.compile. `records` has one entry for each graph that was partitioned."""

    @property
    def records(self) -> list[Any]: ...

    def __call__(self, module: GraphModule, inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]: ...


def partition_fn(*, fallback: bool = False, **options: Unpack[Options]) -> PartitionFunction:
    """A partitioner for AOTAutograd, with the interface of min_cut_rematerialization_partition:

        aot_function(f, fw_compiler, bw_compiler, partition_fn=antegrad.partition_fn(memory_budget="512MiB"))

    Options are those of partitions in antegrad.config: memory_budget (bytes, as a limit on the predicted peak of a step),
    memory_share (0 to 1), activation_memory_budget (0 to 1, as AOTAutograd's), partition and the rules of the minimum cut,
    which is the default. `fallback`: leave graphs that antegrad cannot partition to AOTAutograd's partitioner, with a warning.

    The result has a list `records`, with one entry per graph that it partitioned. Raises OptionError; when a graph is
    partitioned, BudgetError if no plan fits, and GraphError for a graph that it cannot read. docs/inductor.md has more.
    """
    from antegrad._partition import Partition  # imports much of torch's compiler

    return Partition(fallback, options)


def inductor_partitioner(*, fallback: bool = False, **options: Unpack[Options]) -> PartitionFunction:
    """The same for PyTorch's compiler, as its option custom_partitioner_fn:

        torch.compile(model, options={"custom_partitioner_fn": antegrad.inductor_partitioner(memory_share=0.5)})

    Graphs that PyTorch finds in its cache on disk are not partitioned again, and have no record.
    """
    from antegrad._partition import InductorPartition

    return InductorPartition(fallback, options)


def inductor(*, over_budget: Literal["warn", "error"] = "warn", replans: int = 3, inductor: Mapping[str, Any] | None = None,
             fallback: bool = False, **options: Unpack[Options]) -> InductorBackend:
    """PyTorch's compiler with antegrad's partitions, and with memory budgets that are measured:

        torch.compile(model, backend=antegrad.inductor(memory_budget="512MiB"))

    With a memory_budget, the peak of the second step is measured. If it is above the budget, or so far below that a faster
    plan may fit, the graph is planned and compiled again before the next step, at most `replans` times, and the best plan is
    kept. If none holds, the next call warns with both numbers, or raises BudgetError (`over_budget`). `inductor`: settings of
    Inductor, as torch.compile's options. The others are those of partition_fn(). docs/inductor.md has more.
    """
    from antegrad._inductor import Inductor

    return Inductor(over_budget, replans, inductor, fallback, options)
