// A client on the MCP TypeScript SDK 1: `node mcp_tasks_client.mjs COMMAND…` creates tasks on a server whose tool
// `sleep` is one, and cancels them. The server's tool `stopped_once` responds once it has stopped a task.
// It prints the name of each check that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

const LONG = 600_000;
const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "0" });
const { tasks } = client.experimental;
await client.connect(new StdioClientTransport({ command, args }));

const said = (result) => JSON.parse(result.content[0].text);
const call = (name) => client.callTool({ name, arguments: {} });
const sleep = (ms, options) =>
  tasks.callToolStream({ name: "sleep", arguments: { ms } }, CallToolResultSchema, {
    ...options,
    task: { ttl: LONG },
  });

// The last message about a task; `then` gets the first, which has its name.
async function last(stream, then = () => {}) {
  let message;
  for await (message of stream)
    if (message.type === "taskCreated") await then(message.task.taskId);
  return message;
}

const refused = (request) => assert.rejects(request, ({ code }) => code === -32602);

const checks = {
  async lists_tools() {
    const { tools } = await client.listTools();
    assert.equal(tools.find(({ name }) => name === "sleep").execution.taskSupport, "required");
  },
  async a_task_gets_its_result() {
    const { type, result } = await last(sleep(1));
    assert.equal(type, "result");
    assert.deepEqual(said(result), { slept_ms: 1 });
  },
  async a_cancel_stops_the_task() {
    const ended = await last(sleep(LONG), async (taskId) => {
      assert.equal((await tasks.cancelTask(taskId)).status, "cancelled");
    });
    assert.equal(ended.type, "error");
    assert.match(ended.error.message, /was cancelled/);
    assert.ok(!(await call("stopped_once")).isError);
  },
  async a_second_cancel_is_refused() {
    await last(sleep(LONG), async (taskId) => {
      await tasks.cancelTask(taskId);
      await refused(tasks.cancelTask(taskId));
    });
  },
  async a_cancel_after_the_end_is_refused() {
    let name;
    await last(sleep(1), (taskId) => (name = taskId));
    await refused(tasks.cancelTask(name));
  },
  // The SDK stops to poll, and does not stop the task. That is for its caller.
  async an_abort_leaves_the_task() {
    const abort = new AbortController();
    let name;
    const stream = sleep(LONG, { signal: abort.signal });
    const ended = await last(stream, (taskId) => {
      name = taskId;
      abort.abort();
    });
    assert.equal(ended.type, "error");
    assert.equal((await tasks.getTask(name)).status, "working");
    assert.equal((await tasks.cancelTask(name)).status, "cancelled");
  },
  async a_later_task_is_not_hit() {
    assert.deepEqual(said((await last(sleep(1))).result), { slept_ms: 1 });
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
await client.close();
process.exit(0);
