#!/usr/bin/env python3
"""The processor time of `rescind serve` for a round trip over pipes, on each runtime, beside a loop of read and write.

Usage: benches/serve.py [--rescind PATH] [--rounds COUNT] [--check]

Without --rescind it builds the release binary. The loop is benches/serve_floor.rs, built with `rustc -O`, so no C
compiler is needed. One request is in flight at a time. This program is the client, and its own time does not count: the
kernel accounts for each server when that has ended. A server runs twice in each round, for few round trips and for many, and
the difference is the round trips. Servers take turns, and the least of all rounds is printed: other work on the machine
can only add.

--check fails if a ratio is above its limit.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FEW, MANY = 500, 10_500
FEW_LONG, MANY_LONG = 50, 550
LONG = 100_000

# The runtime, the method, and the most that it may cost beside the loop.
SHORT = [
    ("single", "echo", 1.6),
    ("tokio", "echo", 1.8),
    ("smol", "echo", 2.5),
    ("blocking", "echo", 3.0),
    ("blocking", "sleep", None),
]
# Messages with Content-Length beside the same messages as lines.
FRAMING_LIMIT = 1.3


def request(number, method, text):
    params = '{"ms":0}' if method == "sleep" else '{"text":"%s"}' % text
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (number, method.encode(), params.encode())


def framed(message, has_header):
    return b"Content-Length: %d\r\n\r\n%s" % (len(message), message) if has_header else message + b"\n"


def receive(stream, buffer, has_header):
    """Reads until one whole message is there, and drops it."""
    while True:
        if has_header:
            head, found, rest = buffer.partition(b"\r\n\r\n")
            if found and len(rest) >= int(head.partition(b":")[2]):
                return b""
        elif buffer.endswith(b"\n"):
            return b""
        more = os.read(stream, 1 << 20)
        if not more:
            sys.exit("error: the server ended")
        buffer += more


def cpu(command, method, text, has_header, count):
    """The processor time in microseconds of a server that responds so often, from its start to its end."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    to, back, left = server.stdin.fileno(), server.stdout.fileno(), b""
    for number in range(1, count + 1):
        message = memoryview(framed(request(number, method, text), has_header))
        while message:
            message = message[os.write(to, message) :]
        left = receive(back, left, has_header)
    server.stdin.close()
    _, status, usage = os.wait4(server.pid, 0)
    server.returncode = status
    server.stdout.close()
    return 1e6 * (usage.ru_utime + usage.ru_stime)


def round_trip(command, method, text="hello", has_header=False, few=FEW, many=MANY):
    measured = [cpu(command, method, text, has_header, count) for count in (few, many)]
    return (measured[1] - measured[0]) / (many - few)


def least(measures, rounds):
    """The least of each, in turns."""
    best = {}
    for _ in range(rounds):
        for name, measure in measures.items():
            best[name] = min(best.get(name, float("inf")), measure())
    return best


def build(folder):
    floor = folder / "serve_floor"
    subprocess.run(["rustc", "-O", "--edition", "2024", "-o", floor, HERE / "serve_floor.rs"], check=True)
    return floor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rescind", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--rounds", type=int, default=7, metavar="COUNT")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    rescind = arguments.rescind
    if rescind is None:
        subprocess.run(["cargo", "build", "--release", "-p", "rescind-cli"], cwd=HERE.parent, check=True)
        rescind = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release" / "rescind"

    def serve(runtime, dialect="jsonrpc"):
        return [rescind, "serve", "--dialect", dialect, "--runtime", runtime]

    over = []

    def show(name, figure, ratio, limit):
        bound = "" if limit is None else f"  at most {limit}"
        print(f"{name:34}{figure:9.2f} us {ratio:6.2f} x{bound}")
        if limit is not None and ratio > limit:
            over.append(name)

    with tempfile.TemporaryDirectory() as folder:
        floor = build(pathlib.Path(folder))
        measures = {"loop": lambda: round_trip([floor], "echo")}
        for runtime, method, _ in SHORT:
            measures[runtime, method] = lambda runtime=runtime, method=method: round_trip(serve(runtime), method)
        best = least(measures, arguments.rounds)
        show("loop", best["loop"], 1, None)
        for runtime, method, limit in SHORT:
            show(f"{runtime}, {method}", best[runtime, method], best[runtime, method] / best["loop"], limit)

    print()
    text, measures = "x" * LONG, {}
    for runtime in ("single", "tokio", "smol", "blocking"):
        for dialect in ("jsonrpc", "lsp"):
            measures[runtime, dialect] = lambda runtime=runtime, dialect=dialect: round_trip(
                serve(runtime, dialect), "echo", text, dialect == "lsp", FEW_LONG, MANY_LONG
            )
    best = least(measures, max(1, arguments.rounds // 2))
    for runtime in ("single", "tokio", "smol", "blocking"):
        lines, headers = best[runtime, "jsonrpc"], best[runtime, "lsp"]
        show(f"{runtime}, 100 KB lines", lines, 1, None)
        show(f"{runtime}, 100 KB Content-Length", headers, headers / lines, FRAMING_LIMIT)
    if arguments.check and over:
        sys.exit(f"error: above its limit: {', '.join(over)}")


if __name__ == "__main__":
    main()
