#!/usr/bin/env bash
# Line coverage of protocol-core and protocol-json, by their own tests, the vectors, the tables and the random orderings: tests/coverage.sh
#
# Prints the share of each file, the lines that nothing reaches, and the whole; fails under 95 %. Lines of tests
# are not counted, and neither are doctests. Reads with the LLVM of the Rust compiler's own version, from apt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

least=95
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')

if ! command -v "llvm-cov-$llvm" >/dev/null; then
    root=()
    if ((EUID != 0)); then root=(sudo); fi
    export DEBIAN_FRONTEND=noninteractive
    "${root[@]}" apt-get update
    "${root[@]}" apt-get install -y --no-install-recommends "llvm-$llvm"
fi

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
# Its own build: everything is compiled anew with counters.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/coverage"
export RUSTFLAGS="-C instrument-coverage"
# Built once; the tests that draw dialects are worth it.
export CARGO_PROFILE_CHECKED_OPT_LEVEL=1
export LLVM_PROFILE_FILE="$raw/%p-%m.profraw"

# tests ARGUMENT...: the two crates' own tests, and those of the workspace that drive nothing but the core.
tests() {
    cargo test --locked --profile checked --package rescind-core --package rescind-json --tests "$@"
    cargo test --locked --profile checked --package rescind-tests \
        --test vectors --test state_machine --test orderings "$@"
}
tests --quiet

mapfile -t binaries < <(tests --no-run --message-format json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | sort -u)
"llvm-profdata-$llvm" merge --sparse "$raw"/*.profraw -o "$raw/merged"
"llvm-cov-$llvm" export --format lcov --instr-profile "$raw/merged" "${binaries[@]/#/--object=}" \
    --sources "$PWD"/crates/protocol-{core,json}/src 2>/dev/null >"$raw/lcov"

LEAST=$least python3 - "$raw/lcov" <<'PYTHON'
import os, re, sys

counts = {}  # file -> line -> how often it was reached
for row in open(sys.argv[1], encoding="utf-8"):
    if row.startswith("SF:"):
        lines = counts.setdefault(os.path.relpath(row[3:].strip()), {})
    elif row.startswith("DA:"):
        line, reached = map(int, row[3:].split(",")[:2])
        lines[line] = lines.get(line, 0) + reached

all_lines = all_reached = 0
for name, lines in sorted(counts.items()):
    if name.endswith("/tests.rs"):
        continue
    # Tests of the module are the end of its file.
    source = open(name, encoding="utf-8").read().split("\n")
    end = next((n for n, text in enumerate(source, 1) if text == "mod tests {"), len(source) + 1)
    lines = {line: reached for line, reached in lines.items() if line < end}
    if not lines:
        continue
    missed = sorted(line for line, reached in lines.items() if not reached)
    all_lines += len(lines)
    all_reached += len(lines) - len(missed)
    print(f"{100 * (1 - len(missed) / len(lines)):6.1f} %  {len(lines):5}  {name}")
    for line in missed:
        print(f"{line:26}  {source[line - 1].strip()}")
share = 100 * all_reached / all_lines if all_lines else 0
print(f"{share:6.1f} %  {all_lines:5}  lines, of which {all_lines - all_reached} are not reached")
sys.exit(share < float(os.environ["LEAST"]))
PYTHON
