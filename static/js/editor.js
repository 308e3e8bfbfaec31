// The profile editor: marks fields as the server's check says, finds settings, filters them.
import { announce } from "./app.js";

const form = document.getElementById("spec-form");
const find = document.getElementById("find");
let said = "";

/** What the last check said of each field: problems, and the value that it departs from. */
function check() {
  return JSON.parse(document.getElementById("check-data").textContent);
}

function mark() {
  const fields = check();
  let problems = 0;
  for (const [path, row] of Object.entries(fields)) {
    const box = form.querySelector(`[data-field="${CSS.escape(path)}"]`);
    if (!box) continue;
    problems += row.problems.length;
    box.classList.toggle("invalid", row.problems.length > 0);
    box.classList.toggle("changed", row.was !== null);
    const line = box.querySelector("[data-problem]");
    line.textContent = row.problems.join(" ");
    line.hidden = row.problems.length === 0;
    const was = box.querySelector("[data-was]");
    was.hidden = row.was === null;
    if (row.was !== null) was.firstElementChild.textContent = `was ${row.was || "empty"}`;
    const control = box.querySelector("input:not([type=hidden]), select, textarea");
    if (row.problems.length) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  count();
  const text = problems ? `${problems} problem${problems === 1 ? "" : "s"}` : "No problem";
  document.getElementById("sticky-says").textContent = text;
  if (said && said !== text) announce(text);
  said = text;
  filter();
}

function count() {
  for (const section of form.querySelectorAll(".sect")) {
    const tag = section.querySelector("[data-count]");
    if (!tag) continue;
    const changed = section.querySelectorAll(".field.changed").length;
    tag.hidden = changed === 0;
    tag.textContent = `${changed} changed`;
  }
}

function filter() {
  const words = find.value.trim().toLowerCase();
  const show = form.querySelector("[name=show]:checked").value;
  const onCpu = form.elements["compute.accelerator"].value === "cpu";
  for (const box of form.querySelectorAll(".field")) {
    const hit = !words || (box.dataset.words ?? box.dataset.field).includes(words);
    const kept = show === "all" || (show === "changed" ? box.classList.contains("changed") : box.classList.contains("invalid"));
    const idle = "gpuOnly" in box.dataset && onCpu && !box.matches(".invalid, .changed");
    box.hidden = !(hit && kept) || idle;
  }
  arrange(!words && show === "all");
}

/** Opens what holds a hit and closes the rest; `rest` puts every section back to how the person had it. */
function arrange(rest) {
  for (const section of form.querySelectorAll("details")) {
    if (!rest) {
      section.dataset.open ??= String(section.open);
      section.open = section.querySelector(".field:not([hidden])") !== null;
    } else if (section.dataset.open) {
      section.open = section.dataset.open === "true";
      delete section.dataset.open;
    }
  }
}

find.addEventListener("input", (event) => {
  event.stopPropagation();
  filter();
});
for (const radio of form.querySelectorAll("[name=show]")) {
  radio.addEventListener("change", (event) => {
    event.stopPropagation();
    filter();
  });
}

document.addEventListener("htmx:after:swap", mark);

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-goto]");
  if (!link) return;
  const box = form.querySelector(`[data-field="${CSS.escape(link.dataset.goto)}"]`);
  if (!box) return;
  event.preventDefault();
  for (let details = box.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
  box.querySelector("input:not([type=hidden]), select, textarea").focus();
});

form.elements["compute.accelerator"].addEventListener("change", filter);

// A change is lost when the page is left; say so once, unless it is being stored.
let dirty = false;
form.addEventListener("input", () => (dirty = true));
form.addEventListener("submit", () => (dirty = false));
addEventListener("beforeunload", (event) => {
  if (dirty) event.preventDefault();
});
count();
filter();
