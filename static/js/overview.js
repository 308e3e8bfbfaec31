// Fills the overview's figures of the last minute: rebuilt from REST, moved by the live socket.
import { figures, latency } from "./app.js";

const REBUILD_MS = 15000;
const MOST_TOPICS = 20;
const FIRM_SAMPLES = 500;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15000;
const known = new Map();

const rows = () => [...document.querySelectorAll("[data-profile]")];

function dollars(value) {
  if (value === null || value === undefined) return "no price";
  return `$${value > 0 && value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`;
}

/** A P99 of few samples is hardly more than their maximum, so it says of how many. */
function few(count) {
  const note = document.createElement("span");
  note.className = "sub xs ink3";
  note.textContent = `of ${count} ${count === 1 ? "sample" : "samples"}`;
  return note;
}

function fill() {
  for (const row of rows()) {
    const now = known.get(row.dataset.profile);
    if (!now) continue;
    const ttft = now.ttft?.p99 ?? null;
    const promise = Number(row.dataset.promise || 0) / 1000;
    const cell = row.querySelector('[data-value="ttft"]');
    cell.textContent = ttft === null ? "No traffic" : latency(ttft);
    if (ttft !== null && now.ttft.count < FIRM_SAMPLES) cell.append(few(now.ttft.count));
    cell.classList.toggle("bad", ttft !== null && promise > 0 && ttft > promise);
    row.querySelector('[data-value="rps"]').textContent = figures(now.requests_per_second ?? 0);
    row.querySelector('[data-value="cost"]').textContent = dollars(now.cost_per_minute);
  }
}

async function rebuild() {
  if (document.hidden) return;
  await Promise.allSettled(
    rows().map(async (row) => {
      const name = row.dataset.profile;
      const response = await fetch(`/api/v1/live/${encodeURIComponent(name)}/?minutes=1`);
      if (response.ok) known.set(name, (await response.json()).now);
    }),
  );
  fill();
}

/** Keeps a socket open; a frame that is missed is made good by the next rebuild. */
function listen(retry = FIRST_RETRY_MS) {
  const topics = rows().slice(0, MOST_TOPICS).map((row) => `profile:${row.dataset.profile}`);
  if (!topics.length) return;
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/ws/live/?topics=${encodeURIComponent(topics.join(","))}`);
  let wait = retry;
  socket.addEventListener("open", () => (wait = FIRST_RETRY_MS));
  socket.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    if (message.type !== "frame") return;
    known.set(message.topic.replace("profile:", ""), message.data);
    if (!document.hidden) fill();
  });
  socket.addEventListener("close", () => {
    setTimeout(() => listen(Math.min(wait * 2, LAST_RETRY_MS)), wait * (0.5 + Math.random()));
  });
}

document.addEventListener("htmx:after:swap", fill);
rebuild();
setInterval(rebuild, REBUILD_MS);
listen();
