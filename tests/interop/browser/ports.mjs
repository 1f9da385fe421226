// Ways for messages between two sides. A port sends objects, and passes what comes to `onmessage`.

/** A WebSocket of the browser's own. */
export function overWebSocket(url) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    const port = {
      onmessage: () => {},
      send: (message) => socket.send(JSON.stringify(message)),
      close: () => socket.close(),
    };
    port.closed = new Promise((closed) => socket.addEventListener('close', closed));
    socket.addEventListener('message', ({ data }) => port.onmessage(JSON.parse(data)));
    socket.addEventListener('open', () => resolve(port));
    socket.addEventListener('error', () => reject(new Error(`no WebSocket at ${url}`)));
  });
}

/** `postMessage` to and from a window of that origin. */
export function overPostMessage(other, origin) {
  const port = {
    onmessage: () => {},
    send: (message) => other.postMessage(message, origin),
    close: () => window.removeEventListener('message', receive),
  };
  const receive = (event) => {
    if (event.source === other && event.origin === origin) port.onmessage(event.data);
  };
  window.addEventListener('message', receive);
  return port;
}

/** A port whose incoming messages can be held back, as a slow network would. */
export function holdable(inner) {
  let held;
  const port = { onmessage: () => {}, send: inner.send, close: inner.close, closed: inner.closed };
  inner.onmessage = (message) => (held ? held(message) : port.onmessage(message));
  /** Holds messages back from now on; `come(type)` waits for one, `release()` lets them go. */
  port.hold = () => {
    const kept = [];
    let waiting = () => {};
    held = (message) => {
      kept.push(message);
      waiting(message);
    };
    return {
      come: (type) =>
        new Promise((come) => {
          waiting = (message) => message.type === type && come();
          kept.forEach(waiting);
        }),
      release: () => {
        held = undefined;
        kept.forEach((message) => port.onmessage(message));
      },
    };
  };
  return port;
}
