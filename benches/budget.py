#!/usr/bin/env python3
"""Compares what the main operations cost with benches/budget.toml; see budget.sh."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

FILE = pathlib.Path(__file__).with_name("budget.toml")
HEAD = FILE.read_text().split("\n[", 1)[0]
# A rise of more than this fails. The core is one thread of plain code, which varies less.
RISE, RISE_OF_CORE = 0.03, 0.02
# The dearest row of a group costs at most so many times as much as the cheapest, unless the rows say `apart`.
APART = 1.5
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


def held(binaries, command):
    """The bytes that each end holds for a request in flight."""
    program, *rest = command.split()
    run = subprocess.run([binaries / program, *rest], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"error: {command}: {run.stderr.strip()[-500:]}")
    figures = map(json.loads, run.stdout.splitlines())
    return {figure["metric"].rsplit(".", 1)[1].removesuffix("_bytes"): figure["value"] for figure in figures}


def measure(binaries, entry):
    command, within = entry["command"], entry.get("within")
    if "bytes" in entry:
        return held(binaries, command)
    steps = MORE - FEW
    cost = (instructions(binaries, command, within, MORE) - instructions(binaries, command, within, FEW)) / steps
    taken = (allocations(binaries, command, MORE) - allocations(binaries, command, FEW)) / steps
    return {"instructions": round(cost), "allocations": round(taken, 2)}


def main():
    binaries, bless = pathlib.Path(sys.argv[1]), "--bless" in sys.argv[2:]
    entries = tomllib.loads(FILE.read_text())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(entries, pool.map(lambda entry: measure(binaries, entry), entries.values())))
    for name, entry in entries.items():
        # An allocator may move a large buffer in one run and not in the next. A real rise shows each time.
        if is_over(name, entry, found[name]):
            found[name] = measure(binaries, entry)
    faults = []
    print(f"{'':66}{'instructions':>12}{'budget':>10}{'':9}{'allocations':>13}{'budget':>8}")
    for name, entry in entries.items():
        new = found[name]
        if "bytes" in entry:
            faults += weighed(name, new, entry["bytes"])
            continue
        budget = {kind: entry.get(kind, 0) for kind in new}
        over = is_over(name, entry, new)
        if over:
            faults.append(f"{name} is over budget")
        change = new["instructions"] / budget["instructions"] - 1 if budget["instructions"] else 0
        mark = "  OVER" if over else "  lower: bless it" if change < -rise_of(name) else ""
        print(
            f"{name:66}{new['instructions']:12,}{budget['instructions']:10,}{change:+9.1%}"
            f"{new['allocations']:13.2f}{budget['allocations']:8.2f}{mark}"
        )
    apart = grown(entries, found)
    if bless:
        FILE.write_text(HEAD + "".join(written(name, entry | found[name]) for name, entry in entries.items()))
        print(f"wrote {FILE.name}")
    elif faults:
        print("If that is meant, run benches/budget.sh --bless and commit budget.toml.")
        apart = faults + apart
    if apart:
        sys.exit("\n".join(f"error: {fault}" for fault in apart))


def weighed(name, new, most):
    """Compares the bytes of each end with what it may hold; no bless changes that."""
    for end, bytes_ in most.items():
        print(f"{name + ', ' + end:66}{new[end]:12.2f}{bytes_:10}{'':9}{'bytes':>13}")
    return [f"{name}: {end} holds {new[end]:.2f} bytes of {most[end]}" for end in most if new[end] > most[end]]


def grown(entries, found):
    """The groups whose rows are too far apart: what costs more where there is more of something."""
    groups, most = {}, {}
    for name, entry in entries.items():
        if "group" in entry:
            groups.setdefault(entry["group"], []).append(found[name]["instructions"])
            most[entry["group"]] = entry.get("apart", APART)
    times = {group: max(costs) / min(costs) for group, costs in groups.items()}
    for group, apart in times.items():
        print(f"{'dearest by cheapest: ' + group:66}{apart:12.2f}{most[group]:10}{'  OVER' if apart > most[group] else ''}")
    over = {group: apart for group, apart in times.items() if apart > most[group]}
    return [f"{group} costs {apart:.2f} times as much with many" for group, apart in over.items()]


def rise_of(name):
    return RISE_OF_CORE if name.startswith("core:") else RISE


def is_over(name, entry, new):
    """Whether a row of instructions and allocations is over its budget."""
    if "bytes" in entry:
        return False
    # Less than one allocation in a hundred steps is the growth of a buffer.
    return any(new[kind] > entry.get(kind, 0) * (1 + rise_of(name)) + 0.01 for kind in new)


def written(name, entry):
    lines = [f'\n["{name}"]', f'command = "{entry["command"]}"']
    for key in ("within", "group", "apart"):
        if key in entry:
            lines.append(f"{key} = {json.dumps(entry[key])}")
    if "bytes" in entry:
        most = ", ".join(f"{end} = {most}" for end, most in entry["bytes"].items())
        lines.append(f"bytes = {{ {most} }}")
    else:
        lines += [f"instructions = {entry['instructions']}", f"allocations = {entry['allocations']:.2f}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
