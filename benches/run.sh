#!/usr/bin/env bash
# The side by side: builds every peer, runs each in a process of its own, interleaved, and prints one table.
# benches/run.sh --help says more.
set -euo pipefail

usage() {
    cat <<'HELP'
Usage: benches/run.sh [--quick] [--write-docs] [--skip-build] [--only PEER[,PEER...]] [--help]

Builds the peers (ten minutes on a fresh machine with two cores), measures each in a process of its own, prints the
tables, and writes benches/results.json.

  --quick        two repetitions and short slices: about two minutes after the build
  --write-docs   put the table of users into docs/benchmarks.md, between its markers
  --skip-build   measure what is built already
  --only PEERS   only these, by the names of their directories in benches/peers, and limits, node and users
  --help         this

  --only users   only the first table of docs/benchmarks.md: an ACP agent, an LSP session and MCP tools, each beside
                 the official library (four minutes after the build; it is benches/users/run.py)

Needs a Rust toolchain and Python 3. vscode-jsonrpc needs Node with npm, and is left out without. Instructions need
valgrind, which is installed by apt where that is possible, and are left out without.
CARGO_TARGET_DIR is obeyed; the default is benches/target.
HELP
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
note() { printf '%s\n' "$*" >&2; }

repetitions=7 budget=150 instructions=1280 quick="" build=1 docs=0 only=""
while (($#)); do
    case "$1" in
        --quick) quick=1 repetitions=2 budget=60 instructions=320 ;;
        --write-docs) docs=1 ;;
        --skip-build) build=0 ;;
        --only) only="${2:-}" && [[ -n "$only" ]] || fail "--only wants names"; shift ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; fail "unknown option: $1" ;;
    esac
    shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Not exported before: a relative path is meant from where the caller stood.
target="${CARGO_TARGET_DIR:-$PWD/benches/target}"
export CARGO_TARGET_DIR="$target"
# Large buffers are kept by malloc: else the page faults at 1 MiB, which depend on what a process did before, move even
# the floor by half.
export MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=33554432

# Each: name, package, binary and its first arguments.
subjects=(
    "floor peer-floor peer-floor"
    "core peer-core peer-core"
    "relay peer-core peer-core relay"
    "tokio peer-tokio peer-tokio"
    "router peer-tokio peer-tokio router"
    "smol peer-smol peer-smol"
    "lsp-server peer-lsp-server peer-lsp-server"
    "tower-lsp-server peer-tower-lsp-server peer-tower-lsp-server"
    "async-lsp peer-async-lsp peer-async-lsp"
    "tarpc peer-tarpc peer-tarpc"
    "jsonrpsee peer-jsonrpsee peer-jsonrpsee"
    "acp peer-acp peer-acp"
    "rmcp peer-rmcp peer-rmcp"
)

wanted() { [[ -z "$only" || ",$only," == *",$1,"* ]]; }

chosen=()
for subject in "${subjects[@]}"; do
    if wanted "${subject%% *}"; then chosen+=("$subject"); fi
