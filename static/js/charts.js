// Draws the server's figures: token names become the theme's colours, and only what is seen is drawn.

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };
const TOKEN = /^var\((--[\w-]+)\)$/;

/** Returns a copy of a figure with every `var(--token)` replaced by the theme's value. */
export function resolved(value, colours) {
  if (typeof value === "string") {
    const token = TOKEN.exec(value);
    return token ? colours.getPropertyValue(token[1]).trim() : value;
  }
  if (Array.isArray(value)) return value.map((part) => resolved(part, colours));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, resolved(part, colours)]));
}

/** The figures of one page. `show` takes the server's panels; the rest follows theme, scrolling and visibility. */
export class Charts {
  #panels = new Map();
  #seen = new Set();

  constructor(root) {
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const name = entry.target.dataset.panel;
        if (entry.isIntersecting) this.#seen.add(name);
        else this.#seen.delete(name);
        if (entry.isIntersecting) this.#draw(name);
      }
    }, { rootMargin: "100px" });
    for (const element of root.querySelectorAll("[data-panel]")) {
      this.#panels.set(element.dataset.panel, { element, panel: null, drawn: null });
      watcher.observe(element);
    }
    const redraw = () => {
      for (const entry of this.#panels.values()) entry.drawn = null;
      this.#drawSeen();
    };
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme", "data-contrast"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.addEventListener("visibilitychange", () => this.#drawSeen());
  }

  /** Names of the charts whose table is open: only these are asked for. */
  openTables() {
    const open = [...this.#panels.values()].filter(({ element }) => element.querySelector("details").open);
    return open.map(({ element }) => element.dataset.panel);
  }

  /** Takes new panels; draws those on screen, at once if the page is visible, else when it is. */
  show(panels) {
    for (const panel of panels) {
      const entry = this.#panels.get(panel.name);
      if (!entry) continue;
      entry.panel = panel;
      entry.element.querySelector("[data-now]").textContent = panel.now;
      entry.element.querySelector("[data-say]").textContent = panel.say;
      if (panel.table) fill(entry.element.querySelector("table"), panel.table);
    }
    this.#drawSeen();
  }

  #drawSeen() {
    for (const name of this.#seen) this.#draw(name);
  }

  #draw(name) {
    const entry = this.#panels.get(name);
    if (document.hidden || !entry?.panel || entry.drawn === entry.panel || !globalThis.Plotly) return;
    entry.drawn = entry.panel;
    const figure = resolved(entry.panel.figure, getComputedStyle(document.documentElement));
    globalThis.Plotly.react(entry.element.querySelector("[data-chart]"), figure.data, figure.layout, CONFIG);
  }
}

function fill(table, { head, rows }) {
  const cells = (tag, scope, texts) => texts.map((text, i) => {
    const cell = document.createElement(i === 0 ? "th" : tag);
    if (i === 0 || tag === "th") cell.scope = i === 0 && scope === "row" ? "row" : "col";
    cell.textContent = text;
    return cell;
  });
  const row = (tag, scope, texts) => {
    const line = document.createElement("tr");
    line.append(...cells(tag, scope, texts));
    return line;
  };
  table.tHead.replaceChildren(row("th", "col", head));
  table.tBodies[0].replaceChildren(...rows.map((texts) => row("td", "row", texts)));
}
