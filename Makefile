# make test        everything that CI runs: packages, formatting, lints, all tests (about ten minutes on two quiet cores)
# make python      the Python module, in its own environment (target/python), and its tests
# make check       the quick half: formatting, lints, tests that need neither root nor packages
# make msrv        compile with the oldest supported toolchain
# make golden      rewrite the fingerprints of modelled results after an intended change
# make validate    compare the models with theory, real ext4, published measurements and policies of other authors;
#                  COMPARISONS="drive peers" selects some
# make catalogue   fit the drives of drives/measured to docs/real-drives.csv again
# make bench       performance claims, each compared with an alternative in the same run
# make docs        the documentation as a site in target/docs (mdbook; offline)
# make install     install the release build, units, man pages, completions and configuration below PREFIX (/usr/local);
#                  DESTDIR= installs into an image, BIN= uses another build
# make uninstall   remove them; a changed configuration stays
# make packages    .deb, .rpm, static archive, Python wheel and source archive, and their checksums, in target/packages;
#                  BIN= packs another static build, VERSION= replaces the version
# make os-packages the .deb, .rpm and static archive alone
# make soak        tests that take longer than CI allows; docs/ contains its latest figures
# make lab         doctor, trim, verify and every remedy on storage stacks in a virtual machine (QEMU without KVM);
#                  STACKS="md0 thin-*" selects stacks, KERNEL=bookworm another kernel, DAEMON=1 the daemon
# make transports  the virtual SSD over ublk and FUSE in that machine; PARTS="show recovery" selects parts
# make fuzz        ten minutes of fuzzing for each parser

CARGO ?= cargo
TEST_PACKAGES := $(shell sed 's/\#.*//' .ci/packages.txt)

.PHONY: install uninstall packages os-packages packed-program python-packages test tried python check test-packages format lint fuzz-check deny golden msrv bench bench-python soak mutants lab transports fuzz catalogue validate docs

# Every skipped test adds a line to this file, printed at the end. As root, a skip for a missing package fails
# (TRIMTAB_TESTS=full).
SKIPS := $(CURDIR)/target/skipped-tests
SAY_SKIPS = if [ -s "$(SKIPS)" ]; then echo "$$(wc -l < "$(SKIPS)") skipped:"; sort "$(SKIPS)"; else echo "no test was skipped"; fi

# Many tests wait for a device or a process, so run four more at a time than there are processors.
TEST_THREADS ?= $(shell expr $$(nproc) + 4)

# Many tests wait, so the Python package is built and tested in parallel with them. Incremental builds speed up edits
# but take a quarter longer here.
test tried python: export CARGO_INCREMENTAL = 0
# The module then needs no libpython.
test tried python: export PYO3_BUILD_EXTENSION_MODULE = 1
# The build for the tests also lints: a separate clippy run would check every crate a second time.
test tried python: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
test tried python: export CLIPPY_ARGS = --deny__CLIPPY_HACKERY__warnings
test: test-packages format deny
	$(CARGO) test --workspace --locked --no-run
	@$(MAKE) --no-print-directory -j2 tried python

# Property tests draw the same cases every time here; `make soak` draws new ones.
tried:
	@mkdir -p target && rm -f "$(SKIPS)"
	RUST_TEST_THREADS=$(TEST_THREADS) PROPTEST_RNG_SEED=1 TRIMTAB_TESTS=full TRIMTAB_SKIPS="$(SKIPS)" .ci/within 2700 $(CARGO) test --workspace --locked; status=$$?; $(SAY_SKIPS); exit $$status

# Uses the program built for the tests, and builds the module with the tests of all crates: a separate build (maturin)
# would enable other features and compile thirty crates again. `make packages` makes the wheel.
# Without Python's venv, or without a network for its packages, root gets a failure and other users a message.
PYTHON_ENV := $(CURDIR)/target/python
PYTHON_MODULE := $(CURDIR)/target/python-module
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
python:
	@if python3 -m venv "$(PYTHON_ENV)" && "$(PYTHON_ENV)/bin/pip" install -q --disable-pip-version-check -r crates/trimtab-python/tests/requirements.txt; then \
	  $(CARGO) build -q --workspace --lib --tests --locked && rm -rf "$(PYTHON_MODULE)" && mkdir -p "$(PYTHON_MODULE)" && \
	  cp -r crates/trimtab-python/python/trimtab "$(PYTHON_MODULE)" && \
	  cp "$(TARGET_DIR)/debug/lib_native.so" "$(PYTHON_MODULE)/trimtab/_native.abi3.so" && \
	  TRIMTAB_TESTS=full TRIMTAB="$(TARGET_DIR)/debug/trimtab" PYTHONPATH="$(PYTHON_MODULE)" \
	  "$(PYTHON_ENV)/bin/python" crates/trimtab-python/tests/test_trimtab.py; \
	elif [ "$$(id -u)" = 0 ]; then echo "the Python package was not tried"; exit 1; \
	else echo "python3-venv or its packages are missing: the Python package is not tried"; fi

