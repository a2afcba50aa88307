"""Whether a kernel of the level `close` is as accurate as eager: both are measured against the same nodes in float64."""

import dataclasses
import math

import torch


@dataclasses.dataclass
class Errors:
    """Errors of one result, in units of the last place of the exact result."""

    mean: float  # of log2(1 + units): what most elements have, whatever a few have that cancel
    largest: float  # in absolute terms
    units: float  # the most


def units(reference, dtype):
    """The distance of neighbouring numbers of the type at each element; of elements below the last place of the largest
    one, that at this place: float64 itself loses them where large numbers cancel."""
    info = torch.finfo(dtype)
    least = max(info.smallest_normal, info.eps * reference.abs().max().item())
    _, exponent = torch.frexp(reference.abs().clamp(min=least))
    return torch.ldexp(torch.full_like(reference, info.eps), exponent.double() - 1)


def same_kind(a, b):
    """Both NaN, the same infinity, or finite."""
    return (a.isnan() & b.isnan()) | (a == b) | (a.isfinite() & b.isfinite())


# Far more than any formula loses: to tell what is wrong from what is rounded otherwise.
GROSS = 2.0**12


# Elements, whose errors are chance: one unit.
FEW = 32


def close_errors(kernel, eager, reference, signs=True, wider=True, low=None, samples=None):
    """Errors of kernel and eager, and in words why the kernel is worse; "" if it is not. `signs`: of zeros, too, which are
    chance where a sum of several elements is 0. `wider`: the reference was computed in a wider type than eager's. `low`:
    what the reference is off, where float64 does not hold it. `samples`: elements that differ, if not all."""
    if not kernel.is_floating_point():
        neither = (kernel != eager) & (kernel != reference)
        return None, None, f"{int(neither.sum())} elements that neither eager nor float64 has" if neither.any() else ""
    reference = reference.double()
    # A number that is infinite in the result's type is so in the reference.
    rounded = reference.to(kernel.dtype).double()
    lost = same_kind(eager.double(), rounded) & ~same_kind(kernel.double(), rounded)
    lost &= rounded.isfinite() | kernel.isfinite() | ~rounded.isnan()  # an infinity instead of NaN
    if not wider:  # the reference may overflow on its way, too
        lost &= eager.isfinite()
    wrong = lost | (kernel.isnan() & ~eager.isnan() & ~rounded.isnan())
    where = kernel.isfinite() & eager.isfinite() & reference.isfinite()
    exact = reference[where]
    unit = units(exact, kernel.dtype) if where.any() else exact
    beyond = 0 if low is None else low[where]
    distances = [(found[where].double() - exact - beyond).abs() for found in (kernel, eager)]
    logs = [(distance / unit + 1).log2() for distance in distances]
    ours, theirs = [
        Errors(log.mean().item(), distance.max().item(), (distance / unit).max().item()) if len(log) else Errors(0, 0, 0)
        for log, distance in zip(logs, distances)
    ]
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        return ours, theirs, f"{int(wrong.sum())} elements of another kind: {kernel[at]}, eager {eager[at]}, exact {reference[at]}"
    zeros = (kernel == 0) & (eager == 0) & (reference == 0)
    flipped = zeros & (kernel.signbit() != eager.signbit()) & (kernel.signbit() != reference.signbit())
    if signs and flipped.any():
        return ours, theirs, f"{int(flipped.sum())} zeros have another sign than eager's and the exact one"
    if not wider:
        return ours, theirs, f"{ours.units:.3g} units from eager's" if ours.units > GROSS else ""
    if len(exact) < FEW and ours.units <= 1:
        return ours, theirs, ""
    # By chance the errors of few elements are larger.
    samples = min(samples or len(exact), len(exact))
    chance = 4 * (logs[0] - logs[1]).std().item() / math.sqrt(samples) if samples > 1 else 1
    if ours.mean > theirs.mean + 0.02 + chance:
        return ours, theirs, f"mean of log2(1 + units) {ours.mean:.3f}, of eager {theirs.mean:.3f}"
    if (distances[0] > unit + 2 * theirs.largest).any():
        return ours, theirs, f"largest error {ours.largest:.3g}, {ours.units:.3g} units; of eager {theirs.largest:.3g}"
    return ours, theirs, ""
