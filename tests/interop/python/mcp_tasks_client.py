"""A client on the MCP Python SDK 1: `mcp_tasks_client.py COMMAND...` creates tasks on a server whose
tool `sleep` is one, and cancels them. The server's tool `stopped_once` responds once it has stopped a
task. It prints the name of each check that held, and exits 1 at the first that did not.
"""

import json
import sys
from datetime import timedelta

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types

LONG = 600_000
command, *arguments = sys.argv[1:]


def said(result):
    return json.loads(result.content[0].text)


async def sleep(session, ms):
    """Creates a task, and returns its name"""
    created = await session.experimental.call_tool_as_task("sleep", {"ms": ms})
    assert created.task.status == "working"
    return created.task.taskId


async def last(session, task):
    """Polls until a task has ended, and returns its status"""
    async for status in session.experimental.poll_task(task):
        pass
    return status.status


async def refused(session, task):
    try:
        await session.experimental.cancel_task(task)
    except McpError as error:
        assert error.error.code == types.INVALID_PARAMS, error
    else:
        raise AssertionError("a result")


async def a_task_gets_its_result(session):
    task = await sleep(session, 1)
    assert await last(session, task) == "completed"
    result = await session.experimental.get_task_result(task, types.CallToolResult)
    assert said(result) == {"slept_ms": 1}


async def a_cancel_stops_the_task(session):
    task = await sleep(session, LONG)
    assert (await session.experimental.cancel_task(task)).status == "cancelled"
    assert await last(session, task) == "cancelled"
    assert not (await session.call_tool("stopped_once", {})).isError


async def a_second_cancel_is_refused(session):
    task = await sleep(session, LONG)
    await session.experimental.cancel_task(task)
    await refused(session, task)


async def a_cancel_after_the_end_is_refused(session):
    task = await sleep(session, 1)
    await last(session, task)
    await refused(session, task)


async def main():
    patience = timedelta(seconds=60)
    server = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(server) as (reader, writer), ClientSession(
        reader, writer, read_timeout_seconds=patience
    ) as session:
        await session.initialize()
        for check in [
            a_task_gets_its_result,
            a_cancel_stops_the_task,
            a_second_cancel_is_refused,
            a_cancel_after_the_end_is_refused,
        ]:
            await check(session)
            print(check.__name__, flush=True)
        await a_task_gets_its_result(session)
        print("a_later_task_is_not_hit", flush=True)


anyio.run(main)
