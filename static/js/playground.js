// The playground: sends one prompt, shows the stream as it comes, and measures it in the browser.
import { announce, figures, latency, toast } from "./app.js";

const form = document.getElementById("play");
const answer = document.getElementById("answer");
const state = document.getElementById("play-state");
const errorLine = document.getElementById("play-error");
const send = document.getElementById("play-send");
const stop = document.getElementById("play-stop");
let running = null;

function stat(name, text) {
  document.querySelector(`[data-stat="${name}"]`).textContent = text;
}

function asked() {
  const data = new FormData(form);
  return {
    profile: data.get("profile"),
    system: data.get("system"),
    prompt: data.get("prompt"),
    temperature: Number(data.get("temperature")),
    max_tokens: Number(data.get("max_tokens")),
  };
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  begin();
  const start = performance.now();
  const marks = [];
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": new FormData(form).get("csrfmiddlewaretoken") },
      body: JSON.stringify(asked()),
      signal: running.signal,
    });
    showHeaders(response.headers, response.status);
    if (!response.ok) throw new Error(await refusal(response));
    const end = await read(response.body, (text) => {
      marks.push(performance.now());
      answer.append(text);
      measure(start, marks);
    });
    finish(start, marks, end);
  } catch (error) {
    if (error.name === "AbortError") state.textContent = "Stopped by you";
    else fail(error.message);
  } finally {
    answer.setAttribute("aria-busy", "false");
    send.disabled = false;
    stop.hidden = true;
    running = null;
  }
});

stop.addEventListener("click", () => running?.abort());

function begin() {
  answer.textContent = "";
  answer.setAttribute("aria-busy", "true");
  errorLine.hidden = true;
  state.textContent = "Waiting for the first token";
  send.disabled = true;
  stop.hidden = false;
  for (const name of ["ttft", "itl", "tps", "tokens", "e2e"]) stat(name, "–");
}

/** Reads server-sent events; calls `onText` for each piece of the answer. Returns usage and finish reason. */
async function read(body, onText) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const end = { usage: null, finish: null, done: false };
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest += value;
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const text of events) event(text, end, onText);
  }
  return end;
}

function event(text, end, onText) {
  for (const line of text.split(/\r?\n/)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") {
      end.done = true;
      continue;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) onText(choice.delta.content);
    if (choice?.finish_reason) end.finish = choice.finish_reason;
    if (chunk.usage) end.usage = chunk.usage;
  }
}

function measure(start, marks) {
  if (marks.length === 1) {
    stat("ttft", latency((marks[0] - start) / 1000));
    state.textContent = "Streaming";
    return;
  }
  const span = (marks.at(-1) - marks[0]) / 1000;
  stat("itl", latency(span / (marks.length - 1)));
  if (span > 0) stat("tps", figures((marks.length - 1) / span));
}

function finish(start, marks, end) {
  stat("e2e", latency((performance.now() - start) / 1000));
  if (end.usage) {
    stat("tokens", String(end.usage.completion_tokens));
    stat("prompt", `${end.usage.prompt_tokens} in the prompt`);
  } else {
    stat("tokens", String(marks.length));
  }
  if (!end.done) {
    fail("The stream ended early: the answer is not whole.");
    return;
  }
  state.textContent = end.finish === "length" ? "Whole, cut at the token limit" : "Whole";
  announce("The answer is whole");
}

function fail(message) {
  state.textContent = "Refused";
  errorLine.textContent = message;
  errorLine.hidden = false;
}

async function refusal(response) {
  const text = await response.text();
  const wait = response.headers.get("retry-after");
  const later = wait ? ` Try again in ${wait} s.` : "";
  try {
    const body = JSON.parse(text);
    return `${response.status}: ${body.error.message}${later}`;
  } catch {
    return `${response.status}: the server gave no reason.${later}`;
  }
}

function showHeaders(headers, status) {
  const list = document.getElementById("play-headers");
  const rows = [["status", String(status)]];
  for (const [name, value] of headers) if (name.startsWith("x-forebay-") || name === "x-request-id") rows.push([name, value]);
  list.replaceChildren(
    ...rows.flatMap(([name, value]) => {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      dd.className = "mono";
      return [dt, dd];
    }),
  );
}

document.getElementById("play-curl").addEventListener("click", async () => {
  const ask = asked();
  const messages = [{ role: "user", content: ask.prompt }];
  if (ask.system) messages.unshift({ role: "system", content: ask.system });
  const body = { model: ask.profile, messages, temperature: ask.temperature, max_tokens: ask.max_tokens, stream: true };
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const text = `curl -N ${form.dataset.gateway}/v1/chat/completions \\
  -H "Authorization: Bearer $FOREBAY_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '${quoted}'`;
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied; set FOREBAY_API_KEY first");
  } catch {
    toast("The browser refused to copy", "bad");
  }
});
