// A client on the ACP TypeScript SDK: `node acp_client.mjs COMMAND…` drives an agent that has the
// methods of `rescind serve`. It prints the name of each check that held, and exits 1 at the first
// that did not.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { Readable, Writable } from "node:stream";
import { client, ndJsonStream } from "@agentclientprotocol/sdk";

const LONG = 600_000;
const CANCELLED = -32800;

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });

// The events of the requests that the agent sends us.
const nested = new EventEmitter();

const app = client().onRequest("sleep", (params) => params, async ({ signal }) => {
  nested.emit("started");
  if (!signal.aborted) await once(signal, "abort");
  nested.emit("cancelled");
  signal.throwIfAborted();
});

const code = (request) =>
  request.then(
    (result) => assert.fail(`a result: ${JSON.stringify(result)}`),
    (error) => error.code,
  );

const checks = {
  async echo(agent) {
    assert.deepEqual(await agent.request("echo", { text: "hé" }), { text: "hé" });
  },
  async cancel_is_answered(agent) {
    const abort = new AbortController();
    const request = agent.request("sleep", { ms: LONG }, { cancellationSignal: abort.signal });
    abort.abort();
    assert.equal(await code(request), CANCELLED);
  },
  async cancel_cascades_back(agent) {
    const abort = new AbortController();
    const [started, cancelled] = [once(nested, "started"), once(nested, "cancelled")];
    const request = agent.request("nested", { ms: LONG }, { cancellationSignal: abort.signal });
    await started;
    abort.abort();
    await cancelled;
    assert.equal(await code(request), CANCELLED);
  },
  async giving_up_cascades_back(agent) {
    const abort = new AbortController();
    const [started, cancelled] = [once(nested, "started"), once(nested, "cancelled")];
    const options = { cancellationSignal: abort.signal, stopWaitingOnCancel: true };
    const request = agent.request("nested", { ms: LONG }, options);
    await started;
    abort.abort();
    assert.equal(await code(request), CANCELLED);
    await cancelled;
  },
  async cancel_that_is_ignored_gets_the_result(agent) {
    const abort = new AbortController();
    const request = agent.request("stubborn", { ms: 20 }, { cancellationSignal: abort.signal });
    abort.abort();
    // An agent that had not begun may answer -32800; then the result is not owed any more.
    const outcome = await request.then((result) => result.slept_ms, (error) => error.code);
    assert.ok([20, CANCELLED].includes(outcome), `${outcome}`);
  },
  async every_third_of_many(agent) {
    const requests = Array.from({ length: 99 }, (_, index) => {
      if (index % 3 !== 0) return agent.request("sleep", { ms: 1 }).then(() => "result");
      const abort = new AbortController();
      const request = agent.request("sleep", { ms: LONG }, { cancellationSignal: abort.signal });
      abort.abort();
      return code(request);
    });
    const outcomes = await Promise.all(requests);
    outcomes.forEach((outcome, index) =>
      assert.equal(outcome, index % 3 === 0 ? CANCELLED : "result"),
    );
  },
  async still_alive(agent) {
    assert.deepEqual(await agent.request("echo", [1]), [1]);
  },
};

await app.connectWith(
  ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)),
  async (agent) => {
    for (const [name, check] of Object.entries(checks)) {
      await check(agent);
      console.log(name);
    }
  },
);
process.exit(0);
