# q35chat.  `make run` sets up, builds and chats; `make help` lists the rest.
# Knobs, all may be given on the command line:
CC       ?= cc
BUILD    ?= build
OPT      ?= -O3
# 256-bit vectors: gcc 12 misaligns stack arrays of functions that it vectorises to 512 bits.
ARCH     ?= $(if $(filter x86_64,$(shell uname -m)),-march=native -mprefer-vector-width=256,-mcpu=native)
SAN      ?=
# The GPU engine is built for the GPUs that are here.  CUDA=1 builds it anyway, GPU="9.0 12.1" for those parts, CUDA=0 leaves it out.
NVCC     ?= $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
PARTS    := 9.0 12.1
FOUND    := $(shell sh config/gpu.sh)
USABLE   := $(if $(filter unknown,$(FOUND)),$(PARTS),$(filter-out 1.% 2.% 3.% 5.% 6.% 7.% 8.%,$(FOUND)))
CUDA     := $(if $(or $(filter command,$(origin GPU)),$(and $(NVCC),$(USABLE))),1,0)
GPU      := $(or $(USABLE),$(PARTS))
$(if $(filter 1,$(CUDA)),$(if $(NVCC),,$(error CUDA=1 and GPU= need nvcc: it is neither in the PATH nor in /usr/local/cuda/bin; CUDA toolkit 13 has it)))
PREFIX   ?= /usr/local
MODEL    ?= assets/demo
JOBS     ?= $(shell nproc)
# Tests that run at a time.
AT_ONCE  ?= 2
# WERROR=1 makes warnings errors, as .ci/run does.
WERROR   ?=

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:

PKGS     := libpng libjpeg libwebp libcurl libmicrohttpd libcrypto jansson libutf8proc libedit inih ncursesw md4c
CPPFLAGS += -D_GNU_SOURCE -Isrc -I. $(if $(filter 1,$(CUDA)),-DQ35_CUDA)
# No contraction: a sum must not depend on the compiler's choice of fused multiply-add.
WARN     := -Wall -Wextra $(if $(WERROR),-Werror) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-missing-field-initializers -Wno-psabi
CSTD     := -std=gnu11 -pthread -ffp-contract=off -fno-math-errno -fno-trapping-math
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
PKGFLAGS  = $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS      = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm
# nvcc knows where its runtime is, whatever the toolkit's layout.
CUDALIBS := $(if $(filter 1,$(CUDA)),$(shell $(NVCC) --dryrun -x cu /dev/null 2>&1 | sed -n 's/.* LIBRARIES= *//p') -lcudart_static -lstdc++ -ldl -lrt)
# The step_*.cu are decode kernels.  What ptxas says of a kernel's registers is kept beside its object, for `make kernels`, and which
# instructions of its PTX are slow on a GB10.
NVFLAGS  := -std=c++17 -lineinfo -compress-mode=size -Xptxas -v --keep $(if $(WERROR),-Werror all-warnings) -Xcompiler -iquotesrc,-iquote.,-Wall,-Wextra,-Wno-missing-field-initializers \
            $(foreach p,$(subst .,,$(GPU)),-gencode arch=compute_$p,code=sm_$p)

# What is built, and why.
ifeq ($(CUDA),1)
ENGINE   := building for the CPU and for NVIDIA GPUs of compute capability $(GPU); the first build takes some minutes
else ifeq ($(FOUND),)
ENGINE   := no NVIDIA GPU found: CPU only$(if $(NVCC),; CUDA=1 builds the GPU engine anyway)
else ifeq ($(USABLE),)
ENGINE   := the NVIDIA GPU has compute capability $(FOUND) and the GPU engine needs 9.0: CPU only
else ifeq ($(NVCC),)
ENGINE   := NVIDIA GPU found but no nvcc, which CUDA toolkit 13 has: CPU only
else
ENGINE   := CUDA=0: CPU only
endif

