#!/usr/bin/env python3
"""Makes a recording of about so many bytes, to measure who reads it: recording.py FILE BYTES."""

import sys

HEAD = (
    '{"recording":{"version":1,"by":"rescind 0.1.0","program":"made",'
    '"start":"2026-01-01T00:00:00.000000Z","part":1,"payloads":"redacted","hops":[]}}\n'
    '{"opened":{"t":1,"hop":"server","role":"client","dialect":"lsp"}}\n'
)
REQUEST = (
    '{"message":{"t":%d,"hop":"server","dir":"sent","bytes":151,'
    '"parts":[{"kind":"request","id":%d,"method":"textDocument/m%d","payload":95}]}}\n'
    '{"message":{"t":%d,"hop":"server","dir":"received","bytes":144,'
    '"parts":[{"kind":"result","id":%d,"payload":110}]}}\n'
    '{"verdict":{"t":%d,"hop":"server","verdict":"settled","id":%d,"outcome":"result"}}\n'
)


def main():
    path, size = sys.argv[1], int(sys.argv[2])
    with open(path, "w", encoding="utf-8") as out:
        written, number = out.write(HEAD), 0
        while written < size:
            number += 1
            t, took = number * 100, 50 + number % 977
            written += out.write(
                REQUEST % (t, number, number % 40, t + took, number, t + took + 10, number)
            )
        out.write('{"end":{"t":%d,"lines":%d,"dropped":0}}\n' % (t + 10_000, 3 * number))


main()
