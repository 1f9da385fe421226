#!/usr/bin/env bash
# The corpus of a target, committed as corpus/TARGET.pack, as the files that a fuzzer wants.
#
#   fuzz/corpus.sh unpack TARGET    writes the pack's entries into corpus/TARGET/
#   fuzz/corpus.sh pack TARGET      keeps of corpus/TARGET/ what the coverage needs, and packs that
#   fuzz/corpus.sh add TARGET NAME FILE   adds a file to the pack, under a name that is kept for ever
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

corpus() {
    cargo run --quiet --locked --example corpus -- "$@"
}

case "${1-} $#" in
"unpack 2")
    corpus unpack "corpus/$2.pack" "corpus/$2"
    ;;
"pack 2")
    minimal=$(mktemp -d)
    named=$(mktemp -d)
    trap 'rm -rf "$minimal" "$named"' EXIT
    cp -r "corpus/$2/." "$minimal"
    # libFuzzer names its files for their hashes, which packs cut short; the others stay, whatever they
    # cover.
    find "corpus/$2" -type f -regextype posix-extended -not -regex '.*/[0-9a-f]{8}([0-9a-f]{32})?' \
        -exec cp {} "$named" ';'
    # By edges, not by how often each was taken: that would keep ten times as much.
    cargo fuzz cmin -s none "$2" "$minimal" -- -use_counters=0
    cp -r "$named/." "$minimal"
    corpus pack "$minimal" "corpus/$2.pack"
    ;;
"add 4")
    ./corpus.sh unpack "$2"
    cp "$4" "corpus/$2/$3"
    ./corpus.sh pack "$2"
    ;;
*)
    sed -n '4,6s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
