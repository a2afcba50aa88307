"""Models of the examples with a batch, as named on the command lines of peers."""

import torch

import gpt
from models import Mlp, ResNet, Vit


def subject(name, words):
    """The model and a batch for one of

    gpt THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH
    resnet THREADS BATCH IMAGE CLASSES BLOCKS WIDTH...
    vit THREADS BATCH IMAGE CLASSES PATCH LAYERS WIDTH HEADS
    mlp THREADS BATCH LAYERS WIDTH DROPOUT
    """
    if name == "gpt":
        return gpt.from_command_line(words)
    threads, batch = map(int, words[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if name == "mlp":
        layers, width = map(int, words[2:4])
        return Mlp(layers, width, float(words[4])), torch.randn(batch, width), torch.randn(batch, width)
    image, classes, *shape = map(int, words[2:])
    model = Vit(image, classes, *shape) if name == "vit" else ResNet(classes, shape[0], shape[1:])
    return model, torch.randn(batch, 3, image, image), torch.randint(classes, (batch,))
