"""`http_server.py mcp|fastmcp` is a server over HTTP on that package, on a free port that it prints. Its tool `sleep` works
until it is cancelled; `witness` answers when so many of those have begun, or were cancelled.
"""

import sys

import anyio

seen = {"begun": 0, "cancelled": 0}
news = anyio.Event()


def note(what):
    global news
    seen[what] += 1
    news.set()
    news = anyio.Event()


async def sleep(ms: int) -> str:
    """Answers after so many milliseconds"""
    note("begun")
    try:
        await anyio.sleep(ms / 1000)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "{}"


async def witness(of: str, times: int) -> str:
    """Answers when so many have begun, or were cancelled"""
    while seen[of] < times:
        await news.wait()
    return "{}"


at = {"host": "127.0.0.1", "port": 0}
if sys.argv[1] == "mcp":
    from mcp.server.mcpserver import MCPServer

    server, options = MCPServer("interop"), {"transport": "streamable-http"}
else:
    from fastmcp import FastMCP

    server, options = FastMCP("interop"), {"transport": "http", "show_banner": False}
for tool in [sleep, witness]:
    server.tool()(tool)
server.run(**options, **at)
