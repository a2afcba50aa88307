"""Small models of real architectures, whose joint graphs the partitioner's tests use.

Each function in MODELS returns a module in training mode and its arguments.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    """Residual blocks with layer norm and dropout."""

    def __init__(self, depth, width, classes):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x, labels):
        for norm, layer in zip(self.norms, self.layers):
            x = x + F.dropout(F.gelu(layer(norm(x))), 0.1, self.training)
        return F.cross_entropy(self.head(x), labels)


class Autocast(nn.Module):
    """A model under mixed precision."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(*args)


def heads(x, count):
    batch, length, width = x.shape
    return x.view(batch, length, count, width // count).transpose(1, 2)


class GptBlock(nn.Module):
    def __init__(self, width, count, dropout):
        super().__init__()
        self.count, self.dropout = count, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (heads(part, self.count) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class Gpt(nn.Module):
    """Learned positions, causal attention in one operator, the head tied to the embedding."""

    def __init__(self, depth=2, width=64, count=4, words=256, length=32):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, count, 0.1) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width, count, groups, hidden):
        super().__init__()
        self.count, self.groups = count, groups
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width // count * groups, bias=False)
        self.value = nn.Linear(width, width // count * groups, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q = rotate(heads(self.query(y), self.count), cos, sin)
        k = rotate(heads(self.key(y), self.groups), cos, sin)
        k, v = (t.repeat_interleave(self.count // self.groups, 1) for t in (k, heads(self.value(y), self.groups)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Rotary positions, root mean square norms, grouped queries, gated hidden layers."""

    def __init__(self, depth=2, width=64, count=4, groups=2, hidden=160, words=256):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, count, groups, hidden) for _ in range(depth))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, words, bias=False)
        self.size = width // count

    def forward(self, tokens, targets):
        rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), rates).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class BertBlock(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.count = count
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x, padding):
        q, k, v = (heads(layer(x), self.count) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = self.dropout(scores.masked_fill(padding[:, None, None, :], -1e9).softmax(-1))
        x = self.norm1(x + self.dropout(self.out((weights @ v).transpose(1, 2).reshape(x.shape))))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """Attention written out, with dropout and a padding mask; norms after the blocks. Returns two results."""

    def __init__(self, depth=2, width=64, count=4, words=256, length=32):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(BertBlock(width, count) for _ in range(depth))
        self.norm, self.head, self.pooler = nn.LayerNorm(width), nn.Linear(width, words), nn.Linear(width, 2)

    def forward(self, tokens, padding, targets):
        x = self.norm(self.words(tokens) + self.positions.weight)
        for block in self.blocks:
            x = block(x, padding)
        loss = F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten(), ignore_index=0)
        return loss, self.pooler(x[:, 0].tanh())


class ResidualBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Convolutions with batch norm, whose running statistics are written."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2))
        self.head = nn.Linear(32, classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.stem(images))), 3, 2, 1)
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)), labels)


class UNet(nn.Module):
    """Convolutions down and up again, with skip connections."""

    def __init__(self):
        super().__init__()

        def block(channels, out):
            return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(4, out), nn.SiLU())

        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 16)
        self.up2, self.up1, self.out = block(32, 8), block(16, 8), nn.Conv2d(8, 3, 1)

    def forward(self, noisy, clean):
        a = self.down1(noisy)
        b = self.down2(F.avg_pool2d(a, 2))
        x = F.interpolate(self.middle(F.avg_pool2d(b, 2)), scale_factor=2.0)
        x = F.interpolate(self.up2(torch.cat((x, b), 1)), scale_factor=2.0)
        return F.mse_loss(self.out(self.up1(torch.cat((x, a), 1))), clean)


class Lstm(nn.Module):
    """A cell written out and unrolled over time."""

    def __init__(self, words=64, width=32):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.input, self.state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, bias=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, targets):
        x = self.words(tokens)
        hidden = cell = x.new_zeros(x.shape[0], x.shape[2])
        outputs = []
        for step in x.unbind(1):
            i, f, g, o = (self.input(step) + self.state(hidden)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        return F.cross_entropy(self.head(torch.stack(outputs, 1)).flatten(0, 1), targets.flatten())


class Vae(nn.Module):
    """Noise drawn between encoder and decoder; two losses, each with a tangent."""

    def __init__(self, width=64, hidden=48, latent=8):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(width, hidden), nn.Linear(latent, hidden)
        self.mean, self.spread = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.out = nn.Linear(hidden, width)

    def forward(self, x):
        h = F.elu(self.encoder(x))
        mean, spread = self.mean(h), F.softplus(self.spread(h))
        z = mean + spread * torch.randn_like(spread)
        reconstruction = F.binary_cross_entropy_with_logits(self.out(F.elu(self.decoder(z))), x)
        divergence = 0.5 * (mean.square() + spread.square() - 1).sum(-1) - spread.log().sum(-1)
        return reconstruction, divergence.mean()


class GraphNet(nn.Module):
    """Messages along the edges of a graph: gathers and accumulating writes."""

    def __init__(self, depth=2, width=32, classes=5):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x, source, target, labels):
        for layer in self.messages:
            message = F.leaky_relu(layer(torch.cat((x[source], x[target]), 1)), 0.1)
            x = F.normalize(torch.zeros_like(x).index_add(0, target, message) + x)
        return F.nll_loss(F.log_softmax(self.head(x), -1), labels)


def labels(count, *sizes):
    return torch.arange(math.prod(sizes)).remainder(count).reshape(sizes)


def tokens(words=256):
    return labels(words, 4, 32), labels(words - 1, 4, 32)


def bert_arguments():
    words, targets = tokens()
    return words, torch.arange(32).expand(4, 32) >= 24, targets


def graph_arguments():
    return torch.ones(40, 32), labels(40, 120), labels(37, 120), labels(5, 40)


MODELS = {
    "mlp": lambda: (Mlp(3, 64, 10), (torch.ones(32, 64), labels(10, 32))),
    "mlp_autocast": lambda: (Autocast(Mlp(2, 64, 10)), (torch.ones(32, 64), labels(10, 32))),
    "gpt": lambda: (Gpt(), tokens()),
    "llama": lambda: (Llama(), tokens()),
    "bert": lambda: (Bert(), bert_arguments()),
    "resnet": lambda: (ResNet(), (torch.ones(4, 3, 32, 32), labels(10, 4))),
    "unet": lambda: (UNet(), (torch.ones(2, 3, 16, 16), torch.zeros(2, 3, 16, 16))),
    "lstm": lambda: (Lstm(), (labels(64, 8, 6), labels(63, 8, 6))),
    "vae": lambda: (Vae(), (torch.full((16, 64), 0.5),)),
    "graphnet": lambda: (GraphNet(), graph_arguments()),
}
