"""`http_cancels.py MODE ADDRESS` is a client over HTTP: of the package fastmcp if MODE is that, otherwise on the MCP Python
SDK in that mode. It cancels calls of `sleep` by their scope, and one by time-out, and prints the milliseconds until
`witness` says that the handler has heard it, and beside them those of a question that it responds to at once.
"""

import sys
import time

import anyio

TIMES = 50
SLEEP = {"ms": 600_000}
# In seconds. The call has to reach its handler before.
TIMEOUT = 2

mode, address = sys.argv[1:]
if mode == "fastmcp":
    from fastmcp import Client

    client, within = Client(address), {"timeout": TIMEOUT}
else:
    from mcp import Client

    client, within = Client(address, mode=mode), {"read_timeout_seconds": TIMEOUT}


async def cancel(times):
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "sleep", SLEEP)
            await client.call_tool("witness", {"of": "begun", "times": times})
            asked = time.perf_counter()
            await client.call_tool("witness", {"of": "begun", "times": times})
            begun = time.perf_counter()
            scope.cancel()
    return begun, begun - asked


async def main():
    async with client:
        for times in range(1, TIMES + 1):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "witness", {"of": "cancelled", "times": times})
                begun, took = await cancel(times)
            print((time.perf_counter() - begun) * 1000, took * 1000, flush=True)
        try:
            await client.call_tool("sleep", SLEEP, **within)
        except Exception:
            pass
        await client.call_tool("witness", {"of": "cancelled", "times": TIMES + 1})
        print("timed out", flush=True)


anyio.run(main)
