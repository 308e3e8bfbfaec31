// The log of one replica: tail, follow or pause, search, first error pinned, download.
const EVERY_MS = 1000;
const KEPT_LINES = 5000;
const LEVELS = [
  [/\b(ERROR|CRITICAL|Traceback|Exception)\b/, "e"],
  [/\bWARN(ING)?\b/, "w"],
];

const panel = document.querySelector("[data-log-panel]");
const view = panel.querySelector(".log");
const list = view.querySelector("ol");
const pick = panel.querySelector("[data-log-pick]");
const search = panel.querySelector("[data-log-search]");
const follow = panel.querySelector("[data-log-follow]");
const part = (name) => panel.querySelector(`[data-log-${name}]`);

let replica = panel.dataset.replica ?? "";
let offset = 0;
let number = 0;
let following = true;
let firstError = null;
let rest = "";
let busy = false;
let run = 0;
let ended = false;

function reset(id) {
  run += 1;
  replica = id;
  offset = number = 0;
  rest = "";
  firstError = null;
  ended = false;
  list.replaceChildren();
  part("pinned").hidden = true;
  part("state").textContent = "Reading";
  tick();
}

async function tick() {
  if (!replica || busy || document.hidden || !following || ended) return;
  busy = true;
  const mine = run;
  try {
    const response = await fetch(`/api/v1/replicas/${replica}/log/?offset=${offset}`);
    const body = await response.json();
    if (mine !== run) return;
    if (response.ok) take(body);
    else part("state").textContent = body.error?.message ?? body.message ?? `The log was refused: ${response.status}`;
  } catch {
    if (mine === run) part("state").textContent = "The log cannot be read now; trying again";
  } finally {
    busy = false;
    if (mine !== run) tick();
  }
}

/** Adds what a read brought: `text` from the old offset, `next_offset` to read on from. */
function take(body) {
  if (body.rotated) return reset(replica);
  offset = body.next_offset;
  const lines = (rest + body.text).split("\n");
  rest = lines.pop();
  const rows = lines.map(row);
  list.append(...rows);
  while (list.childElementCount > KEPT_LINES) list.firstElementChild.remove();
  ended = body.ended;
  part("state").textContent = ended ? "Ended" : "Following";
  part("count").textContent = number ? `${number.toLocaleString("en-US")} lines` : "The log is empty";
  if (rows.length && search.value) find();
  if (rows.length) view.scrollTop = view.scrollHeight;
}

function row(text) {
  number += 1;
  const item = document.createElement("li");
  const count = document.createElement("span");
  const line = document.createElement("span");
  item.id = `L${number}`;
  count.className = "ln";
  count.textContent = String(number);
  line.textContent = text;
  item.append(count, line);
  const level = LEVELS.find(([pattern]) => pattern.test(text));
  if (level) item.className = level[1];
  if (level?.[1] === "e" && firstError === null) pin(number, text);
  return item;
}

function pin(line, text) {
  firstError = line;
  part("error").textContent = text;
  part("goto").textContent = `Line ${line}`;
  part("pinned").hidden = false;
}

function setFollow(on) {
  following = on;
  follow.setAttribute("aria-pressed", String(on));
  follow.setAttribute("aria-label", on ? "Pause following" : "Follow the log");
  part("state").textContent = !on ? "Paused" : ended ? "Ended" : "Following";
  if (on) tick();
}

function find() {
  const words = search.value.trim().toLowerCase();
  let hits = 0;
  for (const item of list.children) {
    const line = item.lastElementChild;
    const text = line.textContent;
    const at = words ? text.toLowerCase().indexOf(words) : -1;
    item.hidden = Boolean(words) && at < 0;
    if (at < 0) {
      line.textContent = text;
      continue;
    }
    hits += 1;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(at, at + words.length);
    line.replaceChildren(text.slice(0, at), mark, text.slice(at + words.length));
  }
  part("matches").textContent = words ? `${hits} lines` : "";
}

follow.addEventListener("click", () => setFollow(!following));
search.addEventListener("input", find);
pick?.addEventListener("change", () => reset(pick.value));
part("goto").addEventListener("click", () => {
  setFollow(false);
  search.value = "";
  find();
  document.getElementById(`L${firstError}`)?.scrollIntoView({ block: "center" });
});
part("download").addEventListener("click", () => {
  if (replica) location.assign(`/api/v1/replicas/${replica}/log/download/`);
});
// Scrolling up pauses; the end of the log follows again.
view.addEventListener("wheel", (event) => {
  if (event.deltaY < 0 && following) setFollow(false);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-log]");
  if (!link) return;
  if (pick && [...pick.options].some((option) => option.value === link.dataset.log)) pick.value = link.dataset.log;
  setFollow(true);
  reset(link.dataset.log);
});

// A dialog says how many requests its button would touch, as the engine reports them now.
document.addEventListener("click", async (event) => {
  const opener = event.target.closest("[data-dialog]");
  const place = opener && document.getElementById(opener.dataset.dialog)?.querySelector("[data-in-flight]");
  if (!place) return;
  try {
    const response = await fetch(`/api/v1/live/${place.dataset.inFlight}/?minutes=1`);
    const body = await response.json();
    const running = (body.now ?? body.latest)?.engine?.running;
    if (running !== null && running !== undefined) place.textContent = `${running} request${running === 1 ? "" : "s"} in flight`;
  } catch {
    place.textContent = "Requests in flight";
  }
});

if (replica) tick();
setInterval(tick, EVERY_MS);
