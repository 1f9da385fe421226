#!/usr/bin/env bash
# Installs valgrind where it is missing and apt can: callgrind counts instructions exactly.
set -euo pipefail

command -v valgrind >/dev/null && exit 0
command -v apt-get >/dev/null || exit 1
root=()
if ((EUID != 0)); then root=(sudo -n); fi
export DEBIAN_FRONTEND=noninteractive
{
    "${root[@]}" apt-get update && "${root[@]}" apt-get install -y --no-install-recommends valgrind
} >&2
command -v valgrind >/dev/null
