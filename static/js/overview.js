// Fills the overview's figures of the last minute from REST; the page itself is refreshed by htmx.
import { figures, latency } from "./app.js";

const EVERY_MS = 5000;
const known = new Map();

function dollars(value) {
  return value === null || value === undefined ? "no price" : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`;
}

/** The newest values of one profile: {ttft, rps, cost}, each null where nothing was measured. */
async function newest(profile) {
  const response = await fetch(`/api/v1/live/${encodeURIComponent(profile)}/?minutes=1`);
  if (!response.ok) return null;
  const body = await response.json();
  return body.now ?? body.latest ?? null;
}

function fill() {
  for (const row of document.querySelectorAll("[data-profile]")) {
    const now = known.get(row.dataset.profile);
    if (!now) continue;
    const ttft = now.ttft?.p99 ?? null;
    const cell = row.querySelector('[data-value="ttft"]');
    cell.textContent = ttft === null ? "No traffic" : latency(ttft);
    const promise = Number(row.dataset.promise || 0) / 1000;
    cell.classList.toggle("bad", ttft !== null && promise > 0 && ttft > promise);
    row.querySelector('[data-value="rps"]').textContent = figures(now.requests_per_second ?? 0);
    row.querySelector('[data-value="cost"]').textContent = dollars(now.cost_per_minute);
  }
}

async function refresh() {
  if (document.hidden) return;
  const names = [...document.querySelectorAll("[data-profile]")].map((row) => row.dataset.profile);
  await Promise.allSettled(
    names.map(async (name) => {
      const now = await newest(name);
      if (now) known.set(name, now);
    }),
  );
  fill();
}

document.addEventListener("htmx:after:swap", fill);
refresh();
setInterval(refresh, EVERY_MS);
