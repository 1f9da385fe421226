// An agent on the ACP TypeScript SDK, version 2, with one session whose turns ask for permission. A prompt that comes
// while it works is held. Each turn says the outcome of its question.
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk/experimental/v2";

const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
const info = { name: "interop", version: "0" };

// The turn that works, and what stops it. The others wait for their turn in order.
let working;
let held = [];

function withdraw(entry) {
  held = held.filter((it) => it !== entry);
  entry.reject(RequestError.requestCancelled());
}

async function begins(signal) {
  if (!working) return;
  await new Promise((resolve, reject) => {
    const entry = { resolve, reject };
    held.push(entry);
    signal.addEventListener("abort", () => withdraw(entry));
  });
}

async function work(sessionId, client, signal) {
  const update = (update) => client.notify(methods.client.session.update, { sessionId, update });
  const state = (state) => update({ sessionUpdate: "state_update", ...state });
  await state({ state: "running" });
  const question = { sessionId, title: "May I?", options };
  const asked = client.request(methods.client.session.requestPermission, question, {
    cancellationSignal: signal,
  });
  const said = await asked.catch(({ code }) => code);
  const isSelected = said.outcome?.outcome === "selected";
  // The SDK handles the response before the notification that was sent before it.
  if (!isSelected && !signal.aborted) await once(signal, "abort");
  const content = { type: "text", text: JSON.stringify(said) };
  await update({ sessionUpdate: "agent_message_chunk", messageId: "a1", content });
  const next = held.shift();
  working = undefined;
  await state({ state: "idle", stopReason: isSelected ? "end_turn" : "cancelled" });
  next?.resolve();
}

function stop() {
  held.forEach(withdraw);
  working?.abort.abort();
}

const connection = agent()
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: 2,
    info,
    capabilities: { session: {} },
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: "s1" }))
  .onRequest(methods.agent.session.prompt, async ({ params, client, signal }) => {
    await begins(signal);
    const abort = new AbortController();
    working = { abort, ended: work(params.sessionId, client, abort.signal) };
    return { messageId: "m1" };
  })
  .onRequest(methods.agent.session.close, async () => {
    const { ended } = working;
    stop();
    await ended;
    return {};
  })
  .onNotification(methods.agent.session.cancel, stop)
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
process.exit(0);
