#!/usr/bin/env python3
"""Reads the figures of a run, prints its tables, and writes them as JSON.

table.py RAW RESULTS: RAW is a directory with one file of JSON lines per process; a line is one figure
(`peer`, `metric`, `value`). RESULTS is the file to write.

Every time is divided by the floor of the same process before anything else is done with it. What is shown is
the median over the repetitions, with the least and the greatest where there are several.
"""

import collections
import json
import pathlib
import statistics
import sys

OURS = ("core", "core, through a relay", "tokio", "tokio, Router", "smol")
REFERENCE = "hand-made loop"


class Run:
    """All figures: by peer and metric, one value per process that gave it."""

    def __init__(self, directory):
        self.values = collections.defaultdict(lambda: collections.defaultdict(list))
        self.processes = []
        for file in sorted(directory.glob("*.jsonl")):
            process = collections.defaultdict(dict)
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                process[entry["peer"]][entry["metric"]] = entry["value"]
            for peer, metrics in process.items():
                metrics |= ratios(metrics)
                for metric, value in metrics.items():
                    self.values[peer][metric].append(value)

    def median(self, peer, metric):
        values = self.values.get(peer, {}).get(metric)
        return statistics.median(values) if values else None

    def peers(self):
        """Ours first, then the others, fastest first."""
        speed = lambda peer: self.median(peer, "w1.small.64.x") or float("inf")
        others = sorted(
            (peer for peer in self.values if peer not in OURS and self.median(peer, "w1.small.64.x")), key=speed
        )
        return [peer for peer in OURS if peer in self.values] + others


def ratios(metrics):
    """Each time over the floor of its own payload; the rest over the small one."""
    floors = {
        name.split(".")[1]: value
        for name, value in metrics.items()
        if name.startswith("floor.") and name.endswith("cpu_ns")
    }
    small = floors.get("small") or floors.get("scaling")
    found = {}
    for name, value in metrics.items():
        if name.endswith(("cpu_ns", "p50_ns", "p99_ns")) and not name.startswith("floor."):
            floor = floors.get(name.split(".")[1], small)
            if floor:
                found[name.replace(".cpu_ns", ".x").replace("_cpu_ns", "_x").replace("_ns", "_x")] = value / floor
    return found


def show(values, scale=1.0, form="{:,.0f}", spread=True):
    if not values:
        return "–"
    values = [value * scale for value in values]
    text = form.format(statistics.median(values))
    if spread and len(values) > 1 and form.format(min(values)) != form.format(max(values)):
        text += f" <sub>{form.format(min(values))}–{form.format(max(values))}</sub>"
    return text


def table(run, title, columns, rows=None):
    """Columns: heading, metric, scale, format, whether to show least and greatest."""
    rows = run.peers() if rows is None else rows
    lines = [f"### {title}", "", "| | " + " | ".join(column[0] for column in columns) + " |"]
    lines.append("|---|" + "---:|" * len(columns))
    for peer in rows:
        cells = [show(run.values[peer].get(metric), scale, form, spread) for _, metric, scale, form, spread in columns]
        if any(cell != "–" for cell in cells):
            name = f"**{peer}**" if peer in OURS else peer
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


X = "{:,.2f}"


