#!/usr/bin/env python3
"""Sums the self cost of a callgrind profile by what the functions are for.

profile.py SMALL LARGE STEPS: two profiles of the same work, LARGE with STEPS more steps. Prints
instructions per step by family, and the functions that cost most.
"""

import collections
import re
import subprocess
import sys

FAMILIES = [
    ("malloc and free", r"malloc|free\b|realloc|_int_|calloc|unlink_chunk|tcache|__rust_|__rdl_|GlobalAlloc|took"),
    ("memcpy, memcmp, memset", r"mem(cpy|move|set|cmp)|bcmp"),
    ("outbox", r"outbox|Outbox|btree"),
    ("envelope: decode", r"envelope::(?!.*(write|ask|respond))|protocol_json::(?!write)|protocol_core::id::"),
    ("envelope: encode", r"envelope::.*(write|ask|respond)|protocol_json::write"),
    ("UTF-8", r"from_utf8|validations"),
    ("the host and its serde_json", r"serde|itoa|ryu|Payload|peer_\w+::|String as core::clone"),
    ("framing, memchr", r"memchr|frame::|Deframer|Lines|InputBuffer"),
    ("machine", r"protocol_core::(machine|index|slot)|machine::|slab::"),
    ("connection", r"protocol_core"),
    ("endpoint", r"protocol_endpoint"),
    ("operations", r"operations"),
    ("adapter", r"protocol_async|protocol_tokio|protocol_smol"),
    ("pipe", r"duplex|Duplex|SimplexStream|wire::|BytesMut|bytes::|io::split|compat|Pipe"),
    (
        "runtime",
        r"tokio|smol|async_executor|async_task|async_io|futures|waker|Waker|park|pthread|clock_gettime|Instant",
    ),
]


def costs(profile):
    """Self cost by function."""
    text = subprocess.run(
        ["callgrind_annotate", "--threshold=100", "--auto=no", profile], capture_output=True, text=True, check=True
    ).stdout
    found = collections.Counter()
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+) \([^)]*\)\s+([^ ].*)", line)
        if match and "PROGRAM TOTALS" not in line:
            function = match[2].split(" [")[0].split(":", 1)[-1]
            found[function] += int(match[1].replace(",", ""))
    return found


def main():
    small, large, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    before, after = costs(small), costs(large)
    per_step = {name: (cost - before[name]) / steps for name, cost in after.items()}
    families = collections.Counter()
    for name, cost in per_step.items():
        family = next((family for family, pattern in FAMILIES if re.search(pattern, name)), "other")
        families[family] += cost
    total = sum(families.values())
    print(f"{total:10,.0f}  instructions per step")
    for family, cost in families.most_common():
        print(f"{cost:10,.0f}  {100 * cost / total:4.1f} %  {family}")
    print()
    for name, cost in sorted(per_step.items(), key=lambda item: -item[1])[:40]:
        print(f"{cost:10,.1f}  {name[:150]}")


if __name__ == "__main__":
    main()
