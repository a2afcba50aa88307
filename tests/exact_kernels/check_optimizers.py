"""Compares the formulas of optimizers.txt with steps of torch.optim, bit by bit."""

import argparse
import ctypes
import math
import sys

import torch

from check import differences
from program import compile_c, header, parsed
from recipes import functions, kernel_name, read

LR, EPS, DECAY, BETA2 = 1e-3, 1e-8, 0.05, 0.999


def step(library, operator, tensors, numbers):
    buffers = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
    values = (ctypes.c_double * len(operator.numbers))(*[numbers[n] for n in operator.numbers])
    kernel = getattr(library, kernel_name(operator, "f32", ""))
    kernel(buffers, values, ctypes.c_long(0), ctypes.c_long(tensors[0].numel()), ctypes.c_long(1))


def adam_numbers(beta1, t):
    return {
        "beta1": beta1, "w1": 1 - beta1, "w2": 1 - BETA2, "beta2": BETA2, "weight_decay": DECAY,
        "decay": 1 - LR * DECAY, "step": -(LR / (1 - beta1**t)), "root": math.sqrt(1 - BETA2**t), "eps": EPS,
    }  # fmt: skip


class CppAdam:
    """The operators that torch::optim::Adam and AdamW of C++ call, in their order."""

    def __init__(self, p, lr, betas, eps, weight_decay, decoupled):
        self.p, self.options, self.t = p, (lr, *betas, eps, weight_decay, decoupled), 0
        self.state = {p: {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}}

    @torch.no_grad()
    def step(self):
        lr, beta1, beta2, eps, weight_decay, decoupled = self.options
        m, v, g = *self.state[self.p].values(), self.p.grad
        self.t += 1
        if decoupled:
            self.p.mul_(1 - lr * weight_decay)
        else:
            g = g.add(self.p, alpha=weight_decay)
        m.mul_(beta1).add_(g, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        denominator = (v.sqrt() / math.sqrt(1 - beta2**self.t)).add_(eps)
        self.p.addcdiv_(m, denominator, value=-(lr / (1 - beta1**self.t)))


def check(library, operators, name, make, state, numbers, threads):
    """Differing elements of the parameter and its state after five steps."""
    wrong = 0
    for count in threads:
        torch.set_num_threads(count)
        for n in (1, 7, 13, 1000, 40003, 100001):
            generator = torch.Generator().manual_seed(n)
            p = torch.randn(n, generator=generator).requires_grad_()
            tensors = [p.detach().clone(), *[torch.zeros(n) for _ in state]]
            optimizer = make(p)
            for t in range(1, 6):
                p.grad = torch.randn(n, generator=generator) * 10 ** -(t % 3)
                if name.startswith("sgd_") and t == 1:  # the first step makes the buffer
                    optimizer.step()
                    tensors = [p.detach().clone(), *[optimizer.state[p][s].clone() for s in state]]
                    continue
                optimizer.step()
                step(library, operators[name], [tensors[0], p.grad, *tensors[1:]], numbers(t))
            expected = [p.detach(), *[optimizer.state[p][s] for s in state]]
            wrong += sum(int(differences(e, f)[0].sum()) for e, f in zip(expected, tensors))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2,4")
    options = parsed(parser)
    operators = read("optimizers.txt")
    text = "".join(functions(o, "f32", options.capability) for o in operators.values())
    library = compile_c(text, options.capability)
    threads = [int(t) for t in options.threads.split(",")]
    failed = 0
    print(header(options.capability))
    for kind, arguments in (("single", {"foreach": False}), ("foreach", {"foreach": True}), ("fused", {"fused": True})):
        for beta1 in (0.9, 0.4):
            for name, cls in (("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam)):
                row = f"{name}_fused" if kind == "fused" else f"{name}_python"
                if row not in operators:
                    continue
                settings = dict(lr=LR, betas=(beta1, BETA2), eps=EPS, weight_decay=DECAY, **arguments)
                wrong = check(library, operators, row, lambda p: cls([p], **settings), ("exp_avg", "exp_avg_sq"),
                              lambda t: adam_numbers(beta1, t), threads)  # fmt: skip
                failed += wrong > 0
                print(f"{row} {kind}, beta1 {beta1}: {'exact' if not wrong else f'{wrong} differ'}")
        if kind == "fused":
            continue
        for row, decoupled in (("adamw_cpp", True), ("adam_cpp", False)) if kind == "single" else ():
            settings = dict(lr=LR, betas=(0.9, BETA2), eps=EPS, weight_decay=DECAY, decoupled=decoupled)
            wrong = check(library, operators, row, lambda p: CppAdam(p, **settings), ("exp_avg", "exp_avg_sq"),
                          lambda t: adam_numbers(0.9, t), threads)  # fmt: skip
            failed += wrong > 0
            print(f"{row}: {'exact' if not wrong else f'{wrong} differ'}")
        for row, momentum, nesterov in (("sgd", 0, False), ("sgd_momentum", 0.9, False), ("sgd_nesterov", 0.9, True)):
            numbers = {"lr": -LR, "weight_decay": DECAY, "momentum": momentum, "rest": 1.0}
            settings = dict(lr=LR, momentum=momentum, nesterov=nesterov, weight_decay=DECAY, **arguments)
            state = ("momentum_buffer",) if momentum else ()
            wrong = check(library, operators, row, lambda p: torch.optim.SGD([p], **settings), state,
                          lambda t: numbers, threads)  # fmt: skip
            failed += wrong > 0
            print(f"{row} {kind}: {'exact' if not wrong else f'{wrong} differ'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
