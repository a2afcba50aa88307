"""The `mode` names of torch.compile, as options of antegrad."""

from __future__ import annotations

from typing import Any, Literal

from antegrad._C import OptionError

Mode = Literal["default", "max-autotune-no-cudagraphs"]
_OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    # As there: measures more while it compiles. What is measured and searched are plans for memory budgets.
    "max-autotune-no-cudagraphs": {"budget_effort": "thorough", "budget_profile": "measured"},
}
_REFUSED = {
    "reduce-overhead": "records CUDA graphs",
    "max-autotune": "records CUDA graphs besides measuring",
}


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """The options that a mode stands for; none for None. Raises OptionError for a name that means nothing here."""
    if mode is None:
        return {}
    if mode in _OPTIONS:
        return _OPTIONS[mode]
    found = repr(mode)
    if mode in _REFUSED:
        found += f", which {_REFUSED[mode]}; antegrad records none: record the whole step with torch.cuda.graph"
    raise OptionError(f"antegrad: expected one of {', '.join(map(repr, _OPTIONS))} as mode; found {found}")
