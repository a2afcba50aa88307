"""antegrad's partitions of whole models: with kernels that run one by one, results, gradients and buffers have the bits of
AOTAutograd's own partition; under Inductor, the errors of its own."""

import functools
import importlib.util
import pathlib
import sys

import antegrad
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from partitioned import SETTINGS, Partitioned, expect_same_bits, inductor, partitioned

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))

from zoo import PLAIN
from zoo.published import PUBLISHED
from zoo.training import Training


def mlp():
    return nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1)) for _ in range(4)))


MLP = Training("mlp", mlp, lambda: (torch.randn(16, 32),), lambda model, x: model(x).square().mean())
PUBLISHED = PUBLISHED if importlib.util.find_spec("transformers") else ()
TRAININGS = {training.name: training for training in (MLP, *PLAIN, *PUBLISHED)}
# Many have dropout: mlp, gpt, bert, t5, BERT, GPT2, DistilBERT, T5, Whisper.
MODELS = [name for name in (
    "mlp", "gpt", "llama", "mixture of experts", "bert", "vit", "t5", "resnet50", "mobilenet", "unet", "convnext", "vae", "gnn",
    "dlrm", "BertForMaskedLM", "GPT2LMHeadModel", "DistilBertForMaskedLM", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
    "MixtralForCausalLM", "T5ForConditionalGeneration", "WhisperForConditionalGeneration", "ViTForImageClassification",
    "ResNetForImageClassification", "SwinForImageClassification") if name in TRAININGS]
SHORT = {"mlp": ("share 0.25",), "gpt": ("share 0.25", "share 0.0"), "bert": ("ratio 0.5",), "BertForMaskedLM": ("share 0.0",),
         "LlamaForCausalLM": ("minimum cut",)}


def cases():
    for name in MODELS:
        for setting in SETTINGS:
            marks = () if setting in SHORT.get(name, ()) else pytest.mark.long
            yield pytest.param(name, setting, marks=marks, id=f"{name}-{setting}")


def two_steps(name, compile, dtype=torch.float32, training_mode=True):
    """Losses, gradients and buffers of two steps with equal parameters."""
    training = TRAININGS[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = training.model().to(dtype).train(training_mode)
    compiled = compile(model)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        batch = tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, training.batch())
        model.zero_grad()
        loss = training.losses(compiled, *batch)
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        found += [buffer.clone() for buffer in model.buffers()]
    return found


@functools.cache
def as_aot_eager(name):
    """Two steps with the backend aot_eager, and the bytes that it saves."""
    backend = Partitioned()
    return two_steps(name, backend.compile), backend.saved_bytes()


@pytest.mark.parametrize("name,setting", list(cases()))
def test_a_step_has_the_bits_of_aot_eager(name, setting):
    partition = partitioned(setting)
    found = two_steps(name, partition.compile)
    expected, saved_bytes = as_aot_eager(name)
    expect_same_bits(found, expected)
    assert partition.records()
    if setting == "minimum cut":
        assert partition.saved_bytes() <= saved_bytes


def error(found, exact):
    difference = sum((a.double() - b.double()).square().sum() for a, b in zip(found, exact, strict=True))
    return (difference / sum(b.double().square().sum() for b in exact)).sqrt().item()


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in (
    "mlp", "gpt", "bert", "LlamaForCausalLM", "ViTForImageClassification", "ResNetForImageClassification") if name in TRAININGS])
def test_under_inductor_the_error_is_that_of_its_own_partition(name):
    """Measured against float64. Dropout is off, as Inductor draws other numbers than eager mode."""
    run = functools.partial(two_steps, name, training_mode="esnet" in name.lower())
    exact = run(lambda model: model, dtype=torch.float64)
    with inductor(None):
        own = error(run(torch.compile), exact)
    for setting in ("minimum cut", "share 0.5", "share 0.0"):
        partitioner = antegrad.inductor_partitioner(**SETTINGS[setting])
        with inductor(partitioner):
            assert error(run(torch.compile), exact) <= 2 * own, setting
        assert partitioner.records
