"""A server on the MCP Python SDK, with the tools that the tests of servers call."""

import json
from contextlib import contextmanager

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("interop")
cancelled = anyio.Event()


@contextmanager
def noting():
    """Notes that what it holds was cancelled, wherever it waited"""
    try:
        yield
    except anyio.get_cancelled_exc_class():
        cancelled.set()
        raise


@server.tool()
async def echo(text: str) -> str:
    """Answers with its argument"""
    return json.dumps({"text": text})


@server.tool()
async def sleep(ms: int) -> str:
    """Answers after so many milliseconds"""
    with noting():
        await anyio.sleep(ms / 1000)
    return json.dumps({"slept_ms": ms})


@server.tool()
async def count(to: int, every_ms: int, context: Context) -> str:
    """Sends progress for each number"""
    with noting():
        for number in range(1, to + 1):
            await anyio.sleep(every_ms / 1000)
            await context.report_progress(number, to)
    return json.dumps({"counted": to})


@server.tool()
async def cancelled_once() -> str:
    """Answers when a sleep or a count has been cancelled"""
    await cancelled.wait()
    return "{}"


server.run()
