// A client on the ACP TypeScript SDK: `node acp_guide.mjs TEXT COMMAND…` drives an agent of the README
// or of the guide, which says that text and asks for permission in each turn. It prints the name of
// each check that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const CANCELLED = -32800;

const [text, command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = once(child, "exit");

// The user's choice when asked, and the outcome of the question.
let decide;
const questions = new EventEmitter();
const app = client({ name: "interop" }).onRequest(
  methods.client.session.requestPermission,
  async ({ params, signal }) => {
    const outcome = decide(params, signal);
    questions.emit("asked", params);
    return { outcome: await outcome };
  },
);
const grant = async () => ({ outcome: "selected", optionId: "yes" });
const untilAborted = async (_, signal) => {
  if (!signal.aborted) await once(signal, "abort");
  questions.emit("closed");
  return { outcome: "cancelled" };
};

// A turn that has come to its question, and the text that came before.
async function turn(session, options) {
  const asked = once(questions, "asked");
  const response = session.prompt("Do something.", options);
  const [params] = await asked;
  assert.equal(params.sessionId, session.sessionId);
  assert.equal(params.toolCall.title, "Think");
  const said = session.readText();
  // Both may fail before they are looked at.
  for (const outcome of [response, said]) outcome.catch(() => {});
  return { response, said };
}

const checks = {
  async opens(agent) {
    const info = { protocolVersion: 1, clientCapabilities: {} };
    assert.equal((await agent.request(methods.agent.initialize, info)).protocolVersion, 1);
    this.session = await agent.buildSession("/").start();
  },
  async turn_with_updates_and_a_permission() {
    decide = grant;
    const { response, said } = await turn(this.session);
    assert.equal((await response).stopReason, "end_turn");
    assert.equal(await said, text);
  },
  async stop_cancels_the_turn_and_its_question(agent) {
    decide = untilAborted;
    const closed = once(questions, "closed");
    const { response, said } = await turn(this.session);
    await agent.notify(methods.agent.session.cancel, { sessionId: this.session.sessionId });
    await closed;
    assert.equal((await response).stopReason, "cancelled");
    assert.equal(await said, text);
  },
  async stop_wins_over_the_outcome_of_the_question(agent) {
    // As the protocol has it: the client settles what it was asked, beside the stop.
    decide = async ({ sessionId }) => {
      await agent.notify(methods.agent.session.cancel, { sessionId });
      return { outcome: "cancelled" };
    };
    const { response, said } = await turn(this.session);
    assert.equal((await response).stopReason, "cancelled");
    assert.equal(await said, text);
  },
  async cancel_of_the_request_cancels_its_question() {
    decide = untilAborted;
    const closed = once(questions, "closed");
    const abort = new AbortController();
    const { response, said } = await turn(this.session, { cancellationSignal: abort.signal });
    abort.abort();
    await closed;
    await assert.rejects(response, { code: CANCELLED });
    await assert.rejects(said, { code: CANCELLED });
  },
  async another_turn() {
    await checks.turn_with_updates_and_a_permission.call(this);
  },
};

const held = {};
await app.connectWith(
  ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)),
  async (agent) => {
    for (const [name, check] of Object.entries(checks)) {
      await check.call(held, agent);
      console.log(name);
    }
  },
);
child.stdin.end();
assert.deepEqual(await exited, [0, null]);
console.log("ends_with_its_client");
process.exit(0);
