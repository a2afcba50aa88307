"""Language models that predict the next token: GPT, Llama-like, a mixture of experts, LSTM."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS, LENGTH, BATCH = 97, 24, 3


def tokens_and_next():
    tokens = torch.randint(TOKENS, (BATCH, LENGTH + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def next_token_loss(model, tokens, following):
    return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def embedding(rows, width):
    table = nn.Embedding(rows, width)
    nn.init.normal_(table.weight, std=0.02)
    return table


def heads_of(x, heads):
    """[batch, length, heads * width] as [batch, heads, length, width]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class CausalAttention(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (heads_of(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.norm(x)))


class Gpt(nn.Module):
    """Learned positions, dropout in three places, the head tied to the embedding."""

    def __init__(self, width=48, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.tokens, self.positions = embedding(TOKENS, width), embedding(LENGTH, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(GptBlock(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(self.dropout(x))))


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_angles(width, length, base=10_000.0):
    """cos and sin of each position's angles, [length, width]."""
    frequencies = base ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class GroupedQueryAttention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, width // heads * groups, bias=False) for _ in range(2))

    def forward(self, x, cos, sin):
        q, k = rotated(heads_of(self.q(x), self.heads), cos, sin), rotated(heads_of(self.k(x), self.groups), cos, sin)
        v = heads_of(self.v(x), self.groups)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.attention_norm, self.norm = RmsNorm(width), RmsNorm(width)
        self.attention, self.feed_forward = GroupedQueryAttention(width, heads, groups), SwiGlu(width, 8 * width // 3)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.norm(x))


class Llama(nn.Module):
    def __init__(self, width=48, heads=4, groups=2, layers=3):
        super().__init__()
        self.tokens = embedding(TOKENS, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, TOKENS, bias=False)
        for name, value in zip(("cos", "sin"), rotary_angles(width // heads, LENGTH)):
            self.register_buffer(name, value, persistent=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]])
        return self.head(self.norm(x))


class Experts(nn.Module):
    """Routes each token to its two best experts. An expert takes at most `capacity` tokens, the earliest ones, so that all sizes
    are fixed; tokens are sent and gathered by products with one-hot tensors. The second result is the loss that balances
    the load of the experts."""

    def __init__(self, width, experts=4, chosen=2, capacity_factor=1.25):
        super().__init__()
        self.chosen, self.capacity_factor = chosen, capacity_factor
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * (2 * width) ** -0.5)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        experts = self.router.out_features
        capacity = int(self.capacity_factor * self.chosen * len(tokens) / experts)
        probabilities = self.router(tokens).softmax(-1)
        weights, indices = probabilities.topk(self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        # The first choices of all tokens have priority over the second ones.
        choices = F.one_hot(indices.T.flatten(), experts)
        place = ((choices.cumsum(0) - 1) * choices).sum(-1)
        slots = F.one_hot(place.clamp(max=capacity), capacity + 1)[:, :capacity]
        sent = torch.einsum("ne,nc->nec", choices, slots).unflatten(0, (self.chosen, -1)).to(x.dtype)
        inputs = torch.einsum("knec,nd->ecd", sent, tokens)
        outputs = torch.einsum("knec,nk,ecd->nd", sent, weights, F.gelu(inputs @ self.up) @ self.down)
        busy = F.one_hot(indices[:, 0], experts).to(x.dtype).mean(0)
        return outputs.view_as(x), experts * (busy * probabilities.mean(0)).sum()


class ExpertsBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.experts = CausalAttention(width, heads), Experts(width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        y, balance = self.experts(self.norm(x))
        return x + y, balance


class MixtureOfExperts(nn.Module):
    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.tokens, self.positions = embedding(TOKENS, width), embedding(LENGTH, width)
        self.blocks = nn.ModuleList(ExpertsBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS)

    def forward(self, tokens):
        x, balances = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]], []
        for block in self.blocks:
            x, balance = block(x)
            balances.append(balance)
        return self.head(self.norm(x)), torch.stack(balances).mean()


def balanced_next_token_loss(model, tokens, following):
    logits, balance = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), following.flatten()) + 0.01 * balance


class LstmLanguageModel(nn.Module):
    def __init__(self, width=40, layers=2, dropout=0.2):
        super().__init__()
        self.tokens, self.dropout = embedding(TOKENS, width), nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, TOKENS)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x, _ = self.lstm(self.dropout(self.tokens(tokens)))
        return self.head(self.dropout(x))
