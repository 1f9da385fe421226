#!/usr/bin/env bash
# Fails if a main operation needs over 3 % more instructions or allocations than benches/budget.toml says, or one of the
# core over 2 %; if its cost grows with what is remembered; or if a request in flight takes more bytes than that file says.
#
# Usage: benches/budget.sh [--bless]
#
#   --bless   write what was measured into benches/budget.toml
#
# Needs a Rust toolchain and Python 3.11; installs valgrind by apt where it is missing. Instructions are callgrind's, so
# a busy machine changes nothing, but another compiler or another standard library does.
# CARGO_TARGET_DIR is obeyed; the default is benches/target.
set -euo pipefail

case "${1:-}" in
    "" | --bless) ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; [[ "$1" == --help ]]; exit ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${CARGO_TARGET_DIR:-$PWD/benches/target}"
benches/install-valgrind.sh || { echo "error: valgrind is missing, and apt can't install it" >&2; exit 1; }
# Together: these packages ask the same of serde_json.
CARGO_TARGET_DIR="$target" cargo build --quiet --locked --release --manifest-path benches/Cargo.toml \
    --package peer-core --package peer-tokio --package limits \
    --bin peer-core --bin core-scaling --bin peer-tokio --bin limits
exec python3 benches/budget.py "$target/release" "$@"
