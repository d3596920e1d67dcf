# Two commands do everything on a fresh Debian 12: `make demo` and `make test`. Each sets the machine up, builds and runs.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)
CTEST := ctest --preset $(PRESET) --no-tests=error -j $(JOBS)

.PHONY: demo test build tests configure setup check slow gpu dist clean
.DEFAULT_GOAL := build

demo: build          ## the co-evolution of two nano models on this CPU, through a real Keck
	bin/kernelzero demo

test: tests          ## unit and integration tests
	$(CTEST) -LE 'slow|gpu|exploit' --repeat until-pass:2

slow: tests          ## tests that take minutes each
	$(CTEST) -L slow -j 1

gpu: tests           ## tests that need a GPU; skipped, visibly, without one
	$(CTEST) -L gpu -j 1

setup:               ## packages and venv; nothing is done twice
	@setup/setup.sh

# What bin/ needs, and no test: a quarter of a whole build is tests.
PROGRAMS := keck keck-judge keck-init kz_shim kernelzero

build: configure     ## bin/keck and bin/kernelzero
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $(PROGRAMS)
	@mkdir -p bin && for b in keck keck-judge kernelzero; do ln -sfn ../$(BUILD)/bin/$$b bin/$$b; done

tests: build         ## the programs and every test
	@cmake --build --preset $(PRESET) -j $(JOBS)

configure: setup
	@cmake --preset $(PRESET) >$(PRESET)-configure.log 2>&1 || { cat $(PRESET)-configure.log; exit 1; }; rm -f $(PRESET)-configure.log

STEPS ?= format headers tidy asan
check: build         ## format, clang-tidy, every header alone, ASan and UBSan for everything that links no torch
	@setup/setup.sh --check
	tools/check.sh $(PRESET) $(JOBS) $(STEPS)

dist: build          ## dist/kernelzero: a tree that runs on another machine with torch in its python3
	tools/dist.sh $(PRESET)

clean:
	rm -rf build bin dist
