// A client on the MCP TypeScript SDK: `node mcp_guide.mjs COMMAND…` drives the gateway of the guide, with
// `python/mcp_server.py` as upstream a and `mcp_server.mjs mortal` as b. It prints the name of each check
// that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const LONG = 60_000;
const INTERNAL_ERROR = -32603;

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "0" });
await client.connect(new StdioClientTransport({ command, args }));

const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const said = async (request) => JSON.parse((await request).content[0].text);
const listed = async () => (await client.listTools()).tools.map(({ name }) => name);
const tools = ["echo", "sleep", "count", "cancelled_once"];
const of = (upstream, names) => names.map((name) => `${upstream}/${name}`);

const checks = {
  async opens() {
    assert.equal(client.getServerVersion().name, "gateway");
  },
  async merged_tools() {
    assert.deepEqual(await listed(), [...of("a", tools), ...of("b", [...tools, "exit"])]);
  },
  async calls_to_both_at_once() {
    const calls = ["a", "b", "a", "b"].map((upstream, index) =>
      said(call(`${upstream}/echo`, { text: `${index}` })),
    );
    assert.deepEqual(await Promise.all(calls), ["0", "1", "2", "3"].map((text) => ({ text })));
  },
  async progress_of_each_call() {
    const counts = ["a", "b"].map(async (upstream) => {
      const seen = [];
      const onprogress = ({ progress, total }) => seen.push([progress, total]);
      await call(`${upstream}/count`, { to: 3, every_ms: 20 }, { onprogress });
      // The SDK drops progress that it reads together with the answer.
      assert.deepEqual(seen, [[1, 3], [2, 3], [3, 3]].slice(0, Math.max(1, seen.length)));
    });
    await Promise.all(counts);
  },
  async cancel_reaches_the_upstream() {
    for (const upstream of ["a", "b"]) {
      const abort = new AbortController();
      const [signal, arrived] = [abort.signal, new EventTarget()];
      const onprogress = () => arrived.dispatchEvent(new Event("progress"));
      const first = once(arrived, "progress");
      const request = call(`${upstream}/count`, { to: LONG, every_ms: 1 }, { signal, onprogress });
      await first;
      abort.abort();
      await assert.rejects(request);
      // It returns once the upstream itself has cancelled something.
      await call(`${upstream}/cancelled_once`, {});
    }
  },
  async unknown_tool() {
    await assert.rejects(call("c/echo", {}), { code: -32602 });
  },
  async upstream_that_dies() {
    const gone = { code: INTERNAL_ERROR, message: /the upstream is gone/ };
    const pending = assert.rejects(call("b/sleep", { ms: LONG }), gone);
    await assert.rejects(call("b/exit", {}), gone);
    await pending;
    await assert.rejects(call("b/echo", { text: "" }), gone);
    assert.deepEqual(await listed(), of("a", tools));
    assert.deepEqual(await said(call("a/echo", { text: "hé" })), { text: "hé" });
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
await client.close();
process.exit(0);
