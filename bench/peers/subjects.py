"""Models of the examples with a batch, as named on the command lines of peers."""

import torch

import gpt
from models import Cnn, Lstm, Mlp, ResNet, ResNet50, Vit


def subject(name, words):
    """The model and a batch for one of

    gpt THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH
    resnet THREADS BATCH IMAGE CLASSES BLOCKS WIDTH...
    vit THREADS BATCH IMAGE CLASSES PATCH LAYERS WIDTH HEADS
    resnet50 THREADS BATCH IMAGE
    cnn THREADS BATCH IMAGE CLASSES CHANNELS...
    mlp THREADS BATCH LAYERS WIDTH DROPOUT
    lstm THREADS BATCH VOCABULARY WIDTH STEPS

    A last word "bf16" makes all numbers those; "cuda" behind it moves model and batch to the GPU.
    """
    if words[-1] == "cuda":
        return tuple(part.cuda() for part in subject(name, words[:-1]))
    if words[-1] == "bf16":
        model, *batch = subject(name, words[:-1])
        return model.bfloat16(), *(x.bfloat16() if x.is_floating_point() else x for x in batch)
    if name == "gpt":
        return gpt.from_command_line(words)
    threads, batch = map(int, words[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if name == "mlp":
        layers, width = map(int, words[2:4])
        return Mlp(layers, width, float(words[4])), torch.randn(batch, width), torch.randn(batch, width)
    if name == "lstm":
        vocabulary, width, steps = map(int, words[2:])
        return Lstm(vocabulary, width), *(torch.randint(vocabulary, (batch, steps)) for _ in range(2))
    if name == "resnet50":
        words = [*words, "1000"]
    image, classes, *shape = map(int, words[2:])
    model = {
        "vit": lambda: Vit(image, classes, *shape),
        "resnet": lambda: ResNet(classes, shape[0], shape[1:]),
        "resnet50": ResNet50,
        "cnn": lambda: Cnn(image, classes, shape),
    }[name]()
    return model, torch.randn(batch, 3, image, image), torch.randint(classes, (batch,))
