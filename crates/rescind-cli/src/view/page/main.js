// Puts the parts together: filters, keys, themes.

const KEYS = [
  ["↑ ↓", "the request above or below"], ["Page ↑ ↓, Home, End", "further"],
  ["→ ←", "open and close what was made on its behalf, or go to what it was made for"],
  ["Enter", "read its details"], ["n N", "the next or last that was cancelled or answered late"], ["/", "search"],
  ["Esc", "back to the requests"], ["+ -", "look closer or from further away"], ["[ ]", "earlier or later"],
  ["0", "all of the time"], ["t", "theme"], ["?", "these keys"],
];
const LEGEND = [
  ["✓ result"], ["✕ error"], ["⊘ cancelled"], ["◷ timed out"], ["… unanswered: a thin line"],
  ["│ its cancel; hollow or hatched from there until it settled"], ["◆ a late answer"],
];
const METHODS = 500;
const THEMES = ["system", "light", "dark"];

const number = (count) => count.toLocaleString("en");
const find = (id) => document.getElementById(id);
const recording = read(find("recording").textContent);
find("recording").textContent = "";

const filter = { search: "", method: "", outcomes: new Set(), marks: [], slow: 0, until: recording.until };
const timeline = new Timeline(find("timeline"), recording, () => {
  table.soon();
  const [from, to] = timeline.window;
  find("span").textContent = to - from < timeline.whole[1] ? `Shown: ${milliseconds(from)} to ${milliseconds(to)}.` : "";
}, (request) => table.choose(request));
const table = new Table(find("requests"), find("rows"), timeline, recording, (request) => {
  timeline.selected = request;
  details(find("detail"), request, recording, (other) => table.choose(other));
  timeline.draw();
});
table.reorder = () => {
  const ordered = order(recording, filter, table.closed);
  table.show(ordered);
  find("count").textContent = `${number(ordered.count)} of ${number(recording.requests.length)} requests`;
};

function counted(of) {
  const counts = new Map();
  for (const request of recording.requests) counts.set(of(request), (counts.get(of(request)) ?? 0) + 1);
  return counts;
}

function head() {
  const { header } = recording;
  const program = shown((header?.program ?? header?.by ?? "recording").split(/[\\/]/).at(-1));
  document.title = `${program}: requests`;
  find("title").textContent = program;
  find("about").textContent = shown([header?.start?.replace(/\.\d+Z/, "Z").replace("T", " "), recording.summary].filter(Boolean).join(" · "));
  find("notes").append(...recording.notes.map((note) => element("li", note)));
  find("legend").append(...LEGEND.map(([text]) => element("li", text)));
  for (const [keys, what] of KEYS) {
    const name = element("dt");
    name.append(element("kbd", keys));
    find("keylist").append(name, element("dd", what));
  }
}

function box(place, name, value, text) {
  const label = element("label");
  label.append(element("input", undefined, { type: "checkbox", name, value }), ` ${shown(text)}`);
  place.append(label);
}

function filters() {
  const outcomes = counted((request) => request.outcome);
  for (const outcome of Object.keys(OUTCOMES)) {
    if (outcomes.has(outcome)) box(find("outcomes"), "outcome", outcome, `${named(outcome)} ${number(outcomes.get(outcome))}`);
  }
  for (const [mark, [text, is]] of Object.entries(MARKS)) {
    const count = recording.requests.filter(is).length;
    if (count > 0) box(find("marks"), "mark", mark, `${text} ${number(count)}`);
  }
  find("marks").hidden = find("marks").childElementCount === 1;
  const methods = [...counted((request) => request.method)].sort(([, one], [, other]) => other - one).slice(0, METHODS);
  for (const [method, count] of methods) find("method").append(element("option", `${method} (${number(count)})`, { value: method }));
  const form = find("filters");
  const changed = () => {
    const chosen = new FormData(form);
    filter.search = find("search").value.trim().toLowerCase();
    filter.method = find("method").value;
    filter.slow = Number(find("slow").value) * 1000;
    filter.outcomes = new Set(chosen.getAll("outcome"));
    filter.marks = chosen.getAll("mark");
    find("requests").scrollTop = 0;
    table.reorder();
    timeline.draw();
  };
  form.addEventListener("input", changed);
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    find("requests").focus();
  });
}

function nextMarked(step) {
  const { list } = table;
  for (let count = 1, at = table.active?.position ?? (step > 0 ? -1 : list.length); count <= list.length; count++) {
    at = (at + step + list.length) % list.length;
    if (MARKS.cancelled[1](list[at]) || MARKS.late[1](list[at])) return table.choose(list[at]);
  }
}

function theme() {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  find("theme").textContent = `Theme: ${next}`;
  timeline.draw();
}

const commands = {
  "/": () => find("search").focus(), n: () => nextMarked(1), N: () => nextMarked(-1), t: theme,
  "?": () => find("keyboard").showModal(), "+": () => timeline.zoom(0.5), "-": () => timeline.zoom(2),
  "[": () => timeline.pan(-0.25), "]": () => timeline.pan(0.25), 0: () => timeline.look(...timeline.whole),
  Escape: () => find("requests").focus(),
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), select") && event.key !== "Escape";
  if (isTyping || find("keyboard").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!commands[event.key]) return;
  event.preventDefault();
  commands[event.key]();
});
find("theme").addEventListener("click", theme);
find("help").addEventListener("click", () => find("keyboard").showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());

head();
filters();
table.reorder();
timeline.draw();
document.documentElement.dataset.ready = "yes";