LIB_C    := $(wildcard src/base/*.c src/answer/*.c src/text/*.c src/image/*.c src/model/*.c src/remote/*.c src/backend/*.c src/guide/*.c src/engine/*.c src/chat/*.c src/option/*.c src/responder/*.c src/session/*.c src/tool/*.c src/debug/*.c src/bench/*.c src/fetch/*.c src/serve/*.c src/prepare/*.c kernels/cpu/*.c)
LIB_CU   := $(if $(filter 1,$(CUDA)),$(wildcard src/backend/*.cu kernels/cuda/*.cu))
UI_C     := $(wildcard ui/*.c ui/*/*.c)
objs      = $(patsubst %,$(BUILD)/%.o,$(1))
TESTS    := $(patsubst %.c,$(BUILD)/%,$(filter-out $(SKIP),$(wildcard $(foreach d,unit kernels golden fuzz,tests/$d/test_*.c))))
# Those of tests/golden run on either device.
GPUTESTS := $(filter $(BUILD)/tests/kernels/test_cuda_% $(addprefix $(BUILD)/tests/golden/test_,depths generate pictures resume together),$(TESTS))
BENCHES  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))
# The instruments of development, which some tests run, too.
MEASURES := $(call objs,$(addprefix tests/bench/,crowd.c guide.c head.c kv.c kv_attention.c prompts.c synthetic_write.c text.c trial.c))

# V=1 shows the commands.
Q        := $(if $(V),,@)
say       = $(if $(V),,@echo "  $(1)")

comma    := ,
LINK      = $(Q)$(CC) $(OPT) $(SANFLAGS) -pthread -o $@

.PHONY: checks help all deps says run spark test models check asan tsan coverage aarch64 kernels ptxas gpu gpubuild figures bench manual shots install copies package clean FORCE
help:           ## this list
	@sed -n 's/^\([a-z0-9]*\):[^#]*## */  make \1\t/p' Makefile | expand -t 20

deps:           ## installs the missing Debian packages, saying which (root or sudo), else prints the command
	@CUDA=$(CUDA) sh config/deps.sh >&2

all: $(BUILD)/q35chat  ## builds the program, without the set-up

# All but the answer goes to stderr: stdout may be a pipe that waits for it.
says:
	@echo "$(ENGINE)" >&2

# The set-up runs first and in a make of its own, since the compiler itself may be missing.
run: says deps  ## sets up, builds, and chats with the bundled demo model (MODEL=DIR for another)
	@$(MAKE) -s -j$(JOBS) all >&2
	@$(BUILD)/q35chat --model $(MODEL)

# Its own steps install and build.  MODEL counts only when it was given.
spark:          ## on a DGX Spark: checks the machine, builds, downloads Qwen3.5-122B-A10B, asks it; DRY_RUN=1 only says what it would do
	@CUDA=$(CUDA) BUILD=$(BUILD) sh config/spark.sh

test: says deps ## sets up, builds, and runs every test; the last line counts them
	@$(MAKE) -j$(JOBS) check

# Small checkpoints with weights that are computed: tests/data/model/README.md.
models: $(BUILD)/tests/ruled  ## writes the small checkpoints of the tests, by a rule
	@BUILD=$(BUILD) EMULATOR=$(EMULATOR) sh tests/checkpoints.sh

$(BUILD)/tests/ruled: tests/ruled.c
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) $(CSTD) -O2 $(WARN) -o $@ $<

check: $(BUILD)/q35chat $(BUILD)/tests/golden/compare $(BUILD)/tests/pty/wire $(BUILD)/tests/pty/kill $(BUILD)/tests/hub/range $(TESTS)  ## builds and runs every test, without the set-up
	@BUILD=$(BUILD) SAN=$(SAN) EMULATOR=$(EMULATOR) AT_ONCE=$(AT_ONCE) SKIP='$(SKIP)' sh tests/run.sh $(TESTS)

# What needs a GPU, and the tests that tests/slow.txt does not send there again.  With SKIP= on the command line all run.
once      = tests/kernels/test_cuda_%.c $(shell awk '/^tests/ && $$2 !~ /$(1)/ {print $$1 ($$1 ~ /sh$$/ ? "" : ".c")}' tests/slow.txt)
asan tsan: SKIP := $(call once,asan)
asan: deps      ## the tests under the address and undefined-behaviour sanitizers, CPU only
	@$(MAKE) -j$(JOBS) check CUDA=0 BUILD=build/asan SAN=address,undefined OPT=-O1 SKIP='$(SKIP)'

