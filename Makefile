# The commands of this project. Every target does all that it needs, from a fresh clone on;
# what is already done is skipped. `make` alone prints the list.

PRESET ?= release
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
BENCH  ?=
FUZZ_SECONDS ?= 600
TEXT   ?=

BUILD := build/$(PRESET)
# The presets without libtorch need less.
SETUP := $(if $(filter core asan,$(PRESET)),--core,$(if $(filter libfuzzer,$(PRESET)),--fuzz))
# The Python that scripts/setup found beside libtorch.
PYTHON = $(shell sed -n 's/^ANTEGRAD_PYTHON=//p' build/setup.env)
CTEST := ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help setup configure build demo demo-sharded demo-python test test-all bench conformance accuracy format docs check mutants asan asan-torch tsan fuzz programs wheel test-wheel package test-package install clean

help: ## print this list
	@printf 'antegrad: make <target>\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
	  printf '  %-12s %s\n' "$$target" "$$text"; done
	@printf '\n  PRESET=release|debug|ci|core|asan|asan-torch|tsan|libfuzzer (now: $(PRESET)), JOBS=n (now: $(JOBS)), ANTEGRAD_TORCH=dir: a libtorch of your own\n'

setup: ## install what is missing (Debian packages, libtorch into .venv)
	@scripts/setup $(SETUP)

# A build folder is configured when it has no build.ninja, or one that is older than what it was
# made from; ninja itself notices changed CMakeLists and new source files.
configure: setup
	@if [ ! $(BUILD)/build.ninja -nt CMakePresets.json ] || [ build/setup.env -nt $(BUILD)/build.ninja ]; \
	then cmake --preset $(PRESET); fi

build: configure ## build everything but the benchmarks
	@ninja -C $(BUILD) -j $(JOBS)

# Waiting threads that spin for long make a busy machine many times slower; this changes nothing on
# an idle one.
demo: configure ## train a small GPT with it; TEXT=file to train on, DEMO_ARGS='...'
	@ninja -C $(BUILD) -j $(JOBS) train_gpt
	@mkdir -p out/demo
	@GOMP_SPINCOUNT=$${GOMP_SPINCOUNT-10000} $(BUILD)/examples/train_gpt --out out/demo $(if $(TEXT),--text '$(TEXT)') $(DEMO_ARGS)

demo-sharded: configure ## the same sharded over 1, 2 and 4 processes; TEXT=file to train on, DEMO_ARGS='...'
	@ninja -C $(BUILD) -j $(JOBS) train_gpt_sharded
	@$(BUILD)/examples/train_gpt_sharded --out out/demo-sharded $(if $(TEXT),--text '$(TEXT)') $(DEMO_ARGS)

demo-python: configure ## the same from Python, through torch.compile; TEXT=file to train on
	@ninja -C $(BUILD) -j $(JOBS) antegrad_python
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/python/train_gpt.py --out out/demo-python $(if $(TEXT),--text '$(TEXT)') $(DEMO_ARGS)

test: build ## all tests but the long ones
	@$(CTEST) -LE long

test-all: build ## all tests in their long form, then those under sanitizers; builds the benchmarks, too
	@$(if $(SETUP),,ninja -C $(BUILD) -j $(JOBS) benches)
	@scripts/setup $(SETUP) --emulated
	@$(CTEST) -LE fast
	@$(MAKE) --no-print-directory asan $(if $(SETUP),,asan-torch tsan fuzz)

bench: configure ## measure against eager and peers; BENCH=name for one
	@ninja -C $(BUILD) -j $(JOBS) $(if $(BENCH),$(if $(wildcard bench/$(BENCH).py),antegrad_python group_kernels,bench_$(BENCH)),benches)
	@scripts/run_benches $(BUILD)/bench out/bench $(BENCH)

conformance: build ## PyTorch's operators and modules, and models, against eager (docs/conformance.md, operators.md, operators-with-kernels.md); goes on where it stopped
	@mkdir -p out/bench
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/op_db.py run --out out/conformance --jobs $(JOBS) --cross-check
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/op_db.py run --out out/conformance_dynamo --jobs $(JOBS) \
	  --through dynamo --part 0/10
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/op_db.py run --out out/conformance_lowered --jobs $(JOBS) \
	  --lowering exact --cross-check
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/op_db.py report out/conformance_lowered \
	  --kernels docs/operators-with-kernels.md
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/op_db.py report out/conformance --dynamo out/conformance_dynamo \
	  --page docs/conformance.md --operators docs/operators.md --bench out/bench/conformance.json
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/models.py run --out out/conformance_models --jobs $(JOBS)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/conformance/models.py report out/conformance_models \
	  --page docs/conformance_models.md --bench out/bench/conformance_models.json

