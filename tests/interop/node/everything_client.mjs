// `node everything_client.mjs COMMAND…` is a client on the MCP TypeScript SDK, version 1, of server-everything: it calls
// tools, cancels one that runs long, and gives up waiting for another.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "0" });
await client.connect(new StdioClientTransport({ command, args }));
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

const { tools } = await client.listTools();
assert.ok(tools.some(({ name }) => name === "echo"));
await call("echo", { message: "hello" });
await call("get-sum", { a: 1, b: 2 });
const long = ["trigger-long-running-operation", { duration: 600, steps: 1200 }];
const abort = new AbortController();
const onprogress = () => abort.abort();
await assert.rejects(call(...long, { signal: abort.signal, onprogress }));
await assert.rejects(call(...long, { timeout: 300 }));
await Promise.all([1, 2, 3].map((count) => call("echo", { message: String(count) })));
await client.listPrompts();
await client.close();
