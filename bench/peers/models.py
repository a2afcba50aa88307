"""The models of examples/common and of bench/common, in Python, without the GPT."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from gpt import Block


class Mlp(nn.Module):
    def __init__(self, layers, width, dropout):
        super().__init__()
        layer = lambda: (nn.LayerNorm(width), nn.Linear(width, width), nn.GELU("tanh"), nn.Dropout(dropout))
        self.layers = nn.Sequential(*(module for _ in range(layers) for module in layer()))

    def forward(self, x, targets):
        return F.mse_loss(self.layers(x), targets)


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Cnn(nn.Module):
    def __init__(self, image, classes, channels):
        super().__init__()
        layers = []
        for before, after in zip(channels, channels[1:]):
            for inputs in (before, after):
                layers += [convolution(inputs, after, 3), nn.BatchNorm2d(after), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
            image //= 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels[-1] * image * image, classes)

    def forward(self, images, classes):
        return F.cross_entropy(self.classifier(self.features(images).flatten(1)), classes)


class Lstm(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.vocabulary, self.width = vocabulary, width
        self.embedding = nn.Embedding(vocabulary, width)
        self.cell = nn.LSTMCell(width, width)
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, tokens, targets):
        state = (torch.zeros(len(tokens), self.width),) * 2
        outputs = []
        for x in self.embedding(tokens).unbind(1):
            state = self.cell(x, state)
            outputs.append(state[0])
        logits = self.classifier(torch.stack(outputs, 1))
        return F.cross_entropy(logits.view(-1, self.vocabulary), targets.view(-1))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.first_norm = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut, self.shortcut_norm = convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)

    def forward(self, x):
        branch = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(branch + (x if self.shortcut is None else self.shortcut_norm(self.shortcut(x))))


class ResNet(nn.Module):
    def __init__(self, classes, blocks, widths):
        super().__init__()
        self.stem, self.stem_norm = convolution(3, widths[0], 3), nn.BatchNorm2d(widths[0])
        inputs = [widths[0], *(width for width in widths for _ in range(blocks))]
        self.blocks = nn.ModuleList(
            ResidualBlock(before, after, 2 if i > 0 and i % blocks == 0 else 1)
            for i, (before, after) in enumerate(zip(inputs, inputs[1:])))
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, images, classes):
        h = F.relu(self.stem_norm(self.stem(images)))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.classifier(h.mean((2, 3))), classes)


class Bottleneck(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        inner = outputs // 4
        self.convolutions = nn.ModuleList((convolution(inputs, inner, 1), convolution(inner, inner, 3, stride),
                                           convolution(inner, outputs, 1)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for channels in (inner, inner, outputs))
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut, self.shortcut_norm = convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)

    def forward(self, x):
        h = x
        for i, (layer, norm) in enumerate(zip(self.convolutions, self.norms)):
            h = norm(layer(h if i == 0 else F.relu(h)))
        return F.relu(h + (x if self.shortcut is None else self.shortcut_norm(self.shortcut(x))))


class ResNet50(nn.Module):
    """For images of 224 x 224 pixels and 1000 classes."""

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for count, width, stride in ((3, 256, 1), (4, 512, 2), (6, 1024, 2), (3, 2048, 2)):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width, stride if i == 0 else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, 1000)

    def forward(self, images, classes):
        h = F.max_pool2d(F.relu(self.stem_norm(self.stem(images))), 3, 2, 1)
        return F.cross_entropy(self.classifier(self.blocks(h).mean((2, 3))), classes)


class Vit(nn.Module):
    def __init__(self, image, classes, patch, layers, width, heads):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.randn((image // patch) ** 2, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, causal=False) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, images, classes):
        h = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.classifier(self.norm(h).mean(1)), classes)