check: lint
	@mkdir -p target && rm -f "$(SKIPS)"
	PROPTEST_RNG_SEED=1 TRIMTAB_SKIPS="$(SKIPS)" .ci/within 2700 $(CARGO) test --workspace --locked; status=$$?; $(SAY_SKIPS); exit $$status

format:
	$(CARGO) fmt --all --check
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

lint: format
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings

# The fuzz targets are a separate workspace. The tests compile and run their code (tests/it/fuzz_targets.rs). This
# target also compiles their entry points, without the fuzzer's own library.
fuzz-check:
	CUSTOM_LIBFUZZER_PATH=/libnone.a CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-target}" $(CARGO) check --manifest-path fuzz/Cargo.toml --locked --all-features --bins

# Checks licences, sources, duplicates and yanked crates if cargo-deny is installed (cargo install --locked cargo-deny).
# Advisories need a network.
deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --log-level error --all-features check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and sources are not checked"; fi

# Run this only for an intended change of the model. Writes crates/trimtab/tests/it/snapshots/it__golden__*.snap.
golden:
	INSTA_UPDATE=always $(CARGO) test -p trimtab --test it --locked golden::

# Fits drives to published rates: writes drives/measured/*.toml and docs/catalogue.csv. Build again to include them in
# the program.
catalogue:
	$(CARGO) run -q --release --locked -p validate -- catalogue --write

# Fails if a model is too far from theory or, as root, from ext4. Writes docs/published.md, docs/published.csv, docs/peers.csv.
COMPARISONS ?= drive volume published peers
validate:
	for comparison in $(COMPARISONS); do \
	  case $$comparison in published) options="--markdown docs/published.md --csv docs/published.csv";; peers) options="--csv docs/peers.csv";; volume) options="--tries 5";; *) options="";; esac; \
	  $(CARGO) run -q --release --locked -p validate -- $$comparison $$options || exit 1; done

# The oldest toolchain that Cargo.toml promises, if rustup has it (rustup toolchain install VERSION --profile minimal).
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv:
	@if rustup run $(MSRV) rustc --version >/dev/null 2>&1; then \
	  CARGO_TARGET_DIR=target/msrv rustup run $(MSRV) cargo check --workspace --locked; \
	else echo "Rust $(MSRV) is not installed: rust-version is not checked"; exit 1; fi

# As root, installs the Debian packages with the tools that the tests compare with or mount with. Otherwise the tests
# report missing tools.
test-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=$$(for p in $(TEST_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	  if [ -n "$$missing" ]; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -q && apt-get install -q -y --no-install-recommends $$missing; \
	  fi; \
	else echo "not root or no apt-get: tests that need $(TEST_PACKAGES) will say why they are skipped"; fi

# Ten minutes of coverage-guided fuzzing for each parser (cargo install cargo-fuzz). Works with a stable toolchain.
# Parsers of the binary crate are built separately, because their build takes several times as long.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= spec trace policy plan jobs run tables layout sysroot archive sweep wear
fuzz:
	for t in $(FUZZ_TARGETS); do \
	  case $$t in spec|trace|policy|plan|jobs) features="";; *) features="--features binary";; esac; \
	  mkdir -p fuzz/corpus/$$t; \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$features $$t $(CURDIR)/fuzz/corpus/$$t $(CURDIR)/fuzz/seeds/$$t $(CURDIR)/drives -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096 -timeout=60 || exit 1; done

# Compares every performance claim with an alternative in the same run, and fails if a claim does not hold. Run it on a
# quiet machine. Every sample goes to a CSV per benchmark, labelled with the machine. BENCH_CSV=docs/bench updates the
# committed ones.
BENCH_CSV ?= target/bench
bench bench-python: export TRIMTAB_BENCH_CSV = $(abspath $(BENCH_CSV))
bench: test-packages
	$(CARGO) bench -p trimtab --no-fail-fast --bench '*'; rust=$$?; $(MAKE) bench-python && exit $$rust

# The cost of Dask and Ray compared with threads, and of Python compared with the program, with a release wheel. Run
# `make python` first to create the environment.
bench-python:
	$(CARGO) build -q --locked --release -p trimtab
	"$(PYTHON_ENV)/bin/maturin" build -q --locked --release -m crates/trimtab-python/Cargo.toml -i "$(PYTHON_ENV)/bin/python" -o target/wheels-release
	"$(PYTHON_ENV)/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps target/wheels-release/*.whl
	"$(PYTHON_ENV)/bin/python" crates/trimtab-python/benches/native.py
	"$(PYTHON_ENV)/bin/python" crates/trimtab-python/benches/overhead.py

