// An agent on the ACP TypeScript SDK whose turns ask for permission. A stopped turn whose question has ended responds
// with `cancelled`.
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

let stop;
const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
const toolCall = { toolCallId: "1", title: "Think" };

const connection = agent()
  .onRequest(methods.agent.initialize, () => ({ protocolVersion: 1 }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: "s1" }))
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId }, client }) => {
    const { signal } = (stop = new AbortController());
    const question = { sessionId, toolCall, options };
    const { outcome } = await client.request(methods.client.session.requestPermission, question);
    if (outcome.outcome !== "cancelled") return { stopReason: "end_turn" };
    // The SDK handles the response before the notification that was sent before it.
    if (!signal.aborted) await once(signal, "abort");
    return { stopReason: "cancelled" };
  })
  .onNotification(methods.agent.session.cancel, () => stop.abort())
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
process.exit(0);
