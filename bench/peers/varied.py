"""The models of bench/common/varied.h, in Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from gpt import Block


class Classifier(nn.Module):
    VOCABULARY, WIDTH, HEADS, LAYERS, CLASSES = 1000, 256, 4, 4, 10

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(self.VOCABULARY, self.WIDTH)
        self.blocks = nn.ModuleList(Block(self.WIDTH, self.HEADS, causal=False) for _ in range(self.LAYERS))
        self.out = nn.Linear(self.WIDTH, self.CLASSES)

    def batch(self, rows, length):
        lengths = torch.randint(1, length + 1, (rows, 1))
        return (torch.randint(self.VOCABULARY, (rows, length)), torch.arange(length) < lengths,
                torch.randint(self.CLASSES, (rows,)))

    def forward(self, tokens, mask, classes):
        h = self.embedding(tokens)
        for block in self.blocks:
            h = block(h, mask[:, None, None])
        weights = mask[:, :, None].to(h.dtype)
        return F.cross_entropy(self.out((h * weights).sum(1) / weights.sum(1)), classes)


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        shapes = [(3, 32, 2), (32, 64, 2), (64, 64, 1), (64, 64, 1), (64, 64, 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, stride, 1) for i, o, stride in shapes)
        self.scores, self.boxes = nn.Conv2d(64, 1, 1), nn.Conv2d(64, 4, 1)

    def batch(self, images, size):
        positions = images * size * size // 16
        return (torch.randn(images, 3, size, size), torch.randn(positions, 4),
                torch.randint(2, (positions,)).float())

    def forward(self, images, targets, labels):
        h = images
        for convolution in self.convolutions:
            h = convolution(h).relu()
        scores = self.scores(h).flatten()
        boxes = self.boxes(h).permute(0, 2, 3, 1).reshape(-1, 4)
        kept = (scores > scores.mean()).nonzero().squeeze(1)
        errors = F.smooth_l1_loss(boxes.index_select(0, kept), targets.index_select(0, kept), reduction="sum")
        return errors / (kept.shape[0] + 1) + F.binary_cross_entropy_with_logits(scores, labels)


class Gnn(nn.Module):
    FEATURES, WIDTH, LAYERS, CLASSES = 64, 128, 4, 10

    def __init__(self):
        super().__init__()
        self.inward, self.out = nn.Linear(self.FEATURES, self.WIDTH), nn.Linear(self.WIDTH, self.CLASSES)
        layers = lambda make: nn.ModuleList(make() for _ in range(self.LAYERS))
        self.messages = layers(lambda: nn.Linear(self.WIDTH, self.WIDTH))
        self.updates = layers(lambda: nn.Linear(2 * self.WIDTH, self.WIDTH))
        self.norms = layers(lambda: nn.LayerNorm(self.WIDTH))

    def batch(self, nodes, edges):
        ends = lambda: torch.randint(nodes, (edges,))
        return torch.randn(nodes, self.FEATURES), ends(), ends(), torch.randint(self.CLASSES, (nodes,))

    def forward(self, features, sources, targets, classes):
        h = self.inward(features)
        for message, update, norm in zip(self.messages, self.updates, self.norms):
            sent = message(h).relu().index_select(0, sources)
            received = torch.zeros_like(h).index_add(0, targets, sent)
            h = norm(h + update(torch.cat([h, received], 1)).relu())
        return F.cross_entropy(self.out(h), classes)
