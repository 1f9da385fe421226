#!/usr/bin/env python3
"""Prints the machine, the commit and the tools of a run as JSON."""

import datetime
import json
import os
import re
import subprocess


def machine():
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    memory = re.search(r"MemTotal:\s*(\d+)", open("/proc/meminfo").read())
    return {
        "date": datetime.date.today().isoformat(),
        "commit": first_line(["git", "describe", "--always", "--dirty"]),
        "CPU": f"{os.cpu_count()} x {cpu[1] if cpu else 'unknown'}",
        "memory": f"{int(memory[1]) >> 20} GiB" if memory else "unknown",
        "kernel": os.uname().release,
        "compiler": first_line(["rustc", "--version"]),
    }


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0].strip()
    except (OSError, IndexError):
        return "none"


if __name__ == "__main__":
    tools = {tool: first_line([tool, "--version"]) for tool in ("node", "valgrind")}
    print(json.dumps(machine() | tools))
