# Two commands do everything on a fresh Debian 12: `make demo` and `make test`. Each sets the machine up, builds and runs.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)
CTEST := ctest --preset $(PRESET) --no-tests=error -j $(JOBS)

.PHONY: demo test build setup check format tidy headers asan slow exploits dist clean
.DEFAULT_GOAL := build

demo: build          ## the co-evolution of two nano models on this CPU, through a real Keck
	bin/kernelzero demo

KNOWN := $(shell grep -v '^\#' tests/known_failures.txt | cut -f1 | paste -sd'|')

test: build          ## unit and integration tests; tests/known_failures.txt says what is left out, and why
	@cat tests/known_failures.txt
	$(CTEST) -LE 'slow|gpu|exploit' -E '^($(KNOWN))$$' --repeat until-pass:2

slow: build          ## tests that take minutes each
	$(CTEST) -L slow -j 1

gpu: build           ## tests that need a GPU; skipped, visibly, without one
	$(CTEST) -L gpu -j 1

setup:               ## packages and venv; nothing is done twice
	@setup/setup.sh

build: setup         ## bin/keck and bin/kernelzero
	@cmake --preset $(PRESET) >$(PRESET)-configure.log 2>&1 || { cat $(PRESET)-configure.log; exit 1; }; rm -f $(PRESET)-configure.log
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@mkdir -p bin && for b in keck keck-judge kernelzero; do ln -sfn ../$(BUILD)/bin/$$b bin/$$b; done

check: build         ## format, clang-tidy, every header alone, ASan and UBSan for everything that links no torch
	@setup/setup.sh --check
	tools/check.sh $(PRESET) $(JOBS)

dist: build          ## dist/kernelzero: a tree that runs on another machine with torch in its python3
	tools/dist.sh $(PRESET)

clean:
	rm -rf build bin dist
