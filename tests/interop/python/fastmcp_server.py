"""A server on fastmcp, with tools that take their time."""

import asyncio
import json

from fastmcp import Context, FastMCP

server = FastMCP("interop")


@server.tool()
async def sleep(ms: int) -> str:
    """Answers after so many milliseconds"""
    await asyncio.sleep(ms / 1000)
    return json.dumps({"slept_ms": ms})


@server.tool()
async def count(to: int, every_ms: int, context: Context) -> str:
    """Sends progress for each number"""
    for number in range(1, to + 1):
        await asyncio.sleep(every_ms / 1000)
        await context.report_progress(number, to)
    return json.dumps({"counted": to})


server.run(show_banner=False)
