// A server on the MCP TypeScript SDK, with the tools that the tests of servers call.
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "interop", version: "0" });
const ms = z.number();
const said = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

const cancelled = new AbortController();
const rest = async (time, signal) => {
  await setTimeout(time, undefined, { signal }).catch((error) => {
    cancelled.abort();
    throw error;
  });
};

server.registerTool("echo", { inputSchema: { text: z.string() } }, said);
server.registerTool("sleep", { inputSchema: { ms } }, async ({ ms }, { signal }) => {
  await rest(ms, signal);
  return said({ slept_ms: ms });
});
const count = { to: z.number(), every_ms: ms };
server.registerTool("count", { inputSchema: count }, async ({ to, every_ms }, extra) => {
  const { progressToken } = extra._meta ?? {};
  for (let progress = 1; progress <= to; progress++) {
    await rest(every_ms, extra.signal);
    if (progressToken === undefined) continue;
    const params = { progressToken, progress, total: to };
    await extra.sendNotification({ method: "notifications/progress", params });
  }
  return said({ counted: to });
});
server.registerTool("cancelled_once", {}, async () => {
  if (!cancelled.signal.aborted) await once(cancelled.signal, "abort");
  return said({});
});
// For what a gateway does when one of its servers dies.
if (process.argv[2] === "mortal") server.registerTool("exit", {}, () => process.exit(1));

await server.connect(new StdioServerTransport());
