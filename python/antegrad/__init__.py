"""Ahead-of-time autograd for PyTorch: a compiler written in C++.

    import antegrad, torch

    step = antegrad.compile(lambda x, y: loss(model(x), y))    # or torch.compile(model, backend="antegrad")
    step(x, y).backward()
    print(step.report())
"""

import torch  # loads libtorch, which the extension is linked to

from antegrad import _built

if (torch.__version__.partition("+")[0], torch.version.cuda is not None) != (_built.torch, _built.cuda):
    raise ImportError(
        f"antegrad: expected torch {_built.torch} {'with' if _built.cuda else 'without'} CUDA, which this package was built "
        f"for; found torch {torch.__version__}. Install that torch, or build antegrad for this one: in its sources, "
        "pip install ."
    )

from antegrad._C import (
    BackwardError,
    CaptureError,
    CompileStage,
    DataDependentError,
    Error,
    EscapeError,
    Function,
    BudgetError,
    CacheError,
    GraphError,
    GpuGraphReport,
    HookError,
    HostStateError,
    InputError,
    InternalError,
    KernelReport,
    MemoryKept,
    MismatchError,
    MutationError,
    NestedCaptureError,
    OptionError,
    ProductReport,
    ProgramReport,
    Report,
    ShapeCheck,
    ShapeMismatchError,
    Step,
    TensorKindError,
    kept_memory,
    load_bundle,
    logs_help,
    register_joint_pass,
    release_kept_memory,
    resize_storage_,
    save_bundle,
    set_logs,
)
from antegrad import compress, config
from antegrad._aot import inductor, inductor_partitioner, partition_fn
from antegrad._backward_state import BackwardState
from antegrad._checkpoint import checkpoint
from antegrad._compile import compile, compile_step
from antegrad._compiled_backward import compiled_backward, eager_backward
from antegrad._dynamo import backend
from antegrad._report import Reports, report, save_chrome_trace
from antegrad._saved_tensors import saved_tensors_hooks

__version__ = _built.version

__all__ = [
    "BackwardError",
    "BackwardState",
    "CaptureError",
    "CompileStage",
    "DataDependentError",
    "Error",
    "EscapeError",
    "Function",
    "BudgetError",
    "CacheError",
    "GraphError",
    "GpuGraphReport",
    "HookError",
    "HostStateError",
    "InputError",
    "InternalError",
    "KernelReport",
    "MemoryKept",
    "MismatchError",
    "MutationError",
    "NestedCaptureError",
    "OptionError",
    "ProductReport",
    "ProgramReport",
    "Report",
    "Reports",
    "ShapeCheck",
    "ShapeMismatchError",
    "Step",
    "TensorKindError",
    "backend",
    "checkpoint",
    "compile",
    "compile_step",
    "compiled_backward",
    "compress",
    "config",
    "eager_backward",
    "inductor",
    "inductor_partitioner",
    "kept_memory",
    "load_bundle",
    "logs_help",
    "partition_fn",
    "register_joint_pass",
    "release_kept_memory",
    "report",
    "resize_storage_",
    "save_chrome_trace",
    "save_bundle",
    "saved_tensors_hooks",
    "set_logs",
]
