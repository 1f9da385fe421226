"""A client on the MCP Python SDK: `mcp_client.py MODE REVISION COMMAND...` opens a server that has the
tools of `rescind serve`, which has to speak that revision, and cancels. MODE is the SDK's: auto or
legacy. It prints the name of each check that held, and exits 1 at the first that did not. That the
server is silent after a cancel is seen on the wire, by the tap in front of it. A command that is an
address is a server over HTTP.
"""

import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters

LONG = 600_000
TIMED_OUT = -32001

mode, revision, command, *arguments = sys.argv[1:]


def said(result):
    return json.loads(result.content[0].text)


async def slept(client, ms):
    assert said(await client.call_tool("sleep", {"ms": ms})) == {"slept_ms": ms}


async def opens(client):
    assert client.session.protocol_version == revision, client.session.protocol_version
    assert client.session.server_info.name == "rescind"


async def lists_tools(client):
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["echo", "sleep", "count", "stubborn", "fail", "nested", "outcome"], names


async def echo(client):
    assert said(await client.call_tool("echo", {"text": "hé"})) == {"text": "hé"}


async def failure_is_a_result(client):
    assert (await client.call_tool("fail", {"code": -5, "message": "no luck"})).is_error


async def cancels(client, calls):
    """Makes these calls, and cancels them when they have left."""
    scopes = [anyio.CancelScope() for _ in calls]

    async def make(scope, name, arguments):
        with scope:
            await client.call_tool(name, arguments)

    async with anyio.create_task_group() as group:
        for scope, call in zip(scopes, calls):
            group.start_soon(make, scope, *call)
        await anyio.wait_all_tasks_blocked()
        await slept(client, 1)
        for scope in scopes:
            scope.cancel()
    assert all(scope.cancelled_caught for scope in scopes)


async def cancel(client):
    await cancels(client, [("sleep", {"ms": LONG})])


async def cancel_stops_progress(client):
    with anyio.CancelScope() as scope:

        async def arrived(*_):
            scope.cancel()

        count = {"to": LONG, "every_ms": 1}
        await client.call_tool("count", count, progress_callback=arrived)
    assert scope.cancelled_caught
    # Long enough for many more.
    await slept(client, 50)
    await slept(client, 1)


async def cancel_that_is_ignored(client):
    await cancels(client, [("stubborn", {"ms": 300})])
    # Long enough for its answer.
    await slept(client, 400)


async def timeout_cancels(client):
    try:
        await client.call_tool("sleep", {"ms": LONG}, read_timeout_seconds=0.05)
    except MCPError as error:
        assert error.code == TIMED_OUT, error
    else:
        raise AssertionError("a result")


async def every_third_of_many(client):
    # Fewer at a time than the server has workers.
    for _ in range(11):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(slept, client, 1)
            await cancels(client, [("sleep", {"ms": LONG})] * 3)


async def still_alive(client):
    assert said(await client.call_tool("echo", {"n": 1})) == {"n": 1}


async def main():
    is_http = command.startswith("http://")
    server = command if is_http else StdioServerParameters(command=command, args=arguments)
    async with Client(server, mode=mode) as client:
        for check in [
            opens,
            lists_tools,
            echo,
            failure_is_a_result,
            cancel,
            cancel_stops_progress,
            cancel_that_is_ignored,
            timeout_cancels,
            every_third_of_many,
            still_alive,
        ]:
            await check(client)
            print(check.__name__, flush=True)


anyio.run(main)