def tables(run):
    yield table(
        run,
        "W1 round trip: CPU time of both ends, over the floor of the same process",
        [
            ("floor, ns", "floor.small.cpu_ns", 1, "{:,.0f}", False),
            ("1 in flight", "w1.small.1.x", 1, X, True),
            ("64", "w1.small.64.x", 1, X, True),
            ("1024", "w1.small.1024.x", 1, X, True),
            ("1 KiB nested", "w1.nested_1k.1.x", 1, X, True),
            ("100 KiB nested", "w1.nested_100k.1.x", 1, X, True),
            ("1 MiB text", "w1.text_1m.1.x", 1, X, True),
        ],
    )
    yield table(
        run,
        "W1 round trip of 77 B: what it takes",
        [
            ("CPU ns, 1 in flight", "w1.small.1.cpu_ns", 1, "{:,.0f}", False),
            ("64", "w1.small.64.cpu_ns", 1, "{:,.0f}", False),
            ("p50, us", "w1.small.1.p50_ns", 1e-3, X, False),
            ("p99, us", "w1.small.1.p99_ns", 1e-3, X, False),
            ("allocations, 1", "w1.small.1.allocations", 1, "{:,.1f}", False),
            ("64", "w1.small.64.allocations", 1, "{:,.1f}", False),
            ("instructions, 1", "ir.echo.1", 1, "{:,.0f}", False),
            ("64", "ir.echo.64", 1, "{:,.0f}", False),
            ("writes, 64", "w1.small.64.writes", 1, X, False),
            ("wire bytes", "w1.small.64.wire_bytes", 1, "{:,.0f}", False),
        ],
    )
    yield table(
        run,
        "W2 cancel: over the floor of the same process",
        [
            ("request, cancel, answer at 1", "w2.1.cycle_x", 1, X, True),
            ("cancel to answer at 1, p50", "w2.1.p50_x", 1, X, False),
            ("cancel to answer, 1024 in flight", "w2.1024.cancel_x", 1, X, True),
            ("the same, ns", "w2.1024.cancel_cpu_ns", 1, "{:,.0f}", False),
            ("p99 at 1, us", "w2.1.p99_ns", 1e-3, X, False),
            ("allocations a cycle", "w2.1.allocations", 1, "{:,.1f}", False),
            ("instructions a cycle", "ir.cancel", 1, "{:,.0f}", False),
        ],
    )
    yield table(
        run,
        "W3 heap per request in flight, bytes",
        [
            ("caller, 100,000 in flight", "w3.100000.caller_bytes", 1, "{:,.0f}", False),
            ("callee", "w3.100000.callee_bytes", 1, "{:,.0f}", False),
            ("both", "w3.100000.both_bytes", 1, "{:,.0f}", False),
            ("caller, 1,000,000", "w3.1000000.caller_bytes", 1, "{:,.0f}", False),
            ("callee", "w3.1000000.callee_bytes", 1, "{:,.0f}", False),
            ("handle", "w3.handle_bytes", 1, "{:,.0f}", False),
        ],
    )
    yield table(
        run,
        "W7 two processes on one core: CPU time of both, over the floor, and the wall-clock time",
        [
            ("pipes, 1 in flight", "w7.pipe.1.x", 1, X, True),
            ("64", "w7.pipe.64.x", 1, X, True),
            ("Unix socket, 1", "w7.unix.1.x", 1, X, True),
            ("64", "w7.unix.64.x", 1, X, True),
            ("pipes, 1: p50, us", "w7.pipe.1.p50_ns", 1e-3, X, False),
            ("Unix socket, 1: p50, us", "w7.unix.1.p50_ns", 1e-3, X, False),
        ],
    )
    yield scaling(run)
    yield decoding(run)
    yield operations(run)
    yield targets(run)


def scaling(run):
    rows = [
        ("W5 one request's life, 1 in flight", "w5.1.cpu_ns", "ns"),
        ("W5 the same, 1,000 in flight", "w5.1000.cpu_ns", "ns"),
        ("W5 the same, 1,000,000 in flight", "w5.1000000.cpu_ns", "ns"),
        ("W6 params of 1 MiB through a relay, undecoded", "w6.passed_gb_s", "GB/s"),
        ("W9 echo whose call has a deadline", "w9.echo_cpu_ns", "ns"),
        ("W9 echo without", "w9.echo_without_cpu_ns", "ns"),
        ("W9 a deadline that comes, 100,000 calls", "w9.expiry_cpu_ns", "ns"),
        ("W2 cancel behind 32 MiB unsent", "w2.full_outbox_cancel_cpu_ns", "ns"),
    ]
    lines = [
        "### W2, W5, W6, W9 the core where there is much of something",
        "",
        "| | | over the floor |",
        "|---|---:|---:|",
    ]
    for title, metric, unit in rows:
        ratio = show(run.values["core"].get(metric.replace("cpu_ns", "x")), 1, X) if unit == "ns" else ""
        lines.append(f"| {title} | {show(run.values['core'].get(metric), 1, '{:,.1f}')} {unit} | {ratio} |")
    return "\n".join(lines) + "\n"


