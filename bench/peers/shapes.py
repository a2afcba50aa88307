"""The total time of training steps with other sizes in each: torch.compile(dynamic=True) and eager, in turns.

peers/shapes.py BACKEND CASE THREADS AxB...    (AxB: what the case's batch() takes)

Prints one JSON object: total_s and eager_s.
"""

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

from gpt import Gpt
from varied import Boxes, Classifier, Gnn


class VariedGpt(Gpt):
    def __init__(self):
        super().__init__(vocabulary=1000, layers=4, width=256, heads=4, context=256)

    def batch(self, rows, length):
        return tuple(torch.randint(self.vocabulary, (rows, length)) for _ in range(2))


CASES = {"gpt": VariedGpt, "classifier": Classifier, "boxes": Boxes, "gnn": Gnn}


def main():
    backend, case, threads, *words = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    model = CASES[case]()
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def seconds(function, batch):
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        function(*batch).backward()
        return time.perf_counter() - start

    eager_s = total_s = 0.0
    for word in words:
        batch = model.batch(*map(int, word.split("x")))
        eager_s += seconds(model, batch)
        total_s += seconds(compiled, batch)
    print(json.dumps({"total_s": total_s, "eager_s": eager_s}))


main()
