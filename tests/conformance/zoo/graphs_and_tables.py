"""A graph network by message passing, and DLRM for tables of categories and numbers."""

import torch
from torch import nn
from torch.nn import functional as F

# ---- graph attention --------------------------------------------------------------------------------

NODES, EDGES, FEATURES, CLASSES = 40, 160, 12, 5


def graph_and_classes():
    return torch.randn(NODES, FEATURES), torch.randint(NODES, (2, EDGES)), torch.randint(CLASSES, (NODES,))


class GraphAttention(nn.Module):
    """Messages along edges, weighted by a softmax over the incoming edges of each node."""

    def __init__(self, inputs, outputs, heads):
        super().__init__()
        self.heads, self.width = heads, outputs // heads
        self.project, self.root = nn.Linear(inputs, outputs, bias=False), nn.Linear(inputs, outputs)
        self.source, self.target = (nn.Parameter(0.1 * torch.randn(heads, self.width)) for _ in range(2))

    def forward(self, x, edges):
        source, target = edges
        nodes = self.project(x).view(-1, self.heads, self.width)
        score = (nodes * self.source).sum(-1)[source] + (nodes * self.target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        index = target[:, None].expand_as(score)
        highest = score.new_zeros(len(x), self.heads).scatter_reduce(0, index, score.detach(), "amax", include_self=False)
        weight = (score - highest[target]).exp()
        total = torch.zeros_like(highest).scatter_add(0, index, weight)
        messages = nodes[source] * (weight / total[target])[..., None]
        return self.root(x) + torch.zeros_like(nodes).index_add(0, target, messages).flatten(1)


class Gnn(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.first, self.second = GraphAttention(FEATURES, width, heads), GraphAttention(width, width, heads)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x, edges):
        x = F.dropout(F.elu(self.first(x, edges)), 0.2, self.training)
        return self.head(self.norm(x + self.second(x, edges)))


def node_loss(model, features, edges, labels):
    return F.cross_entropy(model(features, edges), labels)


# ---- DLRM -------------------------------------------------------------------------------------------

SAMPLES, NUMBERS, TABLES, IN_A_BAG = 16, 13, (50, 20, 120, 8), 3


def clicks():
    """Numbers, and for each table the categories of all samples with the offset of each sample."""
    categories = torch.stack([torch.randint(rows, (SAMPLES * IN_A_BAG,)) for rows in TABLES])
    offsets = torch.arange(0, SAMPLES * IN_A_BAG, IN_A_BAG)
    return torch.rand(SAMPLES, NUMBERS), categories, offsets, torch.randint(2, (SAMPLES,)).float()


class Dlrm(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in TABLES)
        pairs = torch.tril_indices(len(TABLES) + 1, len(TABLES) + 1, offset=-1)
        self.register_buffer("pairs", pairs)
        self.top = nn.Sequential(nn.Linear(width + pairs.shape[1], 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))

    def forward(self, numbers, categories, offsets):
        dense = self.bottom(numbers)
        bags = [table(indices, offsets) for table, indices in zip(self.tables, categories)]
        vectors = torch.stack([dense, *bags], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((dense, products), dim=1))


def click_loss(model, numbers, categories, offsets, clicked):
    return F.binary_cross_entropy_with_logits(model(numbers, categories, offsets), clicked)