def decoding(run):
    """W4: one row per reader, one column per message."""
    figures = run.values.get("decode", {})
    names = [metric.split(".")[1:3] for metric in figures]
    messages = list(dict.fromkeys(message for message, _ in names))
    readers = list(dict.fromkeys(reader for _, reader in names))
    lines = [
        "### W4 reading one message: GB/s (ns)",
        "",
        "| | " + " | ".join(message.replace("_", " ") for message in messages) + " |",
    ]
    lines.append("|---|" + "---:|" * len(messages))
    for reader in readers:
        cells = []
        for message in messages:
            cost, size = figures.get(f"w4.{message}.{reader}.ns"), run.median("decode_bytes", f"w4.{message}")
            cells.append(
                f"{size / statistics.median(cost):,.2f} ({statistics.median(cost):,.0f})" if cost and size else "–"
            )
        lines.append(f"| {reader.replace('_', ' ')} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def operations(run):
    lines = ["### W8 the registry of operations, 100,000 live, one core", "", "| | ns | million/s |", "|---|---:|---:|"]
    for metric, values in run.values.get("operations", {}).items():
        if metric.endswith("_ns"):
            cost = statistics.median(values)
            lines.append(f"| {metric[3:-3].replace('_', ' ')} | {cost:,.2f} | {1e3 / cost:,.1f} |")
    held = run.median("operations", "w8.bytes")
    if held:
        lines.append(f"| bytes an operation | {held:,.0f} | |")
    return "\n".join(lines) + "\n"


def targets(run):
    """Returns the table of the targets, with the figures that were measured."""
    median = run.median

    def less(one, other):
        return None if one is None or other is None else one - other

    def over(one, other):
        return None if one is None or not other else one / other

    inverse = lambda value: over(1, value)
    added = lambda peer, width: less(median(peer, f"w1.small.{width}.allocations"), 3)
    rows = [
        ("core alone, 1 in flight", "<=", 0.8, 0.6, median("core", "w1.small.1.x"), "x floor"),
        ("core alone, 64 in flight", "<=", 0.8, 0.6, median("core", "w1.small.64.x"), "x floor"),
    ]
    for adapter in ("tokio", "smol"):
        for width, target, stretch in ((1, 2.2, 2.0), (64, 1.3, 1.2), (1024, 1.3, 1.2)):
            rows.append(
                (
                    f"{adapter} over the pipe, {width} in flight",
                    "<=",
                    target,
                    stretch,
                    median(adapter, f"w1.small.{width}.x"),
                    "x floor",
                )
            )
    rows += [
        ("allocations a round trip beyond the host's 3, core at 1", "<=", 0, 0, added("core", 1), ""),
        ("allocations a round trip beyond the host's 3, core at 64", "<=", 0, 0, added("core", 64), ""),
        ("allocations a round trip beyond the host's 3, tokio at 1", "<=", 2, 0, added("tokio", 1), ""),
        ("allocations a round trip beyond the host's 3, tokio at 64", "<=", 2, 0, added("tokio", 64), ""),
        ("cancel sent to answered, core, both ends", "<=", 0.55, 0.45, median("core", "w2.1024.cancel_x"), "x floor"),
        (
            "cancel answered through tokio, 1024 in flight",
            "<=",
            1.5,
            1.0,
            median("tokio", "w2.1024.cancel_x"),
            "x floor",
        ),
        ("heap in flight, core, caller", "<=", 48, 32, median("core", "w3.100000.caller_bytes"), "B"),
        ("heap in flight, core, callee", "<=", 80, 64, median("core", "w3.100000.callee_bytes"), "B"),
        ("heap in flight, tokio, both ends", "<=", 400, 256, median("tokio", "w3.100000.both_bytes"), "B"),
        ("writes per request, tokio, 64 in flight", "<=", 0.05, 0.05, median("tokio", "w1.small.64.writes"), ""),
        ("1 MiB text echoed, core", ">=", 1.0, 1.2, inverse(median("core", "w1.text_1m.1.x")), "x floor's throughput"),
        ("1 MiB params through a relay", ">=", 5, 5, median("core", "w6.passed_gb_s"), "GB/s"),
        (
            "a marker's is_cancelled",
            "<=",
            2,
            2,
            over(median("operations", "w8.marker_is_cancelled_ns"), median("operations", "w8.relaxed_load_ns")),
            "x a relaxed load",
        ),
        (
            "a relay hop added",
            "<=",
            0.8,
            0.8,
            less(median("core, through a relay", "w1.small.64.x"), median("core", "w1.small.64.x")),
            "x floor",
        ),
        (
            "a request at 1,000,000 in flight",
            "<=",
            2,
            1.3,
            over(median("core", "w5.1000000.x"), median("core", "w5.1000.x")),
            "x that at 1,000",
        ),
        ("operations registered", ">=", 5, 5, over(1e3, median("operations", "w8.register_ns")), "million/s"),
        ("operations cancelled", ">=", 5, 5, over(1e3, median("operations", "w8.cancel_ns")), "million/s"),
        ("operations checked", ">=", 200, 200, over(1e3, median("operations", "w8.is_cancelled_ns")), "million/s"),
        ("heap per operation", "<=", 128, 128, median("operations", "w8.bytes"), "B"),
    ]
    lines = ["### Targets", "", "| | target | stretch | measured | |", "|---|---:|---:|---:|---|"]
    for title, sign, target, stretch, value, unit in rows:
        meets = lambda limit: value <= limit * 1.0005 if sign == "<=" else value >= limit
        verdict = (
            "not measured"
            if value is None
            else "stretch" if meets(stretch) and stretch != target else "met" if meets(target) else "**missed**"
        )
        shown = "–" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")
        lines.append(f"| {title} | {sign} {target:g} | {sign} {stretch:g} | {shown} {unit} | {verdict} |")
    return "\n".join(lines) + "\n\n" + best_rows(run)


def best_rows(run):
    """Whether one of ours is best in every row that a peer has."""
    metrics = [
        (f"w1.{name}.x", title)
        for name, title in (
            ("small.1", "1 in flight"),
            ("small.64", "64 in flight"),
            ("small.1024", "1024 in flight"),
            ("nested_1k.1", "1 KiB nested"),
            ("nested_100k.1", "100 KiB nested"),
            ("text_1m.1", "1 MiB text"),
        )
    ]
    metrics += [
        ("w1.small.1.allocations", "allocations, 1 in flight"),
        ("w1.small.64.allocations", "allocations, 64"),
        ("ir.echo.1", "instructions, 1"),
        ("ir.echo.64", "instructions, 64"),
        ("w2.1.cycle_x", "cancel cycle at 1"),
        ("w2.1024.cancel_x", "cancel, 1024 in flight"),
        ("w3.100000.both_bytes", "heap in flight"),
    ]
    lines = [
        "### Who is best",
        "",
        "| | best of ours | best of the others | the hand-made loop |",
        "|---|---:|---:|---:|",
    ]
    for metric, title in metrics:
        found = {peer: run.median(peer, metric) for peer in run.values}
        found = {peer: value for peer, value in found.items() if value is not None}
        best = lambda peers: min(((value, peer) for peer, value in found.items() if peer in peers), default=None)
        cell = lambda one: "–" if one is None else f"{one[0]:,.1f} ({one[1]})"
        others = [peer for peer in found if peer not in OURS and peer != REFERENCE]
        ours, theirs, loop = best(OURS), best(others), best((REFERENCE,))
        if theirs:
            behind = "" if ours and ours[0] <= theirs[0] else " **behind**"
            lines.append(
                f"| {title} | {cell(ours)}{behind} | {cell(theirs)} | {'–' if loop is None else f'{loop[0]:,.1f}'} |"
            )
    return "\n".join(lines) + "\n"


def main():
    raw, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    run = Run(raw)
    machine = json.loads((raw / "machine.json").read_text())
    text = (
        f"Measured {machine.pop('date')}: " + "; ".join(f"{name} {value}" for name, value in machine.items()) + ".\n\n"
    )
    text += "\n".join(tables(run))
    print(text)
    results.write_text(json.dumps({"machine": machine, "figures": run.values}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
