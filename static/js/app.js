// What every page shares: theme, navigation at 390 px, dialogs, copy buttons, menus, toasts.

const root = document.documentElement;

function isDark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// The theme is a cookie that the server reads, so that the first paint is right. The form works without this script.
for (const form of document.querySelectorAll("[data-theme-form]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const theme = isDark() ? "light" : "dark";
    root.dataset.theme = theme;
    const body = new FormData(form);
    body.set("theme", theme);
    fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => toast("The theme could not be saved", "bad"));
    document.dispatchEvent(new CustomEvent("forebay:theme", { detail: { theme } }));
  });
}

for (const button of document.querySelectorAll("[data-nav-toggle]")) {
  const set = (open) => {
    if (open) root.dataset.nav = "open";
    else delete root.dataset.nav;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => set(root.dataset.nav !== "open"));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || root.dataset.nav !== "open") return;
    set(false);
    button.focus();
  });
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
});

// Dialogs: data-dialog names one to open; the browser returns the focus when it closes.
addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
  const closer = event.target.closest("[data-dialog-close]");
  if (closer) closer.closest("dialog")?.close();
});

// Copy buttons: data-copy is the text, data-copy-from the id of the element that holds it.
addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  const source = button.dataset.copyFrom ? document.getElementById(button.dataset.copyFrom) : null;
  const lines = source ? [...source.querySelectorAll(".l")].map((line) => line.textContent) : [];
  const text = button.dataset.copy ?? (lines.length ? lines.join("\n") : source?.textContent ?? "");
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser refused to copy; select the text instead", "bad");
  }
});

// A form that submits itself when a choice in it changes.
addEventListener("change", (event) => {
  const form = event.target.closest("form[data-autosubmit]");
  if (form) form.requestSubmit();
});

/** Shows a short note at the bottom left for 8 s; it stays while it is hovered or focused. */
export function toast(text, tone = "ok") {
  const box = document.createElement("div");
  box.className = "toast";
  const line = document.createElement("p");
  line.textContent = text;
  box.append(glyph(tone === "bad" ? "bad" : "done", tone), line);
  document.getElementById("toasts").append(box);
  const expire = () => (box.matches(":hover, :focus-within") ? setTimeout(expire, 2000) : box.remove());
  setTimeout(expire, 8000);
}

/** A state glyph of the sprite. */
export function glyph(name, tone = "") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `g ${tone}`);
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#g-${name}`);
  svg.append(use);
  return svg;
}

/** Says one sentence to screen readers; for changes of state only. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** Seconds as people read them: 612 ms, 1.12 s. Null is a word. */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "not measured";
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(2)} s`;
}

/** Three significant figures. */
export function figures(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en-US", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}

// Parts that the server redraws: data-tick is the period in ms. Nothing is asked while the page is hidden.
const mark = document.getElementById("live-mark");
let lastGood = 0;
for (const part of document.querySelectorAll("[data-tick]")) {
  setInterval(() => {
    if (!document.hidden && !document.querySelector("dialog[open]")) part.dispatchEvent(new CustomEvent("tick"));
  }, Number(part.dataset.tick));
  part.addEventListener("htmx:after:swap", () => {
    lastGood = Date.now();
    says("live", "Live");
  });
  part.addEventListener("htmx:error", () => says("reconnecting", "Reconnecting"));
  part.addEventListener("htmx:response:error", () => says("reconnecting", "Reconnecting"));
  setInterval(() => {
    const age = Math.round((Date.now() - lastGood) / 1000);
    if (lastGood && !document.hidden && age > 15 && !document.querySelector("dialog[open]")) says("stale", `Stale ${age} s`);
  }, 1000);
}

function says(state, text) {
  if (mark.dataset.state !== state || mark.textContent !== text) {
    mark.dataset.state = state;
    mark.textContent = text;
  }
}

// A state that changed is said once.
let headline = document.querySelector("[data-announce]")?.dataset.announce;
document.addEventListener("htmx:after:swap", () => {
  const now = document.querySelector("[data-announce]")?.dataset.announce;
  if (now && now !== headline) announce(now);
  headline = now;
});
