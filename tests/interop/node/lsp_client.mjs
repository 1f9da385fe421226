// A client on vscode-jsonrpc: `node lsp_client.mjs COMMAND…` drives a server that has the methods of
// `rescind serve`. It prints the name of each check that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { CANCELLED, LONG, cancelled, code, connect } from "./lsp_connection.mjs";

const connection = connect(process.argv.slice(2));

// The events of the requests that the server sends us.
const nested = new EventEmitter();

connection.onRequest("sleep", async (_, token) => {
  nested.emit("started");
  if (!token.isCancellationRequested)
    await new Promise((resolve) => token.onCancellationRequested(resolve));
  nested.emit("cancelled");
  throw cancelled();
});
connection.listen();

const checks = {
  async initialize() {
    const { serverInfo } = await connection.sendRequest("initialize", { capabilities: {} });
    assert.equal(serverInfo.name, "rescind");
    await connection.sendNotification("initialized", {});
  },
  async echo() {
    assert.deepEqual(await connection.sendRequest("echo", { text: "hé" }), { text: "hé" });
  },
  async cancel_is_answered() {
    const { request, cancel } = connection.cancellable("sleep", { ms: LONG });
    cancel();
    assert.equal(await code(request), CANCELLED);
  },
  async cancel_cascades_back() {
    const [started, stopped] = [once(nested, "started"), once(nested, "cancelled")];
    const { request, cancel } = connection.cancellable("nested", { ms: LONG });
    await started;
    cancel();
    await stopped;
    assert.equal(await code(request), CANCELLED);
  },
  async progress_then_a_partial_result() {
    const progress = new Promise((resolve) => connection.onNotification("$/progress", resolve));
    const params = { to: 1_000_000, every_ms: 1, workDoneToken: 1 };
    const { request, cancel } = connection.cancellable("count", params);
    assert.equal((await progress).token, 1);
    cancel();
    const { counted, of } = await request;
    assert.ok(counted < of, `${counted}`);
  },
  async every_third_of_many() {
    const requests = Array.from({ length: 99 }, (_, index) => {
      if (index % 3 !== 0) return connection.sendRequest("sleep", { ms: 1 }).then(() => "result");
      const { request, cancel } = connection.cancellable("sleep", { ms: LONG });
      cancel();
      return code(request);
    });
    const outcomes = await Promise.all(requests);
    outcomes.forEach((outcome, index) =>
      assert.equal(outcome, index % 3 === 0 ? CANCELLED : "result"),
    );
  },
  async shutdown() {
    assert.equal(await connection.sendRequest("shutdown"), null);
    await connection.sendNotification("exit");
    assert.deepEqual(await connection.exited, [0, null]);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
process.exit(0);
