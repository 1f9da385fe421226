// All that is known of one request.

const BELOW = 50;

function details(place, request, recording, choose) {
  const list = element("dl");
  const add = (name, value) => {
    if (value === undefined) return;
    const shownValue = element("dd");
    shownValue.append(value instanceof Node ? value : shown(value));
    list.append(element("dt", name), shownValue);
  };
  const link = (other) => {
    const button = element("button", `${other.method} (${idOf(other)}, ${other.hop})`, { type: "button", class: "link" });
    button.addEventListener("click", () => choose(other));
    return button;
  };
  const after = (time) => time === undefined ? undefined : `${milliseconds(time)}, ${milliseconds(time - request.start)} after its start`;
  const outcome = element("span", `${OUTCOMES[request.outcome] ?? ""} ${named(request.outcome)}`, { class: "outcome" });
  outcome.dataset.outcome = request.outcome;
  add("method", request.method);
  add("id", idOf(request));
  add("connection", `${request.hop}, ${request.dir} by whoever recorded`);
  add("dialect", recording.hops.get(request.hop)?.dialect);
  add("start", milliseconds(request.start));
  add("took", request.duration === undefined ? undefined : milliseconds(request.duration));
  add("outcome", outcome);
  add("code", request.code);
  add("cause", request.cause);
  add("cancelled at", after(request.cancelled));
  add("cancel to settle", request.cancel_to_settle === undefined ? undefined : milliseconds(request.cancel_to_settle));
  add("late answer at", after(request.late));
  add("answers too many", request.duplicates);
  add("not passed on", request.refused);
  if (request.above) add("made for", link(request.above));
  const parts = [list];
  if (request.children.length > 0) {
    const below = element("ul");
    for (const child of request.children.slice(0, BELOW)) {
      const item = element("li");
      item.append(link(child));
      below.append(item);
    }
    const more = request.children.length - BELOW;
    if (more > 0) below.append(element("li", `and ${more} more`));
    parts.push(element("h3", "Made on its behalf"), below);
  }
  for (const { t, kind, bytes, text } of request.texts ?? []) {
    parts.push(element("h3", `${kind} at ${milliseconds(t)}, ${bytes} bytes`), element("pre", text));
  }
  place.replaceChildren(...parts);
}