tsan: deps      ## the tests under the thread sanitizer, CPU only
	@$(MAKE) -j$(JOBS) check CUDA=0 BUILD=build/tsan SAN=thread OPT=-O1 SKIP='$(SKIP)'

# The code of a decode step, and a part of the tests, which runs all of it.  Only that code is counted: counting makes products slow.
MEASURED := $(wildcard kernels/cpu/step_*.c $(addprefix src/model/,step.c stepper.c cache.c) \
              $(addprefix src/engine/,decode.c answering.c sequence.c drafts.c gate.c price.c lookup.c snapshot.c sampler.c))
COVERED  := $(addprefix build/coverage/tests/,$(addprefix kernels/test_,step step_rows step_pick planes) $(addprefix golden/test_,stepper beside recipes resume) \
              $(addprefix unit/test_,decode engine forward gate share lookup pace timeline snapshot sampler))
coverage: deps  ## the lines of a decode step, its stepper and the decode loop that the tests run, as a table (gcov)
	@$(MAKE) -s -j$(JOBS) CUDA=0 BUILD=build/coverage COVER=1 $(COVERED)
	@BUILD=build/coverage AT_ONCE=$(JOBS) FILES="$(MEASURED)" sh tests/coverage.sh $(COVERED)
ifneq ($(COVER),)
$(call objs,$(MEASURED)): private SANFLAGS += --coverage
LINK     += --coverage
endif

aarch64: SKIP := $(call once,arm)
aarch64:        ## cross-builds for aarch64 and runs the quicker tests under qemu; installs what that needs (Debian)
	@sh config/deps.sh arm64
	@PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig AT_ONCE=$(JOBS) $(MAKE) -j$(JOBS) check CUDA=0 BUILD=build/aarch64 \
	    CC=aarch64-linux-gnu-gcc ARCH= EMULATOR=qemu-aarch64 SKIP='$(SKIP)'

kernels: CUDA := 1
kernels: deps   ## compiles the GPU kernels and checks registers, shared memory and slow instructions; needs nvcc, no GPU
	@if [ -n "$(NVCC)" ]; then $(MAKE) -j$(JOBS) ptxas CUDA=1 GPU="$(PARTS)"; \
	else echo "The kernels are not compiled: there is no nvcc."; fi

ptxas: $(call objs,$(LIB_CU))
	@sh tests/cuda_report.sh $(patsubst %,%.ptxas,$^)

gpu: deps       ## on a machine with a GPU: its operations, the golden checkpoints and whole answers; SANITIZE=memcheck, racecheck
	@$(MAKE) -j$(JOBS) gpubuild
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) sh tests/gpu.sh

gpubuild: $(BUILD)/q35chat $(BUILD)/tests/golden/compare $(BUILD)/tests/bench/measure $(GPUTESTS)  ## what tests/gpu.sh runs, for a machine without compilers

figures: deps   ## every golden file through `q35chat debug`, as a table
	@$(MAKE) -s -j$(JOBS) all $(BUILD)/tests/golden/compare
	@BUILD=$(BUILD) sh tests/golden/debug.sh

bench: deps     ## speed of tokenizer, loading, prefill, decode and the terminal on this machine
	@$(MAKE) -s -j$(JOBS) all $(BENCHES) $(BUILD)/tests/bench/measure $(BUILD)/tests/pty/wire
	@BUILD=$(BUILD) sh tests/bench/run.sh $(BENCHES)

manual: $(BUILD)/tests/golden/test_manual  ## writes the tables of docs/q35chat.1 and docs/serve-reference.md from config/*.def
	@WRITE_MANUAL=1 $< > /dev/null

checks:         ## writes docs/checks.md, what the tests check, from their names
	@sh tests/checks.sh > docs/checks.md

shots: all      ## pictures and a recording of the real program, for docs/ and assets/; needs tmux and python3
	@sh assets/screens/shots.sh
	@python3 assets/screens/cast.py $(BUILD)/q35chat assets/q35chat.cast

