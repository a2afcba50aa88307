"""Recipes and kernels that are wrong on purpose have to be found. Run with pytest."""

import copy

import pytest
import torch

from check import check
from program import compile_c
from recipes import functions, read

CAPABILITY = torch.backends.cpu.get_cpu_capability().lower()
OPERATORS = read("pointwise.txt")


def differing(operator, dtype="f32", change=lambda text: text):
    library = compile_c(change(functions(operator, dtype, CAPABILITY)), CAPABILITY)
    return check(library, operator, dtype, CAPABILITY, [2]).wrong


def test_the_recipe_itself_is_exact():
    assert differing(OPERATORS["silu"]) == 0


@pytest.mark.parametrize("part, other", [("body", "tail"), ("tail", "body")])
def test_the_other_part_of_a_row_is_found(part, other):
    operator = copy.deepcopy(OPERATORS["gelu_tanh"])
    for row in operator.rows:
        setattr(row, part, getattr(row, other))
    if CAPABILITY != "default":  # there both call the C library
        assert differing(operator) > 0


def test_a_multiplication_that_is_not_fused_is_found():
    if CAPABILITY == "default":
        pytest.skip("ATen fuses nothing")
    change = lambda text: text.replace("muladd_f32", "SEPARATE").replace("SEPARATE", "unfused_f32")
    text = "#define unfused_f32(a, b, c) ((a) * (b) + (c))\n" + "".join(
        f"#define unfused_f32x{n}(a, b, c) ((a) * (b) + (c))\n" for n in (8, 16)
    )
    assert differing(OPERATORS["tanh_backward"], change=lambda t: text + change(t)) > 0


def test_vectors_of_another_length_are_found():
    if CAPABILITY != "avx512":
        pytest.skip("one length")
    operator = copy.deepcopy(OPERATORS["sigmoid"])
    operator.upto = "avx2"
    assert differing(operator) > 0


def test_a_wrong_index_is_found():
    shifted = lambda text: text.replace("buffers[1] + i", "buffers[1] + begin + (i > begin ? i - begin - 1 : 0)")
    assert differing(OPERATORS["neg"], change=shifted) > 0
