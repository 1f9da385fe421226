#!/usr/bin/env bash
# Breaks the core in every small way, one at a time, and lists what no test notices: tests/mutants.sh [ARGUMENT...]
#
# Which modules is in tests/mutants.toml. Takes hours; `--shard 0/8` takes every eighth way,
# `--in-diff FILE` what a difference touches, `--re WORDS` what is named so. CARGO_MUTANTS_JOBS says how many at a
# time. Installs cargo-mutants if it is missing. Prints how many were noticed; docs/testing.md argues those that were not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=27.1.0
if ! cargo mutants --version 2>/dev/null | grep -qF "$version"; then
    cargo install --locked cargo-mutants --version "$version"
fi

export CARGO_MUTANTS_JOBS=${CARGO_MUTANTS_JOBS:-2}
out=target/mutants
rm -rf "$out"
# What asks for memory for ever is noticed before it has it all.
ulimit -v $((12 << 20))

# mutants PASS SECONDS ARGUMENT...: tries them, on tests that pass while nothing is broken. That some are not noticed (2)
# or hang (3) is no failure.
mutants() {
    local to=$out/$1 seconds=$2
    shift 2
    mkdir -p "$to"
    # Each job has a target directory of its own.
    env -u CARGO_TARGET_DIR cargo mutants --config tests/mutants.toml --timeout "$seconds" --output "$to" \
        --cargo-arg=--locked "$@" || (($? == 2 || $? == 3))
}

# ended ENDING [PASS]: the names of the mutants that ended like that, in one pass or in all.
ended() {
    cat "$out"/${2:-*}/mutants.out/"$1".txt 2>/dev/null || true
}

# again BEFORE PASS SECONDS ARGUMENT...: as `mutants`, with what the pass before did not notice.
again() {
    local before=$1 pass=$2 seconds=$3 left
    shift 3
    mapfile -t left < <(ended missed "$before" | sed 's/[][\\.*^$()|{}?+]/\\&/g; s/.*/--re=^&$/')
    ((${#left[@]} == 0)) || mutants "$pass" "$seconds" "${left[@]}" "$@"
}

# What is slow, and seldom the first to notice anything.
slow=()
for test in wire::scan sixty_thousand two_hundred_thousand schedules:: g10_any_order g10_every_dialect the_random; do
    slow+=(--skip "$test")
done

# Linking takes longest. So first the few that notice most, then all of the core's, then what drives nothing but the core.
mutants few 30 "$@" --cargo-arg=--{lib,test=dialects,test=erlmcp,test=g08_limits,test=g09_bad_input,test=relay} \
    -- -- "${slow[@]}"
again few own 30 --cargo-arg=--tests -- -- "${slow[@]}"
again own vectors 60 --cargo-arg=--package=rescind-tests --cargo-arg=--test={vectors,state_machine}
again vectors slow 600 --cargo-arg=--package=rescind-tests \
    --cargo-arg=--test={g08_limits,g09_bad_input,g10_determinism,g10_dialects,orderings,relay}

ended missed slow
printf '%d noticed, %d hung, %d not noticed; %d did not compile\n' \
    "$(ended caught | wc -l)" "$(ended timeout | wc -l)" "$(ended missed slow | wc -l)" "$(ended unviable few | wc -l)"
