"""antegrad's logs as Python loggers "antegrad.<name>", and its structured traces among those of torch (TORCH_TRACE)."""

from __future__ import annotations

import atexit
import logging
import os

from torch._guards import CompileContext, CompileId, TraceId, compile_context
from torch._logging import _internal as torch_logging

from antegrad import _C

# Compilations outside of Dynamo have numbers of their own, above those of Dynamo's frames.
_FIRST_FRAME = 1_000_000

_NAMES = _C.log_names()
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)

# By the frame of a compiled function: the compilation of Dynamo that made it.
_trace_ids: dict[int, TraceId] = {}


def prepare(function: _C.Function) -> None:
    """Reads the settings of Python's logging and of torch's traces, which C++ cannot, for the compilations to come."""
    for index, name in enumerate(_NAMES):
        logger = logging.getLogger(f"antegrad.{name}")
        given = logger.level or logging.getLogger("antegrad").level
        _C.set_log_level(index, next((level for level in _LEVELS if given and level >= given), logging.ERROR))
    traces = _torch_traces()
    _C.forward_traces(_trace if traces else None)
    trace_id = CompileContext.current_trace_id()
    if traces and trace_id is not None:
        _trace_ids[function.frame] = trace_id


def _log(name: str, level: int, text: str) -> bool:
    """Whether a handler of Python's logging takes the record; otherwise antegrad prints it."""
    logger = logging.getLogger(f"antegrad.{name}")
    if not logger.hasHandlers() or not logger.isEnabledFor(level):
        return False
    logger.log(level, text)
    return True


def _torch_traces() -> bool:
    """Whether torch writes traces. Its handler exists in any case, and has a directory if TORCH_TRACE is set."""
    handler = torch_logging.LOG_TRACE_HANDLER
    return not os.environ.get("ANTEGRAD_TRACE") and handler is not None and handler.root_dir is not None


def _trace(frame: int, compilation: int, name: str, encoding: str, payload: str) -> bool:
    trace_id = _trace_ids.get(frame) or TraceId(CompileId(frame_id=_FIRST_FRAME + frame, frame_compile_id=compilation), 0)
    context = CompileContext(trace_id.compile_id)
    context.attempt = trace_id.attempt
    with compile_context(context):
        torch_logging.trace_structured(
            "artifact", metadata_fn=lambda: {"name": name, "encoding": encoding}, payload_fn=lambda: payload)
    return True


def _stop() -> None:
    _C.forward_logs(None)
    _C.forward_traces(None)


_C.forward_logs(_log)
atexit.register(_stop)
