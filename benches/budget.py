#!/usr/bin/env python3
"""Compares what the main operations cost with benches/budget.toml; see budget.sh."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tomllib

FILE = pathlib.Path(__file__).with_name("budget.toml")
HEAD = FILE.read_text().split("\n[", 1)[0]
# A rise of more than this fails.
RISE = 0.03
# The difference of two sizes is what the steps in between cost.
FEW, MORE = 320, 1280


def instructions(binaries, command, within, times):
    """All instructions of a run, or those of one function and what it calls."""
    arguments = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if within:
        arguments.append(f"--toggle-collect={within}")
    program, *rest = command.split()
    run = subprocess.run(arguments + [binaries / program, *rest, str(times)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"error: {command} {times} under valgrind: {run.stderr.strip()[-500:]}")
    return int(found[1])


def allocations(binaries, command, times):
    program, *rest = command.split()
    # A variant of a peer comes first.
    at = 1 if rest[0] in ("relay", "router") else 0
    arguments = [*rest[:at], "count", *rest[at:], str(times)]
    run = subprocess.run([binaries / program, *arguments], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"error: {command} {times}: {run.stderr.strip()[-500:]}")
    return int(run.stdout)


def measure(binaries, entry):
    command, within = entry["command"], entry.get("within")
    steps = MORE - FEW
    cost = (instructions(binaries, command, within, MORE) - instructions(binaries, command, within, FEW)) / steps
    taken = (allocations(binaries, command, MORE) - allocations(binaries, command, FEW)) / steps
    return {"instructions": round(cost), "allocations": round(taken, 2)}


def main():
    binaries, bless = pathlib.Path(sys.argv[1]), "--bless" in sys.argv[2:]
    entries = tomllib.loads(FILE.read_text())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(entries, pool.map(lambda entry: measure(binaries, entry), entries.values())))
    over = False
    print(f"{'':50}{'instructions':>12}{'budget':>10}{'':9}{'allocations':>13}{'budget':>8}")
    for name, entry in entries.items():
        new = found[name]
        budget = {kind: entry.get(kind, 0) for kind in new}
        is_over = any(exceeds(new[kind], budget[kind]) for kind in new)
        over |= is_over
        change = new["instructions"] / budget["instructions"] - 1 if budget["instructions"] else 0
        mark = "  OVER" if is_over else "  lower: bless it" if change < -RISE else ""
        print(
            f"{name:50}{new['instructions']:12,}{budget['instructions']:10,}{change:+9.1%}"
            f"{new['allocations']:13.2f}{budget['allocations']:8.2f}{mark}"
        )
    if bless:
        FILE.write_text(HEAD + "".join(written(name, entry | found[name]) for name, entry in entries.items()))
        print(f"wrote {FILE.name}")
    elif over:
        sys.exit("error: over budget. If that is meant, run benches/budget.sh --bless and commit budget.toml.")


def exceeds(value, budget):
    """Less than one allocation in a hundred steps is the growth of a buffer."""
    return value > budget * (1 + RISE) + 0.01


def written(name, entry):
    lines = [f'\n["{name}"]', f'command = "{entry["command"]}"']
    if "within" in entry:
        lines.append(f'within = "{entry["within"]}"')
    lines += [f"instructions = {entry['instructions']}", f"allocations = {entry['allocations']:.2f}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