# First checks the stated rust-version. Then runs the models' property tests with new cases, about ten seconds a round.
# Each round prints its seed, and PROPTEST_RNG_SEED=SEED cargo test repeats it. Next come the SSD model against its
# reference, the full study of every shipped drive, and 200 power cuts each on ext4 and XFS. Last come repeated studies
# on ext4, XFS and btrfs, killed studies, and the alerts of a fleet.
SOAK_CUTS ?= 200
SOAK_TRIES ?= 1000
# Number of random drives that are learned with each budget and predicted.
SOAK_TWINS ?= 200
SOAK_KILLS ?= 200
SOAK_STUDIES ?= 20
SOAK_FULL_STUDIES ?= 5
SOAK_HOSTS ?= 1000
# Kills in each phase of a study.
SOAK_STUDY_KILLS ?= 20
# A selection of the lab's stacks; `make lab` runs all of them.
SOAK_STACKS ?= ext4-nvme xfs-sata btrfs-virtio ntfs3 usb-bot luks lvm-on-luks thin-passdown thin-nopassdown md0-mixed swap
SOAK_SEEDS ?= $(shell seq 1001 1060)
soak: test-packages msrv fuzz-check
	for seed in $(SOAK_SEEDS); do \
	  echo "property tests, seed $$seed"; \
	  PROPTEST_RNG_SEED=$$seed timeout 600 $(CARGO) test -q -p trimtab-drive -p trimtab-sim -p trimtab-study --lib || exit 1; done
	TRIMTAB_REFERENCE_CASES=10000 $(CARGO) test -q -p trimtab-drive --lib reference
	$(CARGO) test -p trimtab-study --lib learn::tests::full_budget -- --ignored
	$(CARGO) test -p trimtab-study --lib stand_in -- --ignored
	$(CARGO) test -p trimtab-sim --lib preconditioned -- --ignored
	$(CARGO) test -p trimtab-linux --lib modelled_drive -- --ignored --nocapture
	TRIMTAB_TWINS=$(SOAK_TWINS) $(CARGO) test -p trimtab-study --lib learn::tests::recovery -- --nocapture
	TRIMTAB_TWINS=$(SOAK_TWINS) TRIMTAB_TWINS_BUDGET=full TRIMTAB_TWINS_CHURN=8 $(CARGO) test -p trimtab-study --lib learn::tests::recovery -- --nocapture
	TRIMTAB_TWINS=$(SOAK_TWINS) TRIMTAB_TWINS_ITSELF=1 TRIMTAB_TWINS_CHURN=8 $(CARGO) test -p trimtab-study --lib learn::tests::recovery -- --nocapture
	TRIMTAB_LOG_DRIVES=20 $(CARGO) test -p trimtab --lib twin::logs -- --nocapture
	$(CARGO) build -q -p trimtab --release
	python3 crates/trimtab/tests/it/pts_fio_rounds.py $(TARGET_DIR)/release/trimtab
	TRIMTAB_STUDIES=full $(CARGO) test -p trimtab --release --test it study_drives
	TRIMTAB_SOAK=$(SOAK_CUTS) $(CARGO) test -p trimtab --release --test it -- power_cuts hostile --nocapture
	TRIMTAB_SOAK_TRIES=$(SOAK_TRIES) TRIMTAB_SOAK_KILLS=$(SOAK_KILLS) $(CARGO) test -p trimtab --release --test it soak:: -- --nocapture
	TRIMTAB_SOAK_STUDIES=$(SOAK_STUDIES) TRIMTAB_SOAK_FULL=$(SOAK_FULL_STUDIES) TRIMTAB_SOAK_STUDY_KILLS=$(SOAK_STUDY_KILLS) \
	  $(CARGO) test -p trimtab --release --test it repeated_studies -- --nocapture
	TRIMTAB_SOAK_HOSTS=$(SOAK_HOSTS) $(CARGO) test -p trimtab --release --test it thirty_days -- --nocapture
	$(MAKE) lab STACKS="$(SOAK_STACKS)"
	$(MAKE) mutants

