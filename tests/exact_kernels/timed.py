"""What times generated kernels: groups of nodes made by hand, their kernels with arguments, and a driver that runs those on
threads as programs do."""

import ctypes
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import torch

from check import TORCH_DTYPE
from check_groups import compared
from check_row_groups import SPLIT_ROWS, SPLIT_WHOLE, RowCase, part_size
from program import TARGET, onednn_level

# Those of src/kernels/compiler.cpp.
FLAGS = (
    "-std=gnu11 -O2 -fPIC -shared -w -fwrapv -fno-strict-aliasing -fno-math-errno -fno-trapping-math -ffp-contract=off"
    " -fno-builtin -nostartfiles -nodefaultlibs -fno-stack-protector -fno-plt -Wno-psabi"
).split()
# `copy_once` reads and writes so many bytes, in pieces of 16 KiB or less: what both have is copied, what one has more is read
# or filled. With `past` the caches are not written.
DRIVER = """
#include <emmintrin.h>
#include <omp.h>
#include <time.h>
typedef void Kernel(char* const*, const long*, long, long, long);
static double seconds(int threads) {
  struct timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
double once(Kernel* kernel, char* const* buffers, const long* numbers, long all, long part, int threads) {
  const double start = seconds(threads);
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
  for (long i = 0; i < (all + part - 1) / part; i++)
    kernel(buffers, numbers, i * part, (i + 1) * part < all ? (i + 1) * part : all, i);
  return seconds(threads) - start;
}
static long smaller(long a, long b) { return a < b ? a : b; }
static void copy_part(char* to, const char* from, long written, long read, int past) {
  __m128i sum = _mm_setzero_si128(), fill = sum;
  const long both = smaller(written, read);
  for (long i = 0; i < both; i += 64) {
    __m128i x[4];
    for (int k = 0; k < 4; k++) x[k] = _mm_load_si128((const __m128i*)(from + i) + k);
    for (int k = 0; k < 4; k++) {
      if (past) _mm_stream_si128((__m128i*)(to + i) + k, x[k]);
      else _mm_store_si128((__m128i*)(to + i) + k, x[k]);
    }
  }
  for (long i = both; i < read; i += 64)
    for (int k = 0; k < 4; k++) sum = _mm_xor_si128(sum, _mm_load_si128((const __m128i*)(from + i) + k));
  for (long i = both; i < written; i += 64)
    for (int k = 0; k < 4; k++) {
      if (past) _mm_stream_si128((__m128i*)(to + i) + k, fill);
      else _mm_store_si128((__m128i*)(to + i) + k, fill);
    }
  __asm__ volatile("" : : "x"(sum));
  if (past) _mm_sfence();
}
double copy_once(char* to, const char* from, long written, long read, int past, int threads) {
  const double start = seconds(threads);
  const long pieces = (written + read) / 16384 + 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (long p = 0; p < pieces; p++) {
    const long w0 = written / 64 * p / pieces * 64, w1 = written / 64 * (p + 1) / pieces * 64;
    const long r0 = read / 64 * p / pieces * 64, r1 = read / 64 * (p + 1) / pieces * 64;
    copy_part(to + w0, from + r0, w1 - w0, r1 - r0, past);
  }
  return seconds(threads) - start;
}
"""


