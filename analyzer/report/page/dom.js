// The data block, elements, and numbers as words. Names from the trace become textContent or text attributes,
// never markup; nothing is loaded and nothing leaves the page.

// Rows come as columns (html.columns): a key's name is written once, a repeated text is a position.
function unpack(table) {
  const columns = Object.entries(table.rows.columns).map(([key, c]) => [
    key,
    c.texts ? c.at.map((i) => c.texts[i]) : c,
  ]);
  const rows = Array.from({ length: table.rows.n }, (_, i) => {
    const row = {};
    for (const [key, values] of columns) row[key] = values[i];
    return row;
  });
  return { ...table, rows };
}

const data = JSON.parse(document.getElementById("data").textContent);
for (const name of ["tasks", "files", "declared"]) data[name] = unpack(data[name]);
let processTable = null;
const processRows = () => {
  processTable = processTable || unpack(data.processes).rows;
  return processTable;
}; // a panel's first need of them
data.tasks.rows.forEach((t, i) => {
  t.index = i;
  t.end = t.start + t.dur;
});

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const BEFORE = "(before the run)",
  UNDECIDED = "(before the run, or another host)",
  LEFT = "(left at the end)",
  UNTAGGED = "(untagged)";
const three = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

function bytesText(amount) {
  let unit = 0;
  while (amount >= 1024 && unit < BYTE_UNITS.length - 1) {
    amount /= 1024;
    unit++;
  }
  return unit ? `${three(amount)} ${BYTE_UNITS[unit]}` : `${Math.round(amount)} B`;
}

function timeText(ms) {
  const s = ms / 1000;
  const both = (of, unit, rest, smaller) =>
    `${Math.floor(of)} ${unit}${Math.floor(rest) ? ` ${Math.floor(rest)} ${smaller}` : ""}`;
  if (s >= 7200) return both(s / 3600, "h", (s % 3600) / 60, "min");
  if (s >= 120) return both(s / 60, "min", s % 60, "s");
  if (s >= 1) return `${three(s)} s`;
  if (ms >= 1) return `${three(ms)} ms`;
  return ms > 0 ? `${three(ms * 1000)} µs` : "0 s";
}

// Cut, not rounded: 100 % means that nothing is missing.
function shareText(share) {
  if (share >= 1) return "100 %";
  const digits = share > 0.999 ? 3 : share > 0.99 || share < 0.1 ? 2 : 1,
    power = 10 ** digits;
  const cut = Math.floor(share * 100 * power) / power;
  return cut || share <= 0 ? `${cut.toFixed(digits)} %` : `< ${1 / power} %`;
}

const numberText = (n) => n.toLocaleString("en");
const count = (n, one, many) => `${numberText(n)} ${n === 1 ? one : many || one + "s"}`;
const stageName = (i) => (i < 0 ? BEFORE : data.stages[i].stage);
const tone = (i) => (i >= 0 && i < 10 && data.stages[i].stage !== UNTAGGED ? i : "other");
// Characters of a name that are invisible or reverse the text beside them become escapes: \n, \x1b, \u202e.
// They are those that Python calls not printable, with Python's escapes, so that the terminal shows the same.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu,
  ESCAPES = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };
const hex = (c, digits) => c.codePointAt(0).toString(16).padStart(digits, "0");
const escaped = (c) =>
  ESCAPES[c] || (c < "\u0100" ? `\\x${hex(c, 2)}` : c.length > 1 ? `\\U${hex(c, 8)}` : `\\u${hex(c, 4)}`);
const shown = (text) => text.replace(UNSEEN, escaped);
const shownLines = (text) => text.split("\n").map(shown).join("\n");
const LONG = 120; // of a name in a table or list; the panel has all of it
const middle = (name, length = LONG) =>
  name.length > length ? `${name.slice(0, length / 2)}…${name.slice(-length / 2 + 1)}` : name;
const short = (name, length) => (name.length > length ? `${name.slice(0, length - 1)}…` : name);

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  element.append(
    ...children
      .flat()
      .filter((c) => c !== null && c !== undefined)
      .map((c) => (typeof c === "string" ? shown(c) : c)),
  );
  return element;
}

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function button(words, act, attributes) {
  const element = make("button", { type: "button", ...attributes }, words);
  element.addEventListener("click", act);
  return element;
}

function swatch(i) {
  const svg = draw(
    "svg",
    { width: 10, height: 10, "aria-hidden": "true" },
    draw("rect", { class: `s${tone(i)}`, width: 10, height: 10, rx: 2 }),
  );
  return make("span", { class: "swatch" }, svg);
}

// Colours as the style has them at this moment, for canvases.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// --- tooltip ------------------------------------------------------------------------------------------------------------

const tip = byId("tip");

function showTip(text, x, y) {
  tip.textContent = shownLines(text);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
}

const hideTip = () => {
  tip.hidden = true;
};
addEventListener("scroll", hideTip, { passive: true, capture: true });

// --- a figure's parts: one tab stop, arrow keys go from part to part, Enter chooses ---------------------------------------------

function part(element, label, choose) {
  fill(element, { tabindex: "-1", role: "button", "aria-label": shown(label.replaceAll("\n", ", ")) }, []);
  element.addEventListener("pointermove", (e) => showTip(label, e.clientX, e.clientY));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) showTip(label, box.left + box.width / 2, box.top + box.height / 2);
  });
  element.addEventListener("blur", hideTip);
  element.addEventListener("click", choose);
  return element;
}

function roving(parts) {
  const go = (from, to) => {
    if (!parts[to]) return;
    parts[from].setAttribute("tabindex", "-1");
    parts[to].setAttribute("tabindex", "0");
    parts[to].focus();
    parts[to].scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  parts.forEach((element, i) => {
    element.setAttribute("tabindex", i ? "-1" : "0");
    element.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      else if (e.key === "ArrowRight" || e.key === "ArrowDown") go(i, i + 1);
      else if (e.key === "ArrowLeft" || e.key === "ArrowUp") go(i, i - 1);
      else if (e.key === "Home") go(i, 0);
      else if (e.key === "End") go(i, parts.length - 1);
      else return;
      e.preventDefault();
    });
  });
}
