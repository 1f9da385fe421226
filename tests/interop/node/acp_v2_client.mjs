// A client on the ACP TypeScript SDK, version 2: `node acp_v2_client.mjs COMMAND…` drives an agent whose turns ask for
// permission. It prints the name of each check that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk/experimental/v2";

const CANCELLED = { code: -32800 };

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });

// The events of the open question, among them "granted", which the user says.
const questions = new EventEmitter();
const app = client({ name: "interop" }).onRequest(
  methods.client.session.requestPermission,
  async ({ params, signal }) => {
    assert.equal(params.title, "May I?");
    questions.emit("asked");
    await Promise.race([once(signal, "abort"), once(questions, "granted")]);
    if (!signal.aborted) return { outcome: { outcome: "selected", optionId: "yes" } };
    questions.emit("closed");
    return { outcome: { outcome: "cancelled" } };
  },
);

// A turn that has come to its question.
async function turn(session) {
  const asked = once(questions, "asked");
  assert.equal(typeof (await session.prompt("Go.")).messageId, "string");
  assert.equal((await session.nextUpdate()).update.state, "running");
  await asked;
}

async function ends(session, stopReason) {
  let message;
  do message = await session.nextUpdate();
  while (message.kind !== "stop");
  assert.equal(message.stopReason, stopReason);
}

// A prompt that is held behind that turn.
function hold(session, options) {
  const held = session.prompt("Later.", options);
  // It may fail before it is looked at.
  held.catch(() => {});
  return held;
}

const checks = {
  async opens(agent) {
    const info = { name: "interop", version: "0" };
    const { protocolVersion } = await agent.request(methods.agent.initialize, {
      protocolVersion: 2,
      info,
      capabilities: {},
    });
    assert.equal(protocolVersion, 2);
    this.session = await agent.buildSession("/").start();
    this.stop = () =>
      agent.notify(methods.agent.session.cancel, { sessionId: this.session.sessionId });
  },
  async a_turn_goes_on_after_its_response() {
    await turn(this.session);
    questions.emit("granted");
    await ends(this.session, "end_turn");
  },
  async a_stop_cancels_the_question() {
    const closed = once(questions, "closed");
    await turn(this.session);
    await this.stop();
    await closed;
    await ends(this.session, "cancelled");
  },
  async a_stop_is_for_a_held_prompt_too() {
    await turn(this.session);
    const held = hold(this.session);
    await this.stop();
    await assert.rejects(held, CANCELLED);
    await ends(this.session, "cancelled");
  },
  async a_cancel_withdraws_a_held_prompt_alone() {
    await turn(this.session);
    const abort = new AbortController();
    const held = hold(this.session, { cancellationSignal: abort.signal });
    abort.abort();
    await assert.rejects(held, CANCELLED);
    questions.emit("granted");
    await ends(this.session, "end_turn");
  },
  async a_later_turn_is_not_hit() {
    await checks.a_turn_goes_on_after_its_response.call(this);
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
process.exit(0);
