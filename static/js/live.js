// The live pages: a socket that only hints, REST that every number is rebuilt from, and a mark that says which.
import { announce, glyph } from "./app.js";
import { Charts } from "./charts.js";

const NO_DATA = "no data";
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15000;
const STALE_MS = 5000;
const LEAST_FETCH_MS = 2000;
const SOLID_SAMPLES = 500;

// ---------- numbers as the server writes them (monitoring/words.py)

function three(value) {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

const missing = (value) => value === null || value === undefined;

function span(seconds) {
  if (missing(seconds)) return NO_DATA;
  if (seconds < 0.9995) return `${three(seconds * 1000)} ms`;
  if (seconds < 60) return `${three(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

function number(value) {
  if (missing(value)) return NO_DATA;
  for (const [limit, suffix] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (Math.abs(value) >= limit) return three(value / limit) + suffix;
  }
  return three(value);
}

const count = (value) => (missing(value) ? NO_DATA : Math.round(value).toLocaleString("en-US"));
const share = (value) => (missing(value) ? NO_DATA : `${three(value * 100)} %`);

function money(value) {
  if (missing(value)) return "no price row";
  const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return value >= 1 ? `$${value.toLocaleString("en-US", cents)}` : `$${three(value)}`;
}

/** Texts of a frame's data by stat key: [value, note]; a null note leaves the old one. */
function texts(data) {
  const found = new Map();
  for (const name of ["ttft", "e2e"]) {
    const few = data[name].count < SOLID_SAMPLES && data[name].count > 0;
    for (const q of ["p50", "p95", "p99"]) {
      const note = `of ${count(data[name].count)} samples`;
      found.set(`${name}.${q}`, [span(data[name][q]), few && q === "p99" ? `${note}, few` : note]);
    }
    found.set(`${name}.count`, [count(data[name].count), null]);
  }
  found.set("requests_per_second", [number(data.requests_per_second), `${number(data.errors_per_second)} failed a second`]);
  found.set("tokens_per_second", [number(data.tokens_per_second), null]);
  found.set("cost_per_minute", [money(data.cost_per_minute), missing(data.busy_share) ? "nothing held" : `${share(data.busy_share)} of the time busy`]);
  found.set("streamed", [share(data.ttft.streamed_share), null]);
  const { running, waiting, kv_usage: kv, age } = data.engine;
  const old = !missing(age) && age * 1000 > STALE_MS ? `stale ${span(age)}` : null;
  found.set("engine.queue", [missing(running) ? NO_DATA : `${number(running)} + ${number(waiting)}`, old ?? "from the engine's own metrics"]);
  found.set("engine.kv", [share(kv), old ?? "fullest replica"]);
  return found;
}

function write(root, data) {
  const found = texts(data);
  for (const element of root.querySelectorAll("[data-stat]")) {
    const text = found.get(element.dataset.stat)?.[0];
    if (text !== undefined && element.textContent !== text) element.textContent = text;
  }
  for (const element of root.querySelectorAll("[data-note]")) {
    const note = found.get(element.dataset.note)?.[1];
    if (note !== undefined && note !== null) element.textContent = note;
  }
}

// ---------- the mark

class Mark {
  #element = document.getElementById("live-mark");
  #state = "";

  set(state, text) {
    if (!this.#element) return;
    this.#element.textContent = text;
    if (this.#state === state) return;
    if (this.#state) announce(text);
    this.#state = state;
    this.#element.dataset.state = state;
  }
}

// ---------- the socket

/** Keeps one websocket open for ever. Calls `onFrame(frame)`, and `onGap()` when frames may have been missed. */
class Feed {
  #topics;
  #onFrame;
  #onGap;
  #seen = new Map();
  #socket = null;
  #retry = FIRST_RETRY_MS;
  #broker = false;
  lastFrame = performance.now();

  constructor({ topics, onFrame, onGap }) {
    this.#topics = topics;
    this.#onFrame = onFrame;
    this.#onGap = onGap;
    this.#open();
    addEventListener("online", () => this.#socket?.readyState === WebSocket.CLOSED && this.#open());
  }

  /** Whether the socket is open and the server hears the broker. */
  get connected() {
    return this.#socket?.readyState === WebSocket.OPEN && this.#broker;
  }

  #open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws/live/?topics=${encodeURIComponent(this.#topics)}`);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#retry = FIRST_RETRY_MS;
      this.#seen.clear();
      this.#onGap();
    });
    socket.addEventListener("message", (event) => this.#take(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      if (this.#socket !== socket) return;
      this.#broker = false;
      // Jitter: after a restart of the server not every screen comes back at once.
      setTimeout(() => this.#socket === socket && this.#open(), this.#retry * (0.5 + Math.random()));
      this.#retry = Math.min(this.#retry * 2, LAST_RETRY_MS);
    });
  }

  #take(message) {
    if (message.type === "frame") this.#frame(message);
    else if (message.type === "heartbeat") this.#heartbeat(message);
    else if (message.type === "broker") this.#turn(message.up);
  }

  #turn(up) {
    if (up && !this.#broker) this.#onGap();
    this.#broker = up;
  }

  #frame(frame) {
    this.#broker = true;
    const last = this.#seen.get(frame.topic);
    this.#seen.set(frame.topic, { generation: frame.generation, seq: frame.seq });
    this.lastFrame = performance.now();
    if (last && (last.generation !== frame.generation || last.seq + 1 !== frame.seq)) this.#onGap();
    this.#onFrame(frame);
  }

  #heartbeat({ streams, generations, broker }) {
    this.#turn(broker);
    for (const [topic, seq] of Object.entries(streams)) {
      const last = this.#seen.get(topic);
      // One behind may be a frame that is on its way.
      if (last && (last.generation !== generations[topic] || last.seq + 1 < seq)) this.#onGap();
    }
  }
}

