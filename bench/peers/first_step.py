"""The time of torch.compile to the end of the first training step of a model.

peers/first_step.py MODEL WORD...    a model of subjects.py and its words

Prints one JSON object. first_ms: from torch.compile() to the end of the first forward and backward. The caches are those of
TORCHINDUCTOR_CACHE_DIR.
"""

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
import torch._dynamo

from subjects import subject


def main():
    model, *batch = subject(sys.argv[1], sys.argv[2:])
    start = time.perf_counter()
    torch.compile(model)(*batch).backward()
    print(json.dumps({"first_ms": (time.perf_counter() - start) * 1e3}))


main()
