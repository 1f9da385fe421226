"""A server on the MCP Python SDK 1, whose tool `sleep` is a task."""

import json

import anyio
from mcp import stdio_server, types
from mcp.server.lowlevel import Server

server = Server("interop")
server.experimental.enable_tasks()
# The tasks that sleep. The SDK does not tell them of a cancel.
working = 0


def said(value):
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(value))])


@server.list_tools()
async def list_tools():
    required = types.ToolExecution(taskSupport="required")
    return [
        types.Tool(name="sleep", inputSchema={"type": "object"}, execution=required),
        types.Tool(name="working", inputSchema={"type": "object"}),
    ]


@server.call_tool()
async def call_tool(name, arguments):
    if name == "working":
        return said({"working": working})

    async def sleep(_):
        global working
        working += 1
        await anyio.sleep(arguments["ms"] / 1000)
        working -= 1
        return said({"slept_ms": arguments["ms"]})

    return await server.request_context.experimental.run_task(sleep)


async def main():
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


anyio.run(main)