# The shells' usual places for completions.
BASHDIR  := $(PREFIX)/share/bash-completion/completions
ZSHDIR   := $(PREFIX)/share/zsh/site-functions
FISHDIR  := $(PREFIX)/share/fish/vendor_completions.d
# Of a user's services; below share they are found in a home directory, too.
UNITDIR  := $(PREFIX)/share/systemd/user

install: all    ## copies program, demo model, manual, completions and systemd units below PREFIX
	@$(MAKE) copies

# The files alone, of a program that was built.
copies:
	install -d $(addprefix $(DESTDIR),$(PREFIX)/bin $(PREFIX)/share/q35chat/demo $(PREFIX)/share/man/man1 $(BASHDIR) $(ZSHDIR) $(FISHDIR) $(UNITDIR))
	install -m 755 $(BUILD)/q35chat $(DESTDIR)$(PREFIX)/bin/q35chat
	install -m 644 $(wildcard assets/demo/*.json assets/demo/*.safetensors assets/demo/*.jinja assets/demo/*.txt assets/demo/*.png) $(DESTDIR)$(PREFIX)/share/q35chat/demo
	install -m 644 config/q35chat.conf LICENSE $(DESTDIR)$(PREFIX)/share/q35chat
	install -m 644 docs/q35chat.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 config/q35chat.socket $(DESTDIR)$(UNITDIR)
	sed 's|@PREFIX@|$(PREFIX)|' config/q35chat.service > $(DESTDIR)$(UNITDIR)/q35chat.service
	$(EMULATOR) $(BUILD)/q35chat --print-completions bash > $(DESTDIR)$(BASHDIR)/q35chat
	$(EMULATOR) $(BUILD)/q35chat --print-completions zsh > $(DESTDIR)$(ZSHDIR)/_q35chat
	$(EMULATOR) $(BUILD)/q35chat --print-completions fish > $(DESTDIR)$(FISHDIR)/q35chat.fish

# For other machines than this one, unless ARCH= was given; GPU="12.1" for a Spark.
package: deps   ## a .deb and a tarball with program, demo model, manual and completions, in build/packages
	@$(MAKE) -s -j$(JOBS) all BUILD=$(BUILD)/package PREFIX=/usr $(if $(filter command,$(origin ARCH)),,ARCH=)
	@BUILD=$(BUILD)/package OUT=$(BUILD)/packages sh config/package.sh

clean:          ## removes everything that was built
	rm -rf $(BUILD)

# What a build is made of; rewritten only when it changes, so that other knobs, or a file less, build again what they must.
$(BUILD)/knobs: SAYS = $(CC) $(CSTD) $(OPT) $(ARCH) $(WARN) $(SANFLAGS) $(CPPFLAGS) $(CFLAGS)
$(BUILD)/knobs.cu: SAYS = $(NVCC) $(OPT) $(NVFLAGS)
$(BUILD)/files: SAYS = $(LIB_C) $(LIB_CU) $(UI_C)
$(BUILD)/knobs $(BUILD)/knobs.cu $(BUILD)/files $(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(SAYS)' | cmp -s - $@ || echo '$(SAYS)' > $@

# The commit that bench reports name; only one file is compiled again for it.
COMMIT   ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
$(BUILD)/commit: SAYS = $(COMMIT)
$(BUILD)/src/bench/version.c.o: $(BUILD)/commit
$(BUILD)/src/bench/version.c.o: private CPPFLAGS += -DQ35_COMMIT='"$(COMMIT)"'

$(BUILD)/libq35.a: $(call objs,$(LIB_C) $(LIB_CU)) $(BUILD)/files
	@rm -f $@
	$(call say,AR   $@)
	$(Q)ar rcs $@ $(filter %.o,$^)

# Everything of the front ends but main, for their tests.
$(BUILD)/libui.a: $(call objs,$(filter-out ui/main.c,$(UI_C))) $(BUILD)/files
	@rm -f $@
	$(call say,AR   $@)
	$(Q)ar rcs $@ $(filter %.o,$^)

$(BUILD)/q35chat: $(call objs,ui/main.c) $(BUILD)/libui.a $(BUILD)/libq35.a
	$(call say,LINK $@)
	$(LINK) $^ $(LIBS) $(CUDALIBS)

$(BUILD)/tests/bench/measure $(BUILD)/tests/golden/test_bench_kv $(BUILD)/tests/unit/test_bench_head: $(MEASURES)
$(BUILD)/tests/unit/test_synthetic $(BUILD)/tests/unit/test_verify $(BUILD)/tests/kernels/test_cuda_odd: $(BUILD)/tests/bench/synthetic_write.c.o
$(BUILD)/tests/unit/test_term: TESTLIBS := -lvterm
# its engine goes before that of the archive, of which other parts of the program use more
$(BUILD)/tests/remote/scripted: TESTLIBS := -Wl,-z,muldefs
$(BUILD)/tests/pty/wire: TESTLIBS := -lvterm
$(BUILD)/tests/pty/wire: $(call objs,tests/pty/cable.c tests/pty/glass.c)
# Functions of their own stand in for those that would ask others.
$(BUILD)/tests/fuzz/test_downloads: TESTLIBS := $(addprefix -Wl$(comma)--wrap=,http_ask hub_wait hub_back_off)
$(BUILD)/tests/fuzz/test_attached: TESTLIBS := $(addprefix -Wl$(comma)--wrap=asker_,open close ask stop)
$(BUILD)/tests/fuzz/test_chat: TESTLIBS := $(addprefix -Wl$(comma)--wrap=clock_,ns ms_since)
$(BUILD)/tests/unit/test_decode $(BUILD)/tests/unit/test_engine $(BUILD)/tests/unit/test_guided: TESTLIBS := $(addprefix -Wl$(comma)--wrap=clock_,ns ms_since waited_ns)
$(BUILD)/tests/fuzz/test_batch: TESTLIBS := -Wl,--wrap=ui_responder
$(BUILD)/tests/unit/test_seeing: TESTLIBS := $(addprefix -Wl$(comma)--wrap=,form_grammar grammar_of_calls image_decode)
$(BUILD)/tests/unit/test_sights: TESTLIBS := -Wl,--wrap=image_decode
$(BUILD)/tests/unit/test_image: TESTLIBS := -Wl,--wrap=pthread_cond_timedwait
$(BUILD)/tests/unit/test_machine: | $(BUILD)/tests/unit/fake_nvml.so
$(BUILD)/tests/unit/%.so: tests/unit/%.c $(BUILD)/knobs
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(Q)$(CC) $(CSTD) $(WARN) -shared -fPIC -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.c.o $(BUILD)/libui.a $(BUILD)/libq35.a | models
	$(call say,LINK $@)
	$(LINK) $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(TESTLIBS) $(LIBS) $(CUDALIBS)

# Products are slow under a sanitizer, and are optimized there, too.  What only tests is compiled for speed of compiling.
TESTOPT  := $(if $(SAN),-O0,-O1)
opt       = $(if $(filter tests/bench/%,$<),$(OPT),$(if $(filter tests/%,$<),$(TESTOPT),$(if $(and $(SAN),$(filter kernels/cpu/%,$<)),-O3,$(OPT))))
$(BUILD)/%.c.o: %.c Makefile $(BUILD)/knobs
	@mkdir -p $(@D)
	$(call say,CC   $<)
	$(Q)$(CC) $(CSTD) $(opt) $(ARCH) -g $(WARN) $(SANFLAGS) $(CPPFLAGS) $(PKGFLAGS) -DQ35_SHARE='"$(PREFIX)/share/q35chat"' $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%.cu.o: %.cu $(BUILD)/knobs.cu
	@mkdir -p $(@D)
	$(call say,NVCC $<)
	$(Q)rm -rf $@.parts && mkdir $@.parts
	$(Q)$(NVCC) $(OPT) $(NVFLAGS) -DQ35_CUDA -MMD -MP --keep-dir $@.parts -c $< -o $@ 2> $@.ptxas || { cat $@.ptxas >&2; exit 1; }
	$(Q)sh tests/cuda_slow.sh $@.parts/*.ptx > $@.slow && rm -rf $@.parts

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
