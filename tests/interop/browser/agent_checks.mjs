// Checks of an agent in a page that cancels. `open` connects to `serve`, which is `rescind serve`,
// or to `desk`, an app of ours. That app does one thing at a time, and remembers what it began.

import { equal, sleep } from './report.mjs';

const HOUR = { ms: 3_600_000 };
const cancelled = (result, what) =>
  equal([result.success, result.cancelled], [false, true], `the result of ${what}`);

async function opened(open, app = 'serve') {
  const { agent, port } = await open(app);
  const session = await agent.open();
  equal(session.error, undefined, 'the error of initialize');
  return { agent, port };
}

/** A call that is running, and can be aborted. */
async function running(agent) {
  const controller = new AbortController();
  const progress = Promise.withResolvers();
  const acknowledgement = Promise.withResolvers();
  const callId = crypto.randomUUID();
  const result = agent.call(
    'count',
    { to: 100_000, every_ms: 10 },
    {
      signal: controller.signal,
      callId,
      onprogress: progress.resolve,
      onacknowledged: acknowledgement.resolve,
    },
  );
  await progress.promise;
  return { controller, callId, result, acknowledgement: acknowledgement.promise };
}

export const agentChecks = {
  async 'a call is answered'(open) {
    const { agent } = await opened(open);
    const result = await agent.call('echo', { text: 'é', list: [1, 2] });
    equal(result.success, true, 'success');
    equal(result.data, { text: 'é', list: [1, 2] }, 'the data');
  },

  async 'a failure is no cancel'(open) {
    const { agent } = await opened(open);
    const result = await agent.call('fail', { code: 7, message: 'no' });
    equal([result.success, result.cancelled], [false, undefined], 'the result');
    equal(result.error.code, 'OPERATION_FAILED', 'the code');
  },

  async 'a signal that was aborted before sends nothing'(open) {
    const { agent } = await opened(open);
    const before = agent.sent.length;
    cancelled(await agent.call('echo', {}, { signal: AbortSignal.abort() }), 'the call');
    equal(agent.sent.length, before, 'how much was sent');
  },

  async 'abort before start: it is skipped'(open) {
    const { agent } = await opened(open, 'desk');
    const first = agent.call('work', { label: 'first', ms: 300 });
    const controller = new AbortController();
    const acknowledgement = Promise.withResolvers();
    const second = agent.call(
      'work',
      { label: 'second', ms: 1 },
      { signal: controller.signal, onacknowledged: acknowledgement.resolve },
    );
    await sleep(50);
    controller.abort('changed my mind');
    equal((await acknowledgement.promise).cancelled, true, 'the acknowledgement');
    cancelled(await second, 'what waited');
    equal((await first).data, { label: 'first' }, 'the data of what ran');
    equal((await agent.call('begun', {})).data, ['first'], 'what was begun');
  },

  async 'abort during: both sides say so'(open) {
    const { agent } = await opened(open);
    const { controller, callId, result, acknowledgement } = await running(agent);
    controller.abort('stop it');
    equal(await acknowledgement, { callId, cancelled: true }, 'the acknowledgement');
    cancelled(await result, 'what ran');
    const cancel = agent.sent.find(({ type }) => type === 'capabilities/cancel');
    equal(cancel.payload, { callId, reason: 'stop it' }, 'the cancel');
  },

  async 'abort after completion, before the page knows: the result is unharmed'(open) {
    const { agent, port } = await opened(open);
    const controller = new AbortController();
    const acknowledgement = Promise.withResolvers();
    const held = port.hold();
    const result = agent.call(
      'echo',
      { kept: true },
      { signal: controller.signal, onacknowledged: acknowledgement.resolve },
    );
    await held.come('capabilities/call-result');
    controller.abort();
    await held.come('capabilities/cancel-result');
    held.release();
    const { success, data } = await result;
    equal([success, data], [true, { kept: true }], 'the result');
    const { cancelled, reason } = await acknowledgement.promise;
    equal([cancelled, reason], [false, 'Operation already completed'], 'the acknowledgement');
  },

  async 'abort after the result is nothing'(open) {
    const { agent } = await opened(open);
    const controller = new AbortController();
    const result = await agent.call('echo', {}, { signal: controller.signal });
    const before = agent.sent.length;
    controller.abort();
    await sleep(20);
    equal([result.success, agent.sent.length], [true, before], 'the result, and what was sent');
  },

  async 'cancel of a completed call'(open) {
    const { agent } = await opened(open);
    await agent.call('echo', {}, { callId: 'done' });
    const reason = 'Operation already completed';
    const answer = await agent.cancel('done');
    equal(answer, { callId: 'done', cancelled: false, reason }, 'the acknowledgement');
  },

  async 'cancel of a call that never was'(open) {
    const { agent } = await opened(open);
    const reason = 'Operation not found';
    const answer = await agent.cancel('never');
    equal(answer, { callId: 'never', cancelled: false, reason }, 'the acknowledgement');
  },

  async 'cancelled many times, during and after: the same answer, and one result'(open) {
    const { agent } = await opened(open);
    const { callId, result } = await running(agent);
    const during = await Promise.all([1, 2, 3].map(() => agent.cancel(callId)));
    cancelled(await result, 'what ran');
    const after = await agent.cancel(callId);
    for (const answer of [...during, after]) {
      equal(answer, { callId, cancelled: true }, 'an acknowledgement');
    }
    equal((await agent.call('echo', {})).success, true, 'a later call');
    equal(agent.stray, [], 'what nobody awaited');
  },

  async 'nothing before the session is open'(open) {
    const { agent } = await open('serve');
    const result = await agent.call('echo', {}, { callId: 'early' });
    const found = [result.callId, result.success, result.error?.code];
    equal(found, ['early', false, 'NOT_INITIALIZED'], 'the result');
    const answer = await agent.cancel('early');
    const said = [answer.cancelled ?? false, answer.error?.code];
    equal(said, [false, 'NOT_INITIALIZED'], 'the acknowledgement');
    await agent.open();
    equal((await agent.call('echo', {})).success, true, 'a later call');
  },

  async 'a time-out looks like an abort'(open) {
    const { agent } = await opened(open);
    const signal = new AbortController().signal;
    cancelled(await agent.call('sleep', HOUR, { timeout: 50, signal }), 'the call');
  },

  async 'AbortSignal.timeout is an abort'(open) {
    const { agent } = await opened(open);
    cancelled(await agent.call('sleep', HOUR, { signal: AbortSignal.timeout(50) }), 'the call');
  },

  async 'progress comes before the result, under its token'(open) {
    const { agent } = await opened(open);
    const counts = [];
    const onprogress = (progress) => counts.push(progress);
    const result = await agent.call('count', { to: 3, every_ms: 1 }, { onprogress });
    equal([result.success, counts.length], [true, 3], 'the result, and how much progress');
    equal(agent.stray, [], 'what nobody awaited');
  },

  async 'no progress after the result of a cancelled call'(open) {
    const { agent } = await opened(open);
    const { controller, result } = await running(agent);
    controller.abort();
    await result;
    await sleep(50);
    equal(agent.stray, [], 'what nobody awaited');
  },

  async 'one signal for many: every third is aborted, the others are answered'(open) {
    const { agent } = await opened(open);
    const controller = new AbortController();
    const calls = Array.from({ length: 90 }, (_, at) =>
      at % 3 === 0
        ? agent.call('sleep', HOUR, { signal: controller.signal })
        : agent.call('sleep', { ms: 20 }),
    );
    controller.abort();
    const results = await Promise.all(calls);
    results.forEach((result, at) =>
      equal([result.success, result.cancelled === true], [at % 3 !== 0, at % 3 === 0], `call ${at}`),
    );
  },
};