class Group(RowCase):
    """A group made by hand. Values are numbers, as in the text of a graph."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape
        self.generator = torch.Generator().manual_seed(1)
        self.inputs, self.nodes, self.program, self.meta, self.values = [], [], [], {}, 0
        self.results = set()

    def input(self, shape=None, dtype=None):
        data = torch.randn(self.shape if shape is None else shape, generator=self.generator)
        return self.add_input(data > 0 if dtype == torch.bool else data.to(dtype or TORCH_DTYPE[self.dtype]))

    def op(self, name, *words):
        before = self.values
        self.run("aten::" + name, [f"%{w}" if isinstance(w, int) else w for w in words])
        assert self.values > before, name
        return before

    def value(self, word):
        return super().value(word.removeprefix("dtype="))

    def text(self):
        lines = ['antegrad.graph 1 "case"', "inputs"]
        lines += [f"  %{n}: {self.text_of(t)} primal argument {i}" for i, (n, t) in enumerate(self.inputs)]
        lines += ["nodes", *[line for _, line in self.nodes], "outputs", *[f"  %{n} result" for n in sorted(self.results)]]
        return "\n".join(lines) + "\n----\n"


def user_seconds(run):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Compiler:
    """Makes kernels of groups, with files in a folder of its own."""

    def __init__(self, tool, folder=None, flags=""):
        self.tool, self.flags = tool, flags.split()
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="timed_"))
        self.folder.mkdir(parents=True, exist_ok=True)
        capability = torch.backends.cpu.get_cpu_capability().lower()
        self.capability = capability if capability in TARGET else "default"
        libtorch = pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"
        ctypes.CDLL(str(libtorch), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
        driver = self.folder / "driver.so"
        command = ["gcc", "-O2", "-fopenmp", "-shared", "-fPIC", "-x", "c", "-", "-o", driver]
        subprocess.run(command, input=DRIVER, text=True, check=True)
        self.driver = ctypes.CDLL(str(driver))
        long, pointer = ctypes.c_long, ctypes.c_void_p
        self.driver.once.restype, self.driver.once.argtypes = ctypes.c_double, [pointer] * 3 + [long] * 2 + [ctypes.c_int]
        self.driver.copy_once.restype = ctypes.c_double
        self.driver.copy_once.argtypes = [pointer] * 2 + [long] * 2 + [ctypes.c_int] * 2

    def compiled(self, name, group, level, threads):
        """The line of the tool, the library, and the seconds that the compiler took."""
        stem = f"{name}_{level}_{threads}"
        source, target = self.folder / f"{stem}.c", self.folder / f"{stem}.so"
        answer = subprocess.run(
            [self.tool, self.capability, str(onednn_level()), source, str(threads), level],
            input=group.text(), text=True, capture_output=True,
        )  # fmt: skip
        if answer.returncode or answer.stdout.startswith("no "):
            raise SystemExit(f"{name}: {answer.stderr}{answer.stdout}\n{group.text()}")
        command = [os.environ.get("CC", "gcc"), *FLAGS, *TARGET[self.capability], *self.flags, str(source), "-o", str(target)]
        return answer.stdout, target, user_seconds(lambda: subprocess.run(command, check=True))


class Ready:
    """A kernel with its arguments. `in_place` gives the input in whose memory a result lies."""

    def __init__(self, compiler, line, target, group, expected, threads, in_place=()):
        words = line.split()
        numbers, split, self.all = words[5].split(","), int(words[3]), int(words[9])
        self.group, self.expected, self.threads, self.driver = group, expected, threads, compiler.driver
        self.written, self.sums, self.read = {}, {}, []
        inputs, in_place, tensors = dict(group.inputs), dict(in_place), []
        for buffer in words[7].split(","):
            number = int(buffer.rstrip("+*"))
            if buffer.endswith("*"):
                self.sums[number] = torch.zeros(threads, expected[number].numel())
                tensors.append(self.sums[number])
            elif buffer.endswith("+"):
                place = inputs[in_place[number]] if number in in_place else torch.full_like(expected[number], 77)
                self.written[number] = place
                tensors.append(place)
            else:
                self.read.append(inputs[number])
                tensors.append(inputs[number])
        self.buffers = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
        self.numbers = (ctypes.c_long * len(numbers))(*[int(n) for n in numbers])
        self.part = self.all if split == SPLIT_WHOLE else part_size(split, self.all, threads)
        if split == SPLIT_ROWS:
            self.part = -(-self.all // threads)
        self.function = getattr(ctypes.CDLL(str(target)), words[1])

    def seconds(self):
        """Runs it once."""
        for parts in self.sums.values():
            parts.zero_()
        return self.driver.once(self.function, self.buffers, self.numbers, self.all, self.part, self.threads)

    def bytes_read(self):
        return sum(t.numel() * t.element_size() for t in self.read)

    def bytes_written(self):
        return sum(t.numel() * t.element_size() for t in self.written.values())

    def megabytes(self):
        return (self.bytes_read() + self.bytes_written()) / 1e6

    def faults(self, options):
        """What is wrong with the results of the last run, at the level of the options, in words."""
        found, wide = dict(self.written), {}
        for number, parts in self.sums.items():
            total = torch.zeros(parts.shape[1])
            for part in parts:
                total += part
            found[number] = total.to(self.expected[number].dtype).reshape(self.expected[number].shape)
        faults = {n: compared(options, self.group, n, t, self.expected[n], wide) for n, t in found.items()}
        return "; ".join(f"%{n}: {fault}" for n, fault in faults.items() if fault)


class Copy:
    """Traffic of so many bytes, in memory that was written before."""

    def __init__(self, compiler, read, written, threads):
        self.driver, self.threads = compiler.driver, threads
        self.memory = [torch.ones(size + 64, dtype=torch.uint8) for size in (written, read)]
        self.places = [-(-t.data_ptr() // 64) * 64 for t in self.memory]
        self.sizes = (written, read)

    def seconds(self, past):
        return self.driver.copy_once(*self.places, *self.sizes, past, self.threads)


def clocked(run, threads):
    """Seconds; of the CPU for one thread, which others that run beside it do not disturb."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start
