#!/usr/bin/env python3
"""Trains two byte-level GPTs on real text from the same seed, one eagerly and one with torch.compile and antegrad as its
backend, and compares them bit for bit.

    train_gpt.py [--text FILE] [--steps N] [--out DIR]

Without --text it reads the Python sources of the installed torch. Exits with 1 if anything differs.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import antegrad

CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 128, 8, 128, 4, 4
BYTES_OF_TEXT = 4_000_000


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        b, t, _ = x.shape
        heads = (b, t, HEADS, WIDTH // HEADS)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(self.before_attention(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, inputs, targets):
        x = self.bytes(inputs) + self.places(torch.arange(inputs.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, 256), targets.view(-1))


class Run:
    """One of the two trainings, with its own random state."""

    def __init__(self, compiled):
        torch.manual_seed(1)
        self.model = Gpt()
        self.step_of = torch.compile(self.model, backend=antegrad.backend) if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.random = torch.get_rng_state()
        self.losses, self.seconds = [], []

    def step(self, inputs, targets):
        torch.set_rng_state(self.random)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.step_of(inputs, targets)
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.random = torch.get_rng_state()
        self.losses.append(loss.item())


def text_of(path):
    if path:
        data = pathlib.Path(path).read_bytes()
    else:
        files = sorted(pathlib.Path(torch.__path__[0]).rglob("*.py"))
        data = b""
        for file in files:
            data += file.read_bytes()
            if len(data) > BYTES_OF_TEXT:
                break
    if len(data) <= CONTEXT:
        sys.exit(f"train_gpt.py: expected a text of more than {CONTEXT} bytes, found {len(data)} in {path}")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/demo-python"))
    arguments = parser.parse_args()
    text = text_of(arguments.text)
    eager, compiled = Run(False), Run(True)
    batches = torch.Generator().manual_seed(2)
    for n in range(arguments.steps):
        starts = torch.randint(len(text) - CONTEXT, (BATCH,), generator=batches)
        rows = torch.stack([text[s : s + CONTEXT + 1] for s in starts.tolist()]).long()
        for run in (eager, compiled) if n % 2 else (compiled, eager):
            run.step(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        if (n + 1) % 20 == 0 or n + 1 == arguments.steps:
            print(f"train {n + 1}/{arguments.steps}  loss {compiled.losses[-1]:.3f}", flush=True)
    lines, same = report_of(eager, compiled)
    print("\n" + "\n".join(lines))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.txt").write_text("\n".join(lines) + "\n")
    print(f"Written to {arguments.out / 'report.txt'}")
    return 0 if same else 1


def report_of(eager, compiled):
    def step_ms(run):
        return 1e3 * statistics.median(run.seconds[1:] or run.seconds)

    differing = sum(not torch.equal(p, q) for p, q in zip(eager.model.parameters(), compiled.model.parameters()))
    reports = antegrad.report(compiled.step_of)
    eager_calls = sum(r.eager_calls for r in reports)
    same = eager.losses == compiled.losses and differing == 0 and torch.equal(eager.random, compiled.random)
    rows = [
        ("", "eager", "antegrad"),
        ("first loss", f"{eager.losses[0]:.6f}", f"{compiled.losses[0]:.6f}"),
        ("final loss", f"{eager.losses[-1]:.6f}", f"{compiled.losses[-1]:.6f}"),
        ("step, median", f"{step_ms(eager):.2f} ms", f"{step_ms(compiled):.2f} ms"),
        ("first step", f"{1e3 * eager.seconds[0]:.0f} ms", f"{1e3 * compiled.seconds[0]:.0f} ms"),
    ]
    lines = [f"{name:<16}{a:>14}{b:>14}" for name, a, b in rows]
    lines += ["", f"parameters that differ: {differing} of {len(list(eager.model.parameters()))}",
              f"Dynamo graphs: {len(reports)}; calls that ran eagerly: {eager_calls}"]
    lines += [f"antegrad's part of the first call: {sum(p.capture_ms + p.compile_ms for r in reports for p in r.programs):.0f} ms"]
    lines += ["", "Equal bit for bit: all losses, all parameters, the generator's state." if same and not eager_calls else
              "DIFFERENT: the compiled run differs from eager."]
    return lines, same and not eager_calls


if __name__ == "__main__":
    sys.exit(main())
