"""The GPT of examples/common/models.h, in Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def from_command_line(words):
    """Model, tokens and targets for THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH."""
    threads, vocabulary, layers, width, heads, context, batch = map(int, words)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Gpt(vocabulary, layers, width, heads, context)
    return model, *(torch.randint(vocabulary, (batch, context)) for _ in range(2))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)

    def attention(self, x, mask):
        batch, time, width = x.shape
        split = lambda t: t.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(split(q), split(k), split(v), mask, is_causal=self.causal)
        return self.attention_out(mixed.transpose(1, 2).reshape(batch, time, width))

    def forward(self, x, mask=None):
        h = x + self.attention(self.attention_norm(x), mask)
        return h + self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(h)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, context):
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.embedding.weight, 0, 0.02)

    def forward(self, tokens, targets):
        h = self.embedding(tokens) + self.positions.narrow(0, 0, tokens.shape[1])
        for block in self.blocks:
            h = block(h)
        logits = F.linear(self.norm(h), self.embedding.weight)
        return F.cross_entropy(logits.view(-1, self.vocabulary), targets.view(-1))
