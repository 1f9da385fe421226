#!/usr/bin/env bash
# Fuzzes each target for so many seconds, two at a time: fuzz/run.sh SECONDS [TARGET...]
#
# Begins with the committed corpus, keeps what it finds beside it, and fails on a finding, whose input it
# names. Runs on the stable toolchain. Installs cargo-fuzz if it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=0.13.1
at_once=2

if (($# == 0)) || [[ ! $1 =~ ^[0-9]+$ ]]; then
    echo "usage: fuzz/run.sh SECONDS [TARGET...]" >&2
    exit 2
fi
seconds=$1
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
    targets=(frames messages operations schedule relay differential handler endpoint session)
fi

if ! cargo fuzz --version 2>/dev/null | grep -qF "$version"; then
    # Without optimization it is built in half the time: it only starts the compiler and the targets.
    cargo install --locked --debug cargo-fuzz --version "$version"
fi
for target in "${targets[@]}"; do
    ./corpus.sh unpack "$target"
done
# One build for all: cargo-fuzz would build each by itself.
cargo fuzz build -s none

log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

# fuzz TARGET: what it found is in its log.
fuzz() {
    local options=(-max_total_time="$seconds" -max_len=2048 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1)
    case $1 in frames | messages | differential) options+=(-dict=messages.dict) ;; esac
    if cargo fuzz run -s none "$1" -- "${options[@]}" >"$log/$1" 2>&1; then
        echo ok >"$log/$1.ok"
    fi
}

for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= at_once)); do
        wait -n
    done
    fuzz "$target" &
done
wait

failed=0
for target in "${targets[@]}"; do
    if [[ -f "$log/$target.ok" ]]; then
        covered=$(sed -n 's/.*DONE *\(cov: [0-9]*\).* \(exec\/s: [0-9]*\).*/\1, \2/p' "$log/$target")
        units=$(sed -n 's/^stat::number_of_executed_units: //p' "$log/$target")
        printf '%-13s ok: %s executions, %s\n' "$target" "$units" "$covered"
    else
        failed=1
        printf '%-13s FAILED\n' "$target"
        tail -n 60 "$log/$target"
    fi
done
exit "$failed"
