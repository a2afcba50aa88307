"""The words for what becomes of a case, and which errors are refusals."""

import re

import antegrad

STATUSES = ("passed", "refused", "failed", "crashed", "not in eager")


def outcome_of(error):
    """Refused by a typed error, which may have lost its type on its way through frames of libtorch's, or failed."""
    typed = isinstance(error, antegrad.CaptureError)
    refused = typed or re.match(r"(aten::\w+: |data_ptr: )?expected .*; found ", str(error).replace("\n", " "))
    return {"status": "refused" if refused else "failed", "kind": type(error).__name__, "detail": first_line(error)}


def first_line(error):
    return str(error).strip().split("\n")[0][:300]