done
wanted_limits=0 wanted_node=0 wanted_core=0 wanted_tokio=0 wanted_users=0
if wanted limits; then wanted_limits=1; fi
if wanted node; then wanted_node=1; fi
if wanted core; then wanted_core=1; fi
if wanted tokio; then wanted_tokio=1; fi
if wanted users; then wanted_users=1; fi
((${#chosen[@]} + wanted_limits + wanted_node + wanted_users)) || fail "no peer is called: $only"

command -v python3 >/dev/null || fail "python3 is missing"
if ((wanted_users)); then
    users=()
    if [[ -n "$quick" ]]; then users+=(--rounds "$repetitions"); fi
    if ((!build)); then users+=(--skip-build); fi
    if ((docs)); then users+=(--write-docs); fi
    benches/users/run.py "${users[@]}"
    if [[ "$only" == users ]]; then exit 0; fi
fi

build_all() {
    command -v cargo >/dev/null || fail "cargo is missing: install a Rust toolchain"
    local package subject packages=()
    for subject in "${chosen[@]}"; do
        read -r _ package _ <<<"$subject"
        packages+=("$package")
    done
    if ((wanted_limits)); then packages+=(limits); fi
    # One at a time: together cargo would give all of them the features that one asks of serde_json.
    while IFS= read -r package; do
        note "building $package"
        local features=()
        if [[ $package == limits ]]; then features=(--features parsers); fi
        cargo build --quiet --locked --release --manifest-path benches/Cargo.toml --package "$package" "${features[@]}"
    done < <(printf '%s\n' "${packages[@]}" | awk '!seen[$0]++')
}
if ((build)); then build_all; fi

if ((wanted_node)); then
    if command -v npm >/dev/null && command -v node >/dev/null; then
        if ((build)) || [[ ! -d benches/node/node_modules ]]; then
            (cd benches/node && npm ci --silent --no-audit --no-fund)
        fi
    else
        note "Node or npm is missing: vscode-jsonrpc is left out."
        wanted_node=0
    fi
fi
benches/install-valgrind.sh || note "valgrind is missing: instructions are left out."

raw="$target/bench-figures"
rm -rf "$raw"
mkdir -p "$raw"

# measure FILE SECONDS COMMAND...: appends a process's figures; one that fails is told, and has none.
failures=()
measure() {
    local file="$raw/$1.jsonl" seconds="$2"
    shift 2
    if ! timeout "$seconds" "$@" >"$file" 2>"$file.errors"; then
        failures+=("$*: $(tail -n 3 "$file.errors" | tr '\n' ' ')")
        rm -f "$file"
    fi
    rm -f "$file.errors"
}

# The timed part runs alone, on one core.
pinned=()
if command -v taskset >/dev/null; then pinned=(taskset -c "$(($(nproc) - 1))"); fi
SECONDS=0
for ((repetition = 1; repetition <= repetitions; repetition++)); do
    note "repetition $repetition of $repetitions (load $(cut -d ' ' -f 1 /proc/loadavg), ${SECONDS} s)"
    for subject in "${chosen[@]}"; do
        read -r name _ binary arguments <<<"$subject"
        # shellcheck disable=SC2086 # none or one word
        measure "speed-$name-$repetition" 120 "${pinned[@]}" "$target/release/$binary" ${arguments:-} speed "$budget"
    done
    if ((wanted_tokio)); then
        measure "two-processes-$repetition" 120 "${pinned[@]}" "$target/release/two-processes" speed "$budget"
    fi
    if ((wanted_core)); then
        measure "scaling-$repetition" 120 "${pinned[@]}" "$target/release/core-scaling" speed "$budget"
    fi
    if ((wanted_limits && repetition <= 3)); then
        measure "limits-$repetition" 180 "${pinned[@]}" "$target/release/limits" speed "$((budget / 3))"
    fi
    if ((wanted_node)); then
        measure "speed-node-$repetition" 180 "${pinned[@]}" node benches/node/bench.js speed "$((budget * 2))"
    fi
done

# Counts are exact, so they are taken beside other work.
note "counting heap and instructions (${SECONDS} s)"
counted() {
    local name binary arguments subject count
    for subject in "${chosen[@]}"; do
        read -r name _ binary arguments <<<"$subject"
        [[ "$name" != relay ]] || continue
        # shellcheck disable=SC2086
        measure "heap-$name" 300 "$target/release/$binary" ${arguments:-} heap 100000
        if [[ "$name" == core || ("$name" == @(tokio|smol) && -z "$quick") ]]; then
            measure "heap-many-$name" 300 "$target/release/$binary" heap 1000000
        fi
    done
    if ((wanted_node)); then measure heap-node 300 node --expose-gc benches/node/bench.js heap 100000; fi
}
instructions_of() {
    LC_ALL=C valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
# The difference of two sizes: what is done once is in both.
instructed() {
    command -v valgrind >/dev/null || return 0
    local name binary arguments subject work title few more label
    for subject in "${chosen[@]}"; do
        read -r name _ binary arguments <<<"$subject"
        label=$(sed -n '1s/.*"peer":"\([^"]*\)".*/\1/p' "$raw/speed-$name-1.jsonl" 2>/dev/null || true)
        [[ -n "$label" ]] || continue
        for work in "echo 1" "echo 64" cancel; do
            title="${work/ /.}"
            # shellcheck disable=SC2086
            few=$(instructions_of "$target/release/$binary" ${arguments:-} $work "$instructions")
            # shellcheck disable=SC2086
            more=$(instructions_of "$target/release/$binary" ${arguments:-} $work "$((3 * instructions))")
            if [[ -n "$few" && -n "$more" ]] && ((more - few > instructions * 100)); then
                printf '{"peer":"%s","metric":"ir.%s","value":%d}\n' "$label" "$title" \
                    $(((more - few) / (2 * instructions))) >>"$raw/instructions-$name.jsonl"
            fi
        done
    done
}
instructed &
instructing=$!
counted
wait "$instructing"

python3 benches/machine.py >"$raw/machine.json"
python3 benches/table.py "$raw" benches/results.json
note "took ${SECONDS} s after the build; wrote benches/results.json"
if ((${#failures[@]})); then
    printf 'FAILED: %s\n' "${failures[@]}" >&2
    exit 1
fi
