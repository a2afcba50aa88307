"""Models with an encoder: BERT, ViT, and a T5-like one with a decoder."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from zoo.decoders import RmsNorm, embedding, heads_of

TOKENS, LENGTH, BATCH = 97, 20, 3
MASK, NOT_MASKED = TOKENS - 1, -100


# ---- BERT -------------------------------------------------------------------------------------------


def masked_sentences():
    """Tokens, some of them masked; the sentence of each token; the padding mask; the masked tokens; and whether the second
    sentence follows the first."""
    original = torch.randint(MASK, (BATCH, LENGTH))
    masked = torch.rand(BATCH, LENGTH) < 0.2
    masked[:, 1] = True
    places, lengths = torch.arange(LENGTH), torch.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1))
    segments = (places >= lengths // 2).long()
    labels = original.where(masked & (places < lengths), NOT_MASKED)
    return original.where(~masked, MASK), segments, places < lengths, labels, torch.randint(2, (BATCH,))


class SelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        q, k, v = (heads_of(project(x), self.heads) for project in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
        return self.out((self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))


class BertLayer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention, self.attention_norm = SelfAttention(width, heads, dropout), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down, self.norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        x = self.attention_norm(x + self.dropout(self.attention(x, bias)))
        return self.norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    def __init__(self, width=48, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.tokens, self.segments = embedding(TOKENS, width), embedding(2, width)
        self.positions = embedding(LENGTH, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        self.layers = nn.ModuleList(BertLayer(width, heads, dropout) for _ in range(layers))
        self.pooler, self.follows = nn.Linear(width, width), nn.Linear(width, 2)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, eps=1e-12))
        self.bias = nn.Parameter(torch.zeros(TOKENS))
        self.register_buffer("places", torch.arange(LENGTH))

    def forward(self, tokens, segments, there):
        x = self.tokens(tokens) + self.segments(segments) + self.positions(self.places)
        x = self.dropout(self.norm(x))
        bias = torch.zeros(there.shape, dtype=x.dtype).masked_fill(~there, torch.finfo(x.dtype).min)[:, None, None]
        for layer in self.layers:
            x = layer(x, bias)
        logits = F.linear(self.transform(x), self.tokens.weight, self.bias)
        return logits, self.follows(self.pooler(x[:, 0]).tanh())


def pretraining_loss(model, tokens, segments, there, labels, follows):
    logits, answer = model(tokens, segments, there)
    masked = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NOT_MASKED)
    return masked + F.cross_entropy(answer, follows)


# ---- ViT --------------------------------------------------------------------------------------------


class Vit(nn.Module):
    """Patches by a strided convolution, a class token, libtorch's own encoder layers."""

    def __init__(self, image=32, patch=8, width=48, heads=4, layers=3, classes=10, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (image // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])


# ---- T5 ---------------------------------------------------------------------------------------------


def source_and_target():
    return torch.randint(1, TOKENS, (BATCH, LENGTH)), torch.randint(1, TOKENS, (BATCH, LENGTH // 2))


class RelativeBias(nn.Module):
    """A learned bias for each distance. Large distances share buckets of logarithmic width."""

    def __init__(self, heads, both_ways, buckets=16, farthest=32):
        super().__init__()
        self.both_ways, self.buckets, self.farthest = both_ways, buckets, farthest
        self.bias = embedding(buckets, heads)

    def bucket_of(self, offset):
        buckets, first = self.buckets, torch.zeros_like(offset)
        if self.both_ways:
            buckets //= 2
            first = (offset > 0) * buckets
        distance = offset.abs() if self.both_ways else (-offset).clamp(min=0)
        exact = buckets // 2
        far = torch.log(distance.clamp(min=1) / exact) / math.log(self.farthest / exact) * (buckets - exact)
        far = (exact + far.long()).clamp(max=buckets - 1)
        return first + distance.where(distance < exact, far)

    def forward(self, queries, keys):
        offset = torch.arange(keys) - torch.arange(queries)[:, None]
        return self.bias(self.bucket_of(offset)).permute(2, 0, 1)[None]


class T5Attention(nn.Module):
    """Attention without scaling; the initial weights are scaled instead."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, source, bias):
        q, k, v = (heads_of(y, self.heads) for y in (self.q(x), self.k(source), self.v(source)))
        weights = (q @ k.transpose(-1, -2) + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class T5Layer(nn.Module):
    def __init__(self, width, heads, dropout, crossed):
        super().__init__()
        self.attention, self.attention_norm = T5Attention(width, heads), RmsNorm(width)
        self.cross, self.cross_norm = (T5Attention(width, heads), RmsNorm(width)) if crossed else (None, None)
        self.feed_forward = nn.Sequential(
            RmsNorm(width), nn.Linear(width, 2 * width, bias=False), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(2 * width, width, bias=False),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias, source=None):
        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, bias))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), source, 0.0))
        return x + self.dropout(self.feed_forward(x))


class T5(nn.Module):
    def __init__(self, width=48, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.tokens, self.width = embedding(TOKENS, width), width
        self.encoder = nn.ModuleList(T5Layer(width, heads, dropout, crossed=False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Layer(width, heads, dropout, crossed=True) for _ in range(layers))
        self.encoder_bias, self.decoder_bias = RelativeBias(heads, both_ways=True), RelativeBias(heads, both_ways=False)
        self.encoder_norm, self.decoder_norm = RmsNorm(width), RmsNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source, target):
        x = self.dropout(self.tokens(source))
        bias = self.encoder_bias(source.shape[1], source.shape[1])
        for layer in self.encoder:
            x = layer(x, bias)
        encoded = self.dropout(self.encoder_norm(x))
        length = target.shape[1]
        future = torch.full((length, length), -math.inf).triu(1)
        bias = self.decoder_bias(length, length) + future
        y = self.dropout(self.tokens(F.pad(target[:, :-1], (1, 0))))  # token 0 is the start token
        for layer in self.decoder:
            y = layer(y, bias, encoded)
        return self.dropout(self.decoder_norm(y)) * self.width**-0.5 @ self.tokens.weight.T


def translation_loss(model, source, target):
    return F.cross_entropy(model(source, target).flatten(0, 1), target.flatten(), label_smoothing=0.1)