function watch(feed, mark) {
  const age = performance.now() - feed.lastFrame;
  if (!feed.connected) mark.set("reconnecting", "Reconnecting");
  else if (age > STALE_MS) mark.set("stale", `Stale ${Math.round(age / 1000)} s`);
  else mark.set("live", "Live");
}

// ---------- pages

/** One profile: figures from frames, everything else from REST, at most one fetch and redraw each few seconds. */
class ProfilePage {
  #root;
  #charts;
  #wanted = true;
  #busy = false;
  #paused = false;
  #fetched = -Infinity;
  #framed = -Infinity;
  #every = LEAST_FETCH_MS;
  #verdict = null;

  constructor(root) {
    this.#root = root;
    this.#charts = new Charts(root);
    const pause = document.getElementById("pause");
    pause.addEventListener("click", () => {
      this.#paused = !this.#paused;
      pause.setAttribute("aria-pressed", String(this.#paused));
      pause.textContent = this.#paused ? "Resume" : "Pause";
      if (!this.#paused) this.rebuild();
    });
    for (const details of root.querySelectorAll("details.as-table")) {
      details.addEventListener("toggle", () => details.open && this.#fetch());
    }
    document.addEventListener("visibilitychange", () => !document.hidden && this.rebuild());
  }

  frame(frame) {
    if (document.hidden || this.#paused) return;
    write(this.#root, frame.data);
    this.#say(frame.verdict);
    this.#framed = performance.now();
  }

  rebuild() {
    this.#wanted = true;
  }

  tick() {
    if (document.hidden || this.#paused || this.#busy) return;
    const age = performance.now() - this.#fetched;
    if (age >= this.#every || (this.#wanted && age >= 1000)) this.#fetch();
  }

  async #fetch() {
    if (this.#busy) {
      this.#wanted = true;
      return;
    }
    this.#busy = true;
    this.#wanted = false;
    this.#fetched = performance.now();
    const { api, minutes } = this.#root.dataset;
    try {
      const query = new URLSearchParams({ minutes, tables: this.#charts.openTables().join(",") });
      const answer = await fetch(`${api}?${query}`, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.#show(await answer.json());
    } catch {
      // The mark says so already; the next tick tries again.
      this.#wanted = true;
    } finally {
      this.#busy = false;
    }
  }

  #show(answer) {
    this.#every = Math.max(LEAST_FETCH_MS, answer.step * 1000);
    document.getElementById("step-note").textContent = `One point each ${span(answer.step)}, times in UTC`;
    this.#charts.show(answer.panels);
    // While frames come, the verdict is theirs: it belongs to the figures beside it.
    if (performance.now() - this.#framed > STALE_MS) this.#say(answer.verdict);
    this.#root.dataset.rebuilt = String(Number(this.#root.dataset.rebuilt ?? 0) + 1);
  }

  #say(verdict) {
    const header = document.querySelector(".verdict");
    header.querySelector("h1").textContent = verdict.headline;
    const why = header.querySelector(".verdict-why");
    if (why) why.textContent = verdict.why;
    if (this.#verdict === verdict.state) return;
    const line = header.querySelector(".verdict-state");
    line.className = `verdict-state ${verdict.tone}`;
    line.replaceChildren(glyph(verdict.glyph), verdict.word);
    if (this.#verdict !== null) announce(verdict.headline);
    this.#verdict = verdict.state;
  }
}

/** All profiles side by side: rows keep their place, frames change their figures. */
class ComparePage {
  #rows = new Map();

  constructor(root) {
    for (const row of root.querySelectorAll("[data-row]")) this.#rows.set(row.dataset.row, row);
  }

  frame(frame) {
    const row = this.#rows.get(frame.topic);
    if (row && !document.hidden) write(row, frame.data);
  }

  // Every frame holds the whole last minute: the next one of each profile is the rebuild.
  rebuild() {}

  tick() {}
}

function start() {
  const root = document.getElementById("live");
  if (!root?.dataset.topics) return;
  const page = root.dataset.live === "profile" ? new ProfilePage(root) : new ComparePage(root);
  const mark = new Mark();
  mark.set("reconnecting", "Reconnecting");
  const feed = new Feed({ topics: root.dataset.topics, onFrame: (frame) => page.frame(frame), onGap: () => page.rebuild() });
  setInterval(() => {
    watch(feed, mark);
    page.tick();
  }, 250);
  page.tick();
}

start();
