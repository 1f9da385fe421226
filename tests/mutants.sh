#!/usr/bin/env bash
# Breaks a part of the project in every small way, one at a time, and lists what no test notices:
#
#     tests/mutants.sh core|json|relay|adapters|command-line|conform [ARGUMENT...]
#
# Takes hours for each; `--shard 0/8` takes every eighth way, `--in-diff FILE` what a difference touches, `--re WORDS`
# what is named so. CARGO_MUTANTS_JOBS says how many at a time. Installs cargo-mutants if it is missing. Prints how many
# were noticed, and lists those that were not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

part=${1:-}
shift || usage
# The files of each part: those that decide, or that move what was decided.
case $part in
core) examined=(protocol-core/src/{machine,connection,frame,envelope}/'**' protocol-core/src/{index,outbox,stream}.rs) ;;
json) examined=(protocol-json/src/'**') ;;
relay) examined=(protocol-relay/src/'**') ;;
adapters) examined=(protocol-{async,blocking,child,smol,tokio,websocket}/src/'**') ;;
command-line) examined=(rescind-cli/src/'**') ;;
conform) examined=(rescind-conform/src/{check,judge,known,malformed,once,suite,wire}.rs
    rescind-conform/src/{checks/'**',client/{check,checks,judge,suite}.rs,relay/{checks,message,mod,rules}.rs}) ;;
*) usage ;;
esac
files=()
for file in "${examined[@]}"; do files+=(--file "crates/$file"); done

version=27.1.0
if ! cargo mutants --version 2>/dev/null | grep -qF "$version"; then
    cargo install --locked cargo-mutants --version "$version"
fi

export CARGO_MUTANTS_JOBS=${CARGO_MUTANTS_JOBS:-2}
out=target/mutants/$part
rm -rf "$out"
# A mutant that asks for memory for ever is noticed before it has it all.
ulimit -v $((12 << 20))

# mutants PASS SECONDS ARGUMENT...: tries them, on tests that pass while nothing is broken. That some are not noticed (2)
# or hang (3) is no failure.
mutants() {
    last=$1
    local to=$out/$1 seconds=$2
    shift 2
    mkdir -p "$to"
    # Each job has a target directory of its own.
    env -u CARGO_TARGET_DIR cargo mutants --config tests/mutants.toml "${files[@]}" --timeout "$seconds" \
        --output "$to" --cargo-arg=--locked "$@" || (($? == 2 || $? == 3))
}

# ended ENDING [PASS]: the names of the mutants that ended like that, in one pass or in all.
ended() {
    cat "$out"/${2:-*}/mutants.out/"$1".txt 2>/dev/null || true
}

# again BEFORE PASS SECONDS ARGUMENT...: as `mutants`, with what the pass before did not notice. The rest counts as noticed
# before: patterns (`--re`) would do the same, but let everything pass that deletes a field.
again() {
    local before=$1 pass=$2 seconds=$3
    shift 3
    last=$pass
    local missed
    missed=$(ended missed "$before")
    [[ $missed ]] || return 0
    mkdir -p "$out/$pass/mutants.out"
    cargo mutants --config tests/mutants.toml "${files[@]}" --list | grep -vxFf <(echo "$missed") \
        >"$out/$pass/mutants.out/previously_caught.txt"
    mutants "$pass" "$seconds" --iterate "$@"
}

# Linking takes longest. So each part begins with the few tests that notice most.
case $part in
core)
    # Tests that are slow, and seldom the first to notice anything.
    slow=()
    for test in sixty_thousand two_hundred_thousand schedules:: g10_any_order g10_every_dialect the_random; do
        slow+=(--skip "$test")
    done
    mutants few 30 "$@" --cargo-arg=--lib -- -- "${slow[@]}"
    again few own 30 --cargo-arg=--tests -- -- "${slow[@]}"
    again own vectors 60 --cargo-arg=--package=rescind-tests --cargo-arg=--test={vectors,state_machine}
    again vectors slow 600 --cargo-arg=--package={rescind-tests,rescind-relay} \
        --cargo-arg=--test={suite,orderings,relay}
    ;;
json | relay)
    mutants own 120 "$@" --cargo-arg=--tests
    ;;
adapters)
    mutants own 120 "$@" --cargo-arg=--tests
    again own handles 240 --cargo-arg=--package=rescind-handles-suite --cargo-arg=--test={handles,waiting_answers}
    again handles worlds 240 --cargo-arg=--package=rescind-{tests,children-suite} --cargo-arg=--test={simulation,children}
    again worlds command-line 600 --cargo-arg=--package=rescind-cli --cargo-arg=--tests
    ;;
conform)
    mutants few 60 "$@" --cargo-arg=--lib
    export RESCIND_EVERY_FAULT=1
    again few planted 1200 --cargo-arg=--test=planted
    ;;
command-line)
    mutants own 600 "$@" --cargo-arg=--tests
    ;;
esac

ended missed "$last"
printf '%d noticed, %d hung, %d not noticed; %d did not compile\n' \
    "$(ended caught | wc -l)" "$(ended timeout | wc -l)" "$(ended missed "$last" | wc -l)" "$(ended unviable | sort -u | wc -l)"
