#!/usr/bin/env bash
# Breaks the core in every small way, one at a time, and lists what no test notices: tests/mutants.sh [ARGUMENT...]
#
# Which modules is in tests/mutants.toml. Takes hours; `--shard 0/8` takes every eighth way,
# `--in-diff FILE` what a difference touches, `--re WORDS` what is named so. Installs cargo-mutants if it is missing.
# Prints how many were noticed; docs/testing.md argues those that were not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=27.1.0
if ! cargo mutants --version 2>/dev/null | grep -qF "$version"; then
    cargo install --locked cargo-mutants --version "$version"
fi

# Without the tests of the dialects that nobody speaks, which take longest.
quick=(--tests -- --skip g10_every_dialect --skip the_random_dialects)

# What is to be broken must be whole.
cargo test --locked --profile checked --package protocol-core --quiet "${quick[@]}"

out=target/mutants
rm -rf "$out"
mkdir -p "$out"/{quick,all}

# mutants DIRECTORY ARGUMENT...: that some are not noticed (2) or hang (3) is no failure.
mutants() {
    local to=$out/$1
    shift
    # Each job has a target directory of its own.
    env -u CARGO_TARGET_DIR cargo mutants --config tests/mutants.toml --jobs 2 --baseline skip --timeout 120 --output "$to" "$@" ||
        (($? == 2 || $? == 3))
}

# names DIRECTORY...: of the mutants that ended like that, or nothing.
names() {
    local ending
    for ending in "${@/%/.txt}"; do
        cat "$out/$ending" 2>/dev/null || true
    done
}

# Nearly all are noticed by the core's own tests.
mutants quick "$@" -- "${quick[@]}"

# The others meet everything that drives nothing but the core.
mapfile -t left < <(names quick/mutants.out/missed | sed 's/[][\\.*^$()|{}?+]/\\&/g; s/.*/--re=^&$/')
if ((${#left[@]})); then
    mutants all "${left[@]}" --test-package protocol-core,rescind-tests -- \
        --lib --test 'g*' --test relay --test vectors --test state_machine --test orderings
fi

caught=$(names {quick,all}/mutants.out/caught | wc -l)
hung=$(names {quick,all}/mutants.out/timeout | wc -l)
unviable=$(names quick/mutants.out/unviable | wc -l)
missed=$(names all/mutants.out/missed | wc -l)
names all/mutants.out/missed
printf '%d noticed, %d hung, %d not noticed; %d did not compile\n' "$caught" "$hung" "$missed" "$unviable"
