// The contents of the page, read from its data: the lines that `rescind view --json` prints, with the connections
// and the messages between them. All that a peer wrote becomes text of a node and nothing else.

const OUTCOMES = {
  result: "✓", error: "✕", cancelled: "⊘", timed_out: "◷", malformed: "✕",
  connection_lost: "⌁", duplicate_id: "✕", unanswered: "…",
};

const MARKS = {
  cancelled: ["cancelled", (request) => request.cancelled !== undefined],
  late: ["answered late", (request) => request.late !== undefined],
  twice: ["answered twice", (request) => request.duplicates !== undefined],
  refused: ["not passed on", (request) => request.refused !== undefined],
};

// Characters that a reader would obey or not see are shown.
const shown = (value) => String(value).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
  (it) => it === "\n" ? it : `\\u${it.codePointAt(0).toString(16).padStart(4, "0")}`);

const named = (outcome) => outcome.replaceAll("_", " ");

function milliseconds(micros) {
  if (micros === undefined) return "–";
  if (micros >= 60e6) return `${(micros / 60e6).toFixed(2)} min`;
  return micros >= 1e6 ? `${(micros / 1e6).toFixed(3)} s` : `${(micros / 1e3).toFixed(3)} ms`;
}

const idOf = (request) => shown(typeof request.id === "string" ? JSON.stringify(request.id) : request.id);

// An id is a token: a number may have more digits than one of JavaScript has, so numbers come as they are written.
const parse = (line) => JSON.parse(line, (key, value, context) =>
  key === "id" && typeof value === "number" && context?.source ? Number.isSafeInteger(value) ? value : new Token(context.source) : value);

class Token {
  constructor(source) { this.source = source; }
  toString() { return this.source; }
}

function read(text) {
  const recording = { header: undefined, hops: new Map(), requests: [], byNumber: new Map(), summary: "", notes: [], until: 1 };
  const hop = (it) => recording.hops.has(it.hop) || recording.hops.set(it.hop, it);
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const it = parse(line);
    if (it.recording) {
      recording.header ??= it.recording;
      it.recording.hops.forEach(hop);
    } else if (it.opened) hop(it.opened);
    else if (it.texts) recording.requests.at(-1).texts = it.texts;
    else if (it.page) Object.assign(recording, it.page);
    else {
      hop({ hop: it.hop });
      it.children = [];
      recording.requests.push(it);
      recording.byNumber.set(it.number, it);
    }
  }
  recording.requests.sort((one, other) => one.number - other.number);
  recording.roots = [];
  for (const request of recording.requests) {
    request.above = recording.byNumber.get(request.parent);
    (request.above?.children ?? recording.roots).push(request);
    // In some dialects silence is the answer to a cancel.
    const silence = request.outcome === "cancelled" ? request.cancelled : undefined;
    request.end = request.duration === undefined ? silence : request.start + request.duration;
    recording.until = Math.max(recording.until, request.end ?? 0, request.late ?? 0);
  }
  return recording;
}

// The words that a search looks through.
const words = (request) => request.words ??= [
  request.method, idOf(request), request.cause, request.refused, request.code, ...(request.texts ?? []).map((it) => it.text),
].filter((it) => it !== undefined).join("\n").toLowerCase();

const admits = (filter, request) =>
  (filter.method === "" || request.method === filter.method) &&
  (filter.outcomes.size === 0 || filter.outcomes.has(request.outcome)) &&
  (filter.slow === 0 || (request.duration ?? filter.until - request.start) >= filter.slow) &&
  filter.marks.every((mark) => MARKS[mark][1](request)) &&
  (filter.search === "" || words(request).includes(filter.search));

// The requests to show, parents before their children. What a filter leaves out is shown all the same if
// something below it is not, so that one sees where that belongs.
function order(recording, filter, closed) {
  let count = 0;
  for (const request of recording.requests) {
    request.isMatch = admits(filter, request);
    request.isShown = request.isMatch;
    count += request.isMatch;
  }
  for (const request of recording.requests) {
    if (!request.isMatch) continue;
    for (let above = request.above; above && !above.isShown; above = above.above) above.isShown = true;
  }
  const shownRows = [];
  const stack = recording.roots.toReversed().map((request) => [request, 1]);
  while (stack.length > 0) {
    const [request, depth] = stack.pop();
    if (!request.isShown) continue;
    request.depth = depth;
    request.position = shownRows.push(request) - 1;
    if (closed.has(request.number)) continue;
    for (let at = request.children.length - 1; at >= 0; at--) stack.push([request.children[at], depth + 1]);
  }
  return { rows: shownRows, count };
}

// An element with text, and with nothing that is not text.
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = shown(text);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

