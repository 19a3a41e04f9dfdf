# A thin front to meson and ninja: what a newcomer types. BUILD names another build directory.
BUILD  ?= build
PREFIX ?= /usr/local

.PHONY: all command setup demo check check-long bench install clean format

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)
	@ln -sfn src/tool/cli/tally $(BUILD)/tally

# Only the command, without tests.
command: $(BUILD)/build.ninja
	@ninja -C $(BUILD) src/tool/cli/tally
	@ln -sfn src/tool/cli/tally $(BUILD)/tally

$(BUILD)/build.ninja:
	@meson setup $(BUILD)

# What building, the demonstration and the tests need; `make bench` adds its own.
setup:
	@tools/setup build demo check

demo:
	@tools/setup build demo
	@$(MAKE) --no-print-directory command BUILD=$(BUILD)
	@BUILD=$(BUILD) tools/demo

check: setup
	@BUILD=$(BUILD) tools/check

# The same, with everything that takes too long for every change: all modes of every row of tests/system/harm, hundreds of kills, the
# coverage of intervals, and all that a plain user may do, as one. Hours.
check-long: setup
	@TALLY_LONG=1 BUILD=$(BUILD) tools/check

bench:
	@tools/setup build bench
	@$(MAKE) --no-print-directory all BUILD=$(BUILD)
	@BUILD=$(BUILD) bench/run $(BENCH)

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@$(MAKE) --no-print-directory command BUILD=$(BUILD)
	@ninja -C $(BUILD) completions
	@meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD)

format:
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i
