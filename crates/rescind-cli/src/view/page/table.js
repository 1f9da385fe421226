// The table of requests. Only the rows that can be seen are in the document; assistive software is told how many there
// are and which one it looks at.

const PRINTED = 2000;

class Table {
  constructor(grid, rows, timeline, recording, chosen) {
    Object.assign(this, { grid, body: rows, timeline, recording, chosen, list: [], active: undefined });
    this.pool = [];
    this.closed = new Set();
    grid.addEventListener("scroll", () => this.soon());
    grid.addEventListener("click", (event) => this.click(event));
    grid.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.soon()).observe(grid);
    window.addEventListener("beforeprint", () => this.print());
    window.addEventListener("afterprint", () => this.unprint());
  }

  get height() { return this.head().offsetHeight || 28; }
  head() { return this.grid.firstElementChild; }

  show({ rows }) {
    this.list = rows;
    this.grid.setAttribute("aria-rowcount", String(rows.length + 1));
    this.body.style.height = `${Math.max(rows.length, 1) * this.height}px`;
    if (this.active && rows[this.active.position] !== this.active) this.active = undefined;
    this.draw();
  }

  soon() { this.waits ??= requestAnimationFrame(() => this.draw()); }

  draw() {
    this.waits = undefined;
    const height = this.height;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - 4);
    const wanted = Math.min(this.list.length - first, Math.ceil(this.grid.clientHeight / height) + 8);
    this.fill(first, Math.max(0, wanted), height);
    const isThere = this.active && this.active.position >= first && this.active.position < first + wanted;
    if (isThere) this.grid.setAttribute("aria-activedescendant", `request-${this.active.number}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  fill(first, wanted, height) {
    if (this.list.length === 0) {
      this.pool = [];
      this.body.replaceChildren(element("p", "No request is as the filters ask for.", { class: "empty" }));
      return;
    }
    if (this.pool.length === 0) this.body.replaceChildren();
    while (this.pool.length < wanted) this.body.append(this.pool[this.pool.push(this.row()) - 1]);
    while (this.pool.length > wanted) this.pool.pop().remove();
    this.pool.forEach((row, at) => {
      this.describe(row, this.list[first + at], first + at);
      row.style.transform = `translateY(${(first + at) * height}px)`;
    });
  }

  row() {
    const row = element("div", undefined, { class: "row", role: "row" });
    for (const name of ["method", "connection", "number", "number", "outcome", "when"]) {
      row.append(element("span", undefined, { role: "gridcell", class: name }));
    }
    return row;
  }

  describe(row, request, position) {
    const isOpen = !this.closed.has(request.number);
    const hasBelow = request.children.some((child) => child.isShown);
    row.id = `request-${request.number}`;
    row.dataset.outcome = request.outcome;
    row.classList.toggle("context", !request.isMatch);
    row.setAttribute("aria-rowindex", position + 2);
    row.setAttribute("aria-level", request.depth);
    row.setAttribute("aria-selected", String(request === this.active));
    if (hasBelow) row.setAttribute("aria-expanded", String(isOpen));
    else row.removeAttribute("aria-expanded");
    const [method, connection, start, took, outcome, when] = row.children;
    method.style.paddingLeft = `${0.25 + Math.min(request.depth - 1, 12) * 1.1}rem`;
    method.title = shown(request.method);
    method.replaceChildren(
      element("span", hasBelow ? (isOpen ? "▾" : "▸") : "", { class: "twist", "aria-hidden": "true" }), shown(request.method));
    connection.textContent = shown(`${request.dir === "sent" ? "→" : "←"} ${request.hop}`);
    connection.title = request.dir === "sent" ? "sent by whoever recorded" : "received by whoever recorded";
    start.textContent = milliseconds(request.start);
    took.textContent = milliseconds(request.duration);
    outcome.title = outcome.textContent = this.outcome(request);
    this.bar(when, request);
  }

  outcome(request) {
    const marks = [`${OUTCOMES[request.outcome] ?? ""} ${named(request.outcome)}`];
    if (request.outcome === "error" && request.code !== undefined) marks[0] += ` ${request.code}`;
    if (request.cancelled !== undefined && request.outcome !== "cancelled") marks.push("after a cancel");
    if (request.late !== undefined) marks.push("late answer");
    if (request.duplicates !== undefined) marks.push("answered twice");
    return marks.join(", ");
  }

  bar(cell, request) {
    const [from, to] = this.timeline.window;
    const share = (time) => Math.min(100, Math.max(0, (time - from) / (to - from) * 100));
    const end = request.end ?? this.recording.until;
    const parts = [];
    const add = (name, begin, until) => {
      if (until < from || begin > to) return;
      const part = element("i", undefined, { class: name });
      part.style.left = `${share(begin)}%`;
      if (until !== begin || name === "bar") part.style.width = `${share(until) - share(begin)}%`;
      parts.push(part);
    };
    add(request.end === undefined ? "bar unended" : "bar", request.start, end);
    if (request.cancelled !== undefined) {
      if (request.cancelled < end) add("after", request.cancelled, end);
      add("cancel", request.cancelled, request.cancelled);
    }
    if (request.late !== undefined) {
      add("tail", end, request.late);
      add("late", request.late, request.late);
    }
    cell.replaceChildren(...parts);
  }

  choose(request) {
    // It can't be seen while what it was made for is closed.
    for (let above = request.above; above; above = above.above) {
      if (this.closed.delete(above.number)) this.reorder();
    }
    if (!request.isShown) return this.chosen(request);
    this.active = request;
    const [top, height] = [request.position * this.height, this.height];
    const room = this.grid.clientHeight - 2 * height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top > this.grid.scrollTop + room) this.grid.scrollTop = top - room;
    this.draw();
    this.chosen(request);
  }

  move(by) {
    if (this.list.length === 0) return;
    const from = this.active?.position ?? (by > 0 ? -1 : this.list.length);
    this.choose(this.list[Math.min(Math.max(from + by, 0), this.list.length - 1)]);
  }

  toggle(request) {
    if (!this.closed.delete(request.number)) this.closed.add(request.number);
    this.reorder();
  }

  click(event) {
    const row = event.target.closest(".row:not(.head)");
    if (!row) return;
    const request = this.list[row.getAttribute("aria-rowindex") - 2];
    if (event.target.classList.contains("twist") && row.hasAttribute("aria-expanded")) this.toggle(request);
    this.choose(request);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const request = this.active;
    if (steps[event.key]) this.move(steps[event.key]);
    else if (event.key === "ArrowRight" && request) {
      if (this.closed.has(request.number)) this.toggle(request);
      else if (request.children.some((child) => child.isShown)) this.move(1);
    } else if (event.key === "ArrowLeft" && request) {
      const isOpen = request.children.some((child) => child.isShown) && !this.closed.has(request.number);
      if (isOpen) this.toggle(request);
      else if (request.above) this.choose(request.above);
    } else if (event.key === "Enter" && request) document.getElementById("details").focus();
    else return;
    event.preventDefault();
  }

  // On paper nothing scrolls: the rows stand below each other.
  print() {
    this.fill(0, Math.min(this.list.length, PRINTED), 0);
    this.body.style.height = "auto";
    this.pool.forEach((row) => { row.style.transform = "none"; });
    if (this.list.length > PRINTED) {
      this.more = element("p", `${this.list.length - PRINTED} more are not printed: choose some by the filters.`, { class: "empty" });
      this.body.append(this.more);
    }
  }

  unprint() {
    this.more?.remove();
    this.body.style.height = `${Math.max(this.list.length, 1) * this.height}px`;
    this.draw();
  }
}

