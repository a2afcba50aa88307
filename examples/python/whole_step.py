#!/usr/bin/env python3
"""A training step as one program: forward, backward, clipping and the update by AdamW, with a learning rate that falls from
step to step. Beside it, the same training in eager mode, with the same bits. Exits with 1 if anything differs.
"""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

import antegrad


def training(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def loss_of(model):
    return lambda x, y: F.cross_entropy(model(x), y)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 10))
    eager, of_eager, of_eager_rate = training(copy.deepcopy(net))
    model, optimizer, rate = training(net)
    step = antegrad.compile_step(model, optimizer, loss_of(model), clip_norm=1.0)

    x, y = torch.randn(128, 64), torch.randint(10, (128,))
    same = True
    for i in range(10):
        torch.manual_seed(i)
        loss = step(x, y)
        rate.step()

        torch.manual_seed(i)
        of_eager.zero_grad()
        expected = loss_of(eager)(x, y)
        expected.backward()
        nn.utils.clip_grad_norm_(eager.parameters(), 1.0)
        of_eager.step()
        of_eager_rate.step()

        same = same and torch.equal(loss, expected)
        print(f"step {i}: loss {loss:.6f}, eager {expected:.6f}")
    same = same and all(torch.equal(a, b) for a, b in zip(model.parameters(), eager.parameters()))
    print("the same bits" if same else "DIFFERENT from eager", f"({len(step.report().programs)} program)")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
