// A server on the MCP TypeScript SDK 1, whose tool `sleep` is a task.
import { setTimeout } from "node:timers/promises";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
const options = { capabilities: { tasks }, taskStore: new InMemoryTaskStore() };
const server = new McpServer({ name: "interop", version: "0" }, options);
const said = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

// The tasks that sleep. The SDK does not tell them of a cancel.
let working = 0;

const sleep = { inputSchema: { ms: z.number() }, execution: { taskSupport: "required" } };
server.experimental.tasks.registerToolTask("sleep", sleep, {
  async createTask({ ms }, { taskRequestedTtl, taskStore }) {
    const task = await taskStore.createTask({ ttl: taskRequestedTtl, pollInterval: 10 });
    working += 1;
    setTimeout(ms).then(() => {
      working -= 1;
      return taskStore.storeTaskResult(task.taskId, "completed", said({ slept_ms: ms }));
    });
    return { task };
  },
  getTask: (_, { taskId, taskStore }) => taskStore.getTask(taskId),
  getTaskResult: (_, { taskId, taskStore }) => taskStore.getTaskResult(taskId),
});
server.registerTool("working", {}, () => said({ working }));

await server.connect(new StdioServerTransport());
