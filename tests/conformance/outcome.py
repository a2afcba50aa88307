"""The names of outcomes of a case, and the errors that are refusals."""

import re

import antegrad

STATUSES = ("passed", "refused", "failed", "crashed", "not in eager")


def outcome_of(error):
    """Refused by a typed error, which may have lost its type in frames of libtorch, or failed."""
    typed = isinstance(error, antegrad.CaptureError)
    refused = typed or re.match(r"(aten::\w+: |data_ptr: )?expected .*; found ", str(error).replace("\n", " "))
    return {"status": "refused" if refused else "failed", "kind": type(error).__name__, "detail": first_line(error)}


def first_line(error):
    return str(error).strip().split("\n")[0][:300]