# By CPU, since kernels and libraries differ; ACCURACY=folder below tests/exact_kernels/results.
ACCURACY ?= amd_epyc
accuracy: configure ## errors of each operator at lowering=close beside eager's, at each capability (docs/operator-accuracy.md)
	@ninja -C $(BUILD) -j $(JOBS) group_kernels
	@$(PYTHON) tests/exact_kernels/check_operators.py $(BUILD)/tests/group_kernels --results tests/exact_kernels/results/$(ACCURACY)
	@$(PYTHON) tests/exact_kernels/accuracy_page.py

format: ## format all C++ files in place
	@scripts/setup --core
	@scripts/format

docs: configure ## write the tables of options into docs/options.md, and their types for Python
	@ninja -C $(BUILD) -j $(JOBS) antegrad-cli
	@scripts/options_page $(BUILD)/tools/antegrad docs/options.md
	@scripts/option_types $(BUILD)/tools/antegrad python/antegrad

check: ## formatting, lengths of lines, clang-tidy, include rules, what the pages name, and the scripts' own tests
	@scripts/setup --core
	@scripts/format --check
	@scripts/check_lines
	@scripts/check_includes
	@scripts/check_docs
	@scripts/test_scripts
	@scripts/test_mutate
	@scripts/tidy

mutants: configure ## seed 200 bugs, count which the tests notice (docs/mutation.md); takes hours
	@scripts/setup --mutation
	@ninja -C $(BUILD) -j $(JOBS) antegrad
	@scripts/mutate generate --compile-commands $(BUILD) --jobs $(JOBS)
	@scripts/mutate build --jobs $(JOBS)
	@scripts/mutate run --jobs $(JOBS)
	@scripts/mutate report

asan: ## core tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory test PRESET=asan

# Test programs by name, where building all would take too long.
programs: configure
	@ninja -C $(BUILD) -j $(JOBS) $(PROGRAMS)
	@$(CTEST) -L fast -R '^($(subst $(eval ) ,|,$(PROGRAMS)))$$'

asan-torch: ## tests of the runtime and some random programs under the same, beside libtorch
	@ANTEGRAD_FUZZ_COUNT=$${ANTEGRAD_FUZZ_COUNT-100} $(MAKE) --no-print-directory programs PRESET=asan-torch \
	  PROGRAMS='runtime_tests torch_fuzz_tests'

fuzz: ## libFuzzer on everything that reads files of others; FUZZ_SECONDS=600 for all together
	@$(MAKE) --no-print-directory PRESET=libfuzzer configure
	@ninja -C build/libfuzzer -j $(JOBS) fuzz_readers
	@scripts/fuzz_readers build/libfuzzer/tests/fuzz_readers $(FUZZ_SECONDS)

tsan: ## tests of the runtime under ThreadSanitizer
	@$(MAKE) --no-print-directory programs PRESET=tsan PROGRAMS=runtime_tests

# The build tag names the torch, the metadata require it.
wheel: ## sources and wheel of the Python package, for the torch that was found, into out/wheel
	@scripts/setup --wheel
	@rm -rf out/wheel
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m build --no-isolation --outdir out/wheel \
	  -C wheel.build-tag=1torch$$(sed -n 's/^ANTEGRAD_TORCH_VERSION=//p' build/setup.env) .

test-wheel: wheel ## the wheel in a fresh virtual environment without a compiler
	@scripts/test_wheel out/wheel/*.whl

package: ## archive of headers, library, tool and CMake package, into out/package
	@$(MAKE) --no-print-directory configure PRESET=package
	@ninja -C build/package -j $(JOBS)
	@rm -rf out/package
	@cpack --config build/package/CPackConfig.cmake -B out/package > /dev/null
	@rm -rf out/package/_CPack_Packages
	@ls out/package

test-package: package ## a project of ten lines against the archive, by each compiler that is there
	@scripts/test_package out/package/*.tar.gz

install: configure ## install library, headers and tool below PREFIX
	@ninja -C $(BUILD) -j $(JOBS) antegrad antegrad-cli antegrad-minify
	@cmake --install $(BUILD) --prefix '$(PREFIX)'

clean: ## remove all build folders (.venv and out stay)
	@rm -rf build