# Makes one change to the code at a time that some test should detect, if cargo-mutants is installed (cargo install
# --locked cargo-mutants). Runs only the unit tests of the changed module. A full run takes hours: MUTANTS_SHARD=0/12
# tries every twelfth change. docs/method/mutants.md has the figures.
MUTANTS_SHARD ?= 0/1
MUTANTS = nice -n 15 $(CARGO) mutants -j1 --shard $(MUTANTS_SHARD) --sharding round-robin --timeout 120 --no-shuffle
mutants:
	@if $(CARGO) mutants --version >/dev/null 2>&1; then \
	  export PROPTEST_RNG_SEED=1; failed=0; \
	  try() { out=target/mutants/$$1; mkdir -p $$out; shift; $(MUTANTS) -o $$out "$$@" || [ $$? -le 3 ] || failed=1; }; \
	  try policy -p trimtab-sim -f "crates/trimtab-sim/src/policy.rs" -f "crates/trimtab-sim/src/policy/**/*.rs" -- --lib -- policy; \
	  try analysis -p trimtab-sim -f "crates/trimtab-sim/src/analysis/**/*.rs" -- --lib -- analysis; \
	  try ledger -p trimtab-drive -f crates/trimtab-drive/src/ledger.rs -f crates/trimtab-drive/src/discards.rs -- --lib -- ledger discards; \
	  try windows -p trimtab-linux -f crates/trimtab-linux/src/trim/layout.rs -f crates/trimtab-linux/src/trim/free_space.rs -- --lib -- trim::; \
	  try power-cuts -p trimtab-vssd -f crates/trimtab-vssd/src/faults/power.rs -- --lib -- faults; \
	  exit $$failed; \
	else echo "cargo-mutants is not installed: no mutants were tried"; fi

# Builds the guest once for each kernel, in target/lab. Without STACKS, runs all stacks.
LAB_PACKAGES := qemu-system-x86 debootstrap zstd xz-utils cpio
lab:
	dpkg -s $(LAB_PACKAGES) > /dev/null 2>&1 || apt-get install -y --no-install-recommends $(LAB_PACKAGES)
	$(CARGO) build --release -p trimtab
	LAB_KERNEL=$(KERNEL) crates/trimtab/tests/lab/lab $(if $(DAEMON),--daemon) $(STACKS)

transports:
	dpkg -s $(LAB_PACKAGES) > /dev/null 2>&1 || apt-get install -y --no-install-recommends $(LAB_PACKAGES)
	$(CARGO) build -p trimtab
	$(CARGO) test -p trimtab --test it --no-run
	crates/trimtab/tests/lab/transports $(PARTS)

# The page of commands gets the help of every command that has a man page.
MDBOOK ?= mdbook
docs:
	@$(MDBOOK) --version >/dev/null 2>&1 || { echo "mdbook is not installed: cargo install --locked mdbook"; exit 1; }
	@test -x $(BIN) || $(CARGO) build --release --locked -p trimtab
	rm -rf target/docs-source target/docs target/docs-manual
	mkdir -p target/docs-manual && cp -r docs target/docs-source && $(BIN) manual target/docs-manual
	for page in target/docs-manual/*.1; do \
	  command=$$(basename $$page .1 | tr - ' '); printf '\n## %s\n\n```text\n' "$$command"; \
	  COLUMNS=100 $(BIN) $${command#trimtab} --help || exit 1; echo '```'; done >> target/docs-source/commands.md
	$(MDBOOK) build target/docs-source

include packaging/install.mk

# One static program serves every distribution: musl libc, or static glibc without that target
# (rustup target add x86_64-unknown-linux-musl; apt install musl-tools).
ARCH := $(shell uname -m)
PACKED_TARGET ?= $(shell test -d "$$(rustc --print sysroot)/lib/rustlib/$(ARCH)-unknown-linux-musl" && command -v musl-gcc >/dev/null && echo $(ARCH)-unknown-linux-musl || echo $(ARCH)-unknown-linux-gnu)
OUT ?= target/packages
os-packages python-packages: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

packages: os-packages python-packages
	cd $(OUT) && rm -f SHA256SUMS && sha256sum -- * > SHA256SUMS && cat SHA256SUMS

ifneq ($(origin BIN),command line)
os-packages: BIN = $(or $(CARGO_TARGET_DIR),target)/$(PACKED_TARGET)/dist/trimtab
os-packages: packed-program
endif

# Paths of this machine stay out of the program.
packed-program:
	CARGO_INCREMENTAL=0 RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$(CURDIR)=. --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=" \
	  $(CARGO) build --profile dist --locked -p trimtab --target $(PACKED_TARGET)

os-packages:
	BIN="$(abspath $(BIN))" VERSION="$(VERSION)" OUT="$(abspath $(OUT))" packaging/pack

# Without --locked: the source archive contains fewer crates, so cargo drops lines from its lock file.
PACKAGING_ENV := $(CURDIR)/target/packaging
python-packages:
	python3 -m venv "$(PACKAGING_ENV)"
	"$(PACKAGING_ENV)/bin/pip" install -q --disable-pip-version-check -r packaging/requirements.txt
	"$(PACKAGING_ENV)/bin/maturin" build -q --release --compatibility pypi --sdist -m crates/trimtab-python/Cargo.toml -i "$(PACKAGING_ENV)/bin/python" -o $(OUT)
	"$(PACKAGING_ENV)/bin/twine" check --strict $(OUT)/trimtab-*.whl $(OUT)/trimtab-*.tar.gz
