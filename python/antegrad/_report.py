"""antegrad.report: what compiled functions did, as values, text, and HTML with pictures for notebooks."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

from antegrad._C import Function, Report
from antegrad._dynamo import functions_of

_MOST_PICTURES = 8


class Reports(list[Report]):
    """Reports on several compiled functions, oldest first. print() shows them one after another, a notebook with pictures."""

    def __str__(self) -> str:
        return "".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(map(_html_of, self))


def report(compiled: Any) -> Report | Reports:
    """Reports what a compiled function did: a Report for antegrad.compile, and a list of Reports, one per Dynamo graph, for
    torch.compile(..., backend="antegrad"). For a module, the list has the graphs of all modules in it, so it may be what
    DistributedDataParallel or fully_shard made of a compiled model, or a model of which parts are compiled. print() shows either
    as text."""
    if isinstance(compiled, Function):
        return compiled.report()
    return Reports(function.report() for function in _functions(compiled))


def save_chrome_trace(compiled: Any, file: Any) -> None:
    """Writes how each program was compiled, and a step of it by operators with the memory alive, as a trace that Perfetto
    (https://ui.perfetto.dev) opens. Takes what report() takes."""
    events = []
    for function in _functions(compiled):
        before = max((event["pid"] for event in events), default=0)
        for event in json.loads(function.chrome_trace())["traceEvents"]:
            events.append(event | {"pid": event["pid"] + before})
    with open(file, "w") as out:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, out)


def _functions(compiled: Any) -> list[Function]:
    if isinstance(compiled, Function):
        return [compiled]
    functions = functions_of(compiled)
    if not functions:
        raise TypeError(
            "expected what antegrad.compile or torch.compile(..., backend='antegrad') returned, or a module with such parts, after "
            f"its first call; found {type(compiled).__name__}"
        )
    return functions


def _html_of(report: Report) -> str:
    """The text, and predicted memory over a step of the newest programs. Each picture is an image of its own, so that styles
    stay apart."""
    shown = report.programs[-_MOST_PICTURES:]
    pictures = (base64.b64encode(program.memory_chart().encode()).decode() for program in shown)
    images = (f'<img src="data:image/svg+xml;base64,{picture}" alt="memory alive over a step" style="max-width: 100%">'
              for picture in pictures)
    left_out = len(report.programs) - len(shown)
    note = f"<p>Pictures of the newest {len(shown)} programs; {left_out} older ones have none.</p>" if left_out else ""
    return f"<pre>{html.escape(str(report))}</pre>{note}{''.join(images)}"


Report._repr_html_ = _html_of
