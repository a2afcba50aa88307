"""Convolutional networks: ResNet-50, MobileNetV2, UNet, ConvNeXt."""

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 10


def images_and_classes(size=64, batch=4):
    return torch.randn(batch, 3, size, size), torch.randint(CLASSES, (batch,))


def classification_loss(model, images, labels):
    return F.cross_entropy(model(images), labels)


def convolution(inputs, outputs, size, stride=1, groups=1, activation=nn.ReLU):
    """A convolution without bias, batch norm and, if given, an in-place activation."""
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    ]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class Bottleneck(nn.Module):
    EXPANSION = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = self.EXPANSION * width
        self.body = nn.Sequential(
            convolution(inputs, width, 1), convolution(width, width, 3, stride),
            convolution(width, outputs, 1, activation=None),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride, activation=None)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


class ResNet50(nn.Module):
    """As published: 50 layers, 25,557,032 parameters with 1,000 classes."""

    def __init__(self, classes=CLASSES):
        super().__init__()
        stages, inputs = [], 64
        for i, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(blocks):
                stages.append(Bottleneck(inputs, width, 2 if i > 0 and block == 0 else 1))
                inputs = Bottleneck.EXPANSION * width
        self.stem = nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, padding=1))
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(inputs, classes)

    def forward(self, images):
        return self.head(self.stages(self.stem(images)).mean((2, 3)))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = expansion * inputs
        self.residual = stride == 1 and inputs == outputs
        expand = [convolution(inputs, hidden, 1, activation=nn.ReLU6)] if expansion > 1 else []
        self.body = nn.Sequential(
            *expand, convolution(hidden, hidden, 3, stride, groups=hidden, activation=nn.ReLU6),
            convolution(hidden, outputs, 1, activation=None),
        )

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    """As published: 3,504,872 parameters with 1,000 classes."""

    # expansion, channels, blocks, stride of the first
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes=CLASSES):
        super().__init__()
        layers, inputs = [convolution(3, 32, 3, 2, activation=nn.ReLU6)], 32
        for expansion, outputs, blocks, stride in self.STAGES:
            for block in range(blocks):
                layers.append(InvertedResidual(inputs, outputs, stride if block == 0 else 1, expansion))
                inputs = outputs
        self.features = nn.Sequential(*layers, convolution(inputs, 1280, 1, activation=nn.ReLU6))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, images):
        return self.head(F.adaptive_avg_pool2d(self.features(images), 1).flatten(1))


class UNet(nn.Module):
    """Max pooling down, transposed convolutions up, with skip connections between equal levels."""

    def __init__(self, widths=(16, 32, 64, 128), classes=4):
        super().__init__()
        twice = lambda inputs, outputs: nn.Sequential(convolution(inputs, outputs, 3), convolution(outputs, outputs, 3))
        self.down = nn.ModuleList(twice(*pair) for pair in zip((3, *widths[:-1]), widths))
        above = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(inputs, outputs, 2, stride=2) for inputs, outputs in above)
        self.join = nn.ModuleList(twice(2 * outputs, outputs) for _, outputs in above)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        levels = []
        for level in self.down:
            x = level(F.max_pool2d(x, 2) if levels else x)
            levels.append(x)
        levels.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat((levels.pop(), up(x)), dim=1))
        return self.head(x)


def images_and_masks():
    return torch.randn(2, 3, 32, 32), torch.randint(4, (2, 32, 32))


class ChannelsNorm(nn.LayerNorm):
    """Layer norm over the channels of an image."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width, dropped):
        super().__init__()
        self.dropped = dropped
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        if self.training and self.dropped:  # drops whole images
            kept = 1 - self.dropped
            y = y * torch.empty(len(y), 1, 1, 1).bernoulli_(kept) / kept
        return x + y


class ConvNext(nn.Module):
    def __init__(self, widths=(24, 48, 96, 192), depths=(2, 2, 4, 2), dropped=0.2, classes=CLASSES):
        super().__init__()
        rates = iter(torch.linspace(0, dropped, sum(depths)).tolist())
        layers = [nn.Conv2d(3, widths[0], 4, stride=4), ChannelsNorm(widths[0])]
        for i, (width, depth) in enumerate(zip(widths, depths)):
            if i > 0:
                layers += [ChannelsNorm(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, stride=2)]
            layers += [ConvNextBlock(width, next(rates)) for _ in range(depth)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes))

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))
