"""What the programs of this folder share: a run at each capability, and C that is compiled and loaded."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

from recipes import CAPABILITIES, PRELUDE

FLAGS = ["-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-Wno-psabi"]
TARGET = {
    "default": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512".split(),
}


def parsed(parser):
    """The options of a run, with the capability at which ATen runs in `capability`. Where none is asked for, runs the
    program at each of them, and ends with 1 if one of these runs failed."""
    parser.add_argument("--capability", choices=CAPABILITIES, help="all, one after the other, when left out")
    options = parser.parse_args()
    if not options.capability:
        sys.exit(any([run_at(capability) != 0 for capability in CAPABILITIES]))
    runs = torch.backends.cpu.get_cpu_capability().lower()
    if runs != options.capability:
        raise SystemExit(f"ATen runs {runs}: set ATEN_CPU_CAPABILITY={options.capability}")
    return options


def run_at(capability):
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    return subprocess.run([sys.executable, *sys.argv, "--capability", capability], env=environment, check=False).returncode


def onednn_level():
    """What oneDNN generates code for here: 1 AVX2, 2 AVX-512, 3 AVX-512 with AVX512_BF16. As OneDnn of eager_cpu.h."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX512_CORE":
        flags = flags.replace("avx512_bf16", "")
    return 3 if "avx512_bf16" in flags else 2 if "avx512bw" in flags else 1


def cpu_name():
    """The model of this CPU, as the kernel of the system calls it."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def header(capability):
    """The first line of a program's results: what they hold for."""
    return f"# torch {torch.__version__}, capability {capability}, oneDNN level {onednn_level()}, {cpu_name()}"


def load(source, capability, flags):
    """Compiles a file; symbols of libtorch_cpu are found in this process."""
    target = str(pathlib.Path(source).with_suffix(".so"))
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *FLAGS, *TARGET[capability], *flags, source, "-o", target], check=True)
    libtorch = pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"
    ctypes.CDLL(str(libtorch), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    return ctypes.CDLL(target)


def compile_c(text, capability):
    """Loads C behind the prelude."""
    source = pathlib.Path(tempfile.mkdtemp(prefix="exact_kernels_")) / "kernels.c"
    source.write_text(text)
    defines = [f"-DAG_CAPABILITY={CAPABILITIES.index(capability)}", f"-DAG_ONEDNN={onednn_level()}"]
    return load(source, capability, defines + [word for path in PRELUDE for word in ("-include", str(path))])
