// The drawing above the table: a lane for each connection, a bar for each request. Bars that overlap are put below
// each other; what is too narrow to be seen apart is drawn once.

const LANES = 12;
const TRACKS = 32;
const TRACK = 6;
const LANE_GAP = 8;
const AXIS = 20;

class Timeline {
  constructor(canvas, recording, changed, chosen) {
    Object.assign(this, { canvas, recording, changed, chosen, drag: undefined, selected: undefined });
    this.whole = [0, recording.until * 1.01 + 1];
    this.window = [...this.whole];
    this.lanes = [...recording.hops.keys()].slice(0, LANES).map((hop) => ({ hop, tracks: 0 }));
    // All lanes together are not higher than that many tracks make them.
    this.tracks = Math.max(4, Math.floor(TRACKS / Math.max(1, this.lanes.length)));
    this.place();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // Each request gets the first track of its lane that is free; if none is, the one that is free first. Those that
  // were never answered share the last.
  place() {
    const lanes = new Map(this.lanes.map((lane) => [lane.hop, lane]));
    const free = new Map(this.lanes.map((lane) => [lane, []]));
    for (const request of this.recording.requests) {
      const lane = lanes.get(request.hop);
      if (!lane) continue;
      request.lane = lane;
      // It has no end, so it would keep a track from all others.
      if (request.end === undefined) {
        lane.isOpen = true;
        continue;
      }
      const tracks = free.get(lane);
      let track = tracks.findIndex((until) => until <= request.start);
      if (track < 0) track = tracks.length < this.tracks ? tracks.length : tracks.indexOf(Math.min(...tracks));
      tracks[track] = Math.max(tracks[track] ?? 0, request.late ?? request.end);
      lane.tracks = Math.max(lane.tracks, track + 1);
      request.track = track;
    }
    let top = AXIS;
    for (const lane of this.lanes) {
      lane.top = top;
      if (lane.isOpen) lane.tracks += 1;
      lane.height = 18 + Math.max(1, lane.tracks) * TRACK;
      top += lane.height + LANE_GAP;
    }
    this.height = top;
  }

  trackOf({ track, lane }) { return track ?? lane.tracks - 1; }

  look(from, to) {
    const least = Math.max(10, this.whole[1] / 1e6);
    const width = Math.min(Math.max(to - from, least), this.whole[1]);
    const begin = Math.min(Math.max(from, 0), this.whole[1] - width);
    this.window = [begin, begin + width];
    this.draw();
    this.changed();
  }

  zoom(factor, at = (this.window[0] + this.window[1]) / 2) {
    this.look(at - (at - this.window[0]) * factor, at + (this.window[1] - at) * factor);
  }

  pan(share) {
    const by = (this.window[1] - this.window[0]) * share;
    this.look(this.window[0] + by, this.window[1] + by);
  }

  x(time) { return (time - this.window[0]) / (this.window[1] - this.window[0]) * this.width; }
  time(x) { return this.window[0] + x / this.width * (this.window[1] - this.window[0]); }

  colours() {
    const probe = element("i", "");
    document.body.append(probe);
    const of = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const names = ["ground", "line", "text", "quiet", "accent", "result", "error", "cancelled", "timed-out", "lost", "open"];
    const colours = Object.fromEntries(names.map((name) => [name, of(name)]));
    probe.remove();
    const { error, result, cancelled } = colours;
    return { ...colours, outcome: {
      result, error, cancelled, malformed: error, duplicate_id: error, timed_out: colours["timed-out"],
      connection_lost: colours.lost, unanswered: colours.open,
    } };
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    if (this.width === 0) return;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.pen.font = "11px system-ui, sans-serif";
    const colours = this.colours();
    this.axis(colours);
    this.bars(colours);
    if (this.drag) {
      this.pen.fillStyle = colours.accent;
      this.pen.globalAlpha = 0.25;
      this.pen.fillRect(Math.min(...this.drag), 0, Math.abs(this.drag[1] - this.drag[0]), this.height);
      this.pen.globalAlpha = 1;
    }
  }

  axis({ line, quiet, text }) {
    const pen = this.pen;
    const rough = (this.window[1] - this.window[0]) / Math.max(1, this.width / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough);
    for (let time = Math.ceil(this.window[0] / step) * step; time < this.window[1]; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.fillStyle = line;
      pen.fillRect(x, AXIS - 4, 1, this.height);
      pen.fillStyle = quiet;
      const label = step >= 1e5 ? `${+(time / 1e6).toFixed(3)} s` : `${+(time / 1e3).toFixed(3)} ms`;
      if (x + pen.measureText(label).width < this.width) pen.fillText(label, x + 3, 12);
    }
    for (const lane of this.lanes) {
      const about = this.recording.hops.get(lane.hop);
      pen.fillStyle = line;
      pen.fillRect(0, lane.top + lane.height + LANE_GAP / 2 - 1, this.width, 1);
      pen.fillStyle = text;
      pen.fillText(shown(`${lane.hop}${about.dialect ? `  (${about.dialect})` : ""}`).slice(0, 60), 6, lane.top + 10);
    }
  }

  bars(colours) {
    const pen = this.pen;
    const drawn = new Map(this.lanes.map((lane) => [lane, new Array(this.tracks + 1).fill(-1)]));
    for (const request of this.recording.requests) {
      if (!request.lane || request.start > this.window[1]) continue;
      const end = request.end ?? this.recording.until;
      if ((request.late ?? end) < this.window[0]) continue;
      const [from, to] = [Math.max(-2, this.x(request.start)), Math.min(this.width + 2, this.x(end))];
      const last = drawn.get(request.lane);
      const isMarked = request.cancelled !== undefined || request.late !== undefined || request === this.selected;
      const track = this.trackOf(request);
      const isOpen = request.end === undefined;
      if (to < last[track] && !isMarked && !isOpen) continue;
      const y = request.lane.top + 17 + track * TRACK;
      last[track] = Math.max(from + 1, to);
      pen.globalAlpha = request.isMatch ? 1 : 0.15;
      pen.fillStyle = colours.outcome[request.outcome] ?? colours.quiet;
      if (isOpen) {
        pen.fillRect(from, y, 2, TRACK - 2);
        pen.fillRect(from, y + 2, to - from, 1);
      } else pen.fillRect(from, y, Math.max(1.5, to - from), TRACK - 2);
      if (request.cancelled !== undefined) {
        const cancelled = this.x(request.cancelled);
        pen.fillStyle = colours.ground;
        if (!isOpen && to - cancelled > 4) pen.fillRect(cancelled, y + 1, to - cancelled - 1, TRACK - 4);
        pen.fillStyle = colours.text;
        pen.fillRect(cancelled - 0.5, y - 1, 1.5, TRACK);
      }
      if (request.late !== undefined) this.late(request, to, y, colours.error);
      if (request === this.selected) {
        pen.globalAlpha = 1;
        pen.strokeStyle = colours.text;
        pen.lineWidth = 1.5;
        pen.strokeRect(from - 2, y - 2, Math.max(1.5, to - from) + 4, TRACK + 2);
      }
    }
    pen.globalAlpha = 1;
  }

  late(request, from, y, colour) {
    const [pen, x, middle] = [this.pen, this.x(request.late), y + (TRACK - 2) / 2];
    pen.fillStyle = colour;
    pen.fillRect(from, middle - 0.5, x - from, 1);
    pen.beginPath();
    [[x - 4, middle], [x, middle - 4], [x + 4, middle], [x, middle + 4]].forEach((point) => pen.lineTo(...point));
    pen.fill();
  }

  // The request under a point, or the nearest one on its track.
  at(x, y) {
    const lane = this.lanes.find((it) => y >= it.top && y < it.top + it.height + LANE_GAP);
    if (!lane) return undefined;
    const track = Math.floor((y - lane.top - 16) / TRACK);
    let best, least = 12;
    for (const request of this.recording.requests) {
      if (request.lane !== lane || this.trackOf(request) !== track) continue;
      const [from, to] = [this.x(request.start), this.x(request.late ?? request.end ?? this.recording.until)];
      const away = Math.max(from - x, x - to, 0);
      if (away < least) [best, least] = [request, away];
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = [event.offsetX, event.offsetX];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      this.drag[1] = event.offsetX;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const [from, to] = (this.drag ?? [0, 0]).toSorted((one, other) => one - other);
      this.drag = undefined;
      if (to - from > 4) this.look(this.time(from), this.time(to));
      else {
        const request = this.at(event.offsetX, event.offsetY);
        if (request) this.chosen(request);
        else this.draw();
      }
    });
    canvas.addEventListener("dblclick", () => this.look(...this.whole));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(event.offsetX));
    }, { passive: false });
  }
}

