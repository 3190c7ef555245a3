// The page of a run: reads the data block, draws the dataflow and the timeline as SVG and the tables as DOM. Every name goes in through
// textContent or setAttribute on attributes that hold text, never as markup; nothing is loaded and nothing leaves the page.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const three = v => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);

function bytesText(amount) {
  let unit = 0;
  while (amount >= 1024 && unit < BYTE_UNITS.length - 1) { amount /= 1024; unit++; }
  return unit ? `${three(amount)} ${BYTE_UNITS[unit]}` : `${amount} B`;
}

function timeText(ms) {
  const s = ms / 1000;
  if (s >= 7200) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  if (s >= 120) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s >= 1) return `${three(s)} s`;
  if (ms >= 1) return `${three(ms)} ms`;
  return ms > 0 ? `${three(ms * 1000)} µs` : "0 s";
}

const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many || one + "s"}`;
const stageName = i => i < 0 ? "(before the run)" : data.stages[i].stage;
const tone = i => i >= 0 && i < 10 && data.stages[i].stage !== "(untagged)" ? i : "other";

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children.filter(c => c !== null && c !== undefined));
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// --- tooltip and selection --------------------------------------------------------------------------------------------

const tip = byId("tip");

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
}

const hideTip = () => { tip.hidden = true; };

// A figure's part that can be hovered, focused and chosen.
function part(element, label, choose) {
  element.setAttribute("tabindex", "0");
  element.setAttribute("role", "button");
  element.setAttribute("aria-label", label.replaceAll("\n", ", "));
  element.addEventListener("pointermove", e => showTip(label, e.clientX, e.clientY));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) showTip(label, box.left + box.width / 2, box.top + box.height / 2);
  });
  element.addEventListener("blur", hideTip);
  const act = () => { select(element); choose(); };
  element.addEventListener("click", act);
  element.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); act(); } });
  return element;
}

function select(...elements) {
  const figure = byId("sankey");
  for (const old of figure.querySelectorAll(".on")) old.classList.remove("on");
  for (const element of elements) element.classList.add("on");
}

addEventListener("keydown", e => {
  if (e.key !== "Escape") return;
  hideTip();
  select();
  byId("sankey").classList.remove("dim");
  byId("details").replaceChildren();
});

// --- header -------------------------------------------------------------------------------------------------------------

function header() {
  const a = data.about, n = data.numbers;
  byId("title").textContent = a.title || a.directory;
  byId("run-id").textContent = a.run_id ? `run ${a.run_id}` : "";
  const created = a.created.replace("T", " ").replace(/\.\d+/, "").replace(/Z$|\+00:00$/, " UTC");
  byId("about").textContent = [created, a.host && `on ${a.host}`, a.user && `by ${a.user}`, a.directory].filter(Boolean).join(" · ");
  const numbers = [
    ["Stages", n.stages.toLocaleString("en")], ["Tasks", n.tasks.toLocaleString("en")],
    ["Processes", n.processes.toLocaleString("en"), n.hosts > 1 ? `on ${n.hosts} hosts` : ""],
    ["Read", bytesText(n.read_bytes)], ["Written", bytesText(n.written_bytes)], ["Wall time", timeText(n.span_ms)],
    ["I/O running", `${(100 * n.io_share).toFixed(n.io_share < .1 ? 1 : 0)} %`, timeText(n.io_ms)],
    ["Data files", n.files.toLocaleString("en")],
  ];
  byId("numbers").append(...numbers.map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, ` ${more}`) : null))));
  byId("coverage").append(make("p", {}, data.coverage.text), ...data.losses.map(l => make("p", {class: "lost"}, `Lost: ${l.text}`)));
  for (const section of document.querySelectorAll("main > section:not([hidden])"))
    byId("sections").append(make("a", {href: `#${section.id}`}, section.querySelector("h2").textContent));
}

// --- dataflow: a layered Sankey diagram -------------------------------------------------------------------------------------

// Stages in an order with little going backwards (greedy: Eades, Lin, Smyth 1993): sources first, sinks last, ties by time.
function forwardOrder(size, links) {
  const rest = new Set(Array.from({length: size}, (_, i) => i)), head = [], tail = [];
  const sum = (i, end, other) => links.reduce((s, l) => l[end] === i && l[other] !== i && rest.has(l[other]) ? s + l.bytes + 1 : s, 0);
  while (rest.size) {
    const nodes = [...rest];
    const sink = nodes.findLast(i => !sum(i, "source", "target") && sum(i, "target", "source"));
    if (sink !== undefined) { tail.unshift(sink); rest.delete(sink); continue; }
    const source = nodes.find(i => !sum(i, "target", "source"));
    const next = source ?? nodes.reduce((best, i) =>
      sum(i, "source", "target") - sum(i, "target", "source") > sum(best, "source", "target") - sum(best, "target", "source") ? i : best);
    head.push(next);
    rest.delete(next);
  }
  return [...head, ...tail];
}

function layers(size, links) {
  const order = forwardOrder(size, links), place = [];
  order.forEach((node, i) => { place[node] = i; });
  const layer = new Array(size).fill(0);
  for (const node of order)
    for (const l of links) if (l.source === node && place[l.target] > place[node]) layer[l.target] = Math.max(layer[l.target], layer[node] + 1);
  // a stage that nothing feeds stands just before its first consumer
  for (const node of [...order].reverse()) {
    const after = links.filter(l => l.source === node && place[l.target] > place[node]).map(l => layer[l.target]);
    if (after.length && !links.some(l => l.target === node && place[l.source] < place[node])) layer[node] = Math.min(...after) - 1;
  }
  return {layer, forward: l => place[l.target] > place[l.source]};
}

const GAP = 46, DUMMY_GAP = 16, BAR = 16, STUB = 44;

// Nodes with y and height per column; a link over several columns passes through a dummy node in each.
function layout(width) {
  const links = data.flows.filter(f => f.source >= 0 && f.target >= 0).map(f => ({...f}));
  const {layer, forward} = layers(data.stages.length, links);
  const stubs = end => data.flows.filter(f => f[end] < 0);
  const columns = Array.from({length: Math.max(0, ...layer) + 1}, () => []);
  const nodes = data.stages.map((s, i) => ({stage: i, layer: layer[i], in: [], out: [], left: null, right: null}));
  for (const f of stubs("source")) nodes[f.target].left = {...f};
  for (const f of stubs("target")) nodes[f.source].right = {...f};
  nodes.forEach(n => columns[n.layer].push(n));
  for (const l of links) {
    l.kind = l.source === l.target ? "self" : forward(l) ? "forward" : "back";
    if (l.kind !== "forward") continue;
    l.chain = [nodes[l.source]];
    for (let c = layer[l.source] + 1; c < layer[l.target]; c++) {
      const dummy = {dummy: true, layer: c, link: l};
      columns[c].push(dummy);
      l.chain.push(dummy);
    }
    l.chain.push(nodes[l.target]);
    nodes[l.source].out.push(l);
    nodes[l.target].in.push(l);
  }
  const used = n => n.dummy ? n.link.bytes : Math.max(
    n.in.reduce((s, l) => s + l.bytes, n.left ? n.left.bytes : 0), n.out.reduce((s, l) => s + l.bytes, n.right ? n.right.bytes : 0));
  const most = Math.max(1, ...columns.map(c => c.reduce((s, n) => s + used(n), 0)));
  const scale = 230 / most, thick = f => Math.max(1.5, f.bytes * scale);
  for (const l of links) l.width = thick(l);
  for (const n of nodes) {
    for (const stub of [n.left, n.right]) if (stub) stub.width = thick(stub);
    const side = (ls, stub) => ls.reduce((s, l) => s + l.width, stub ? stub.width : 0);
    n.height = Math.max(12, side(n.in, n.left), side(n.out, n.right));
  }
  for (const c of columns) for (const n of c) if (n.dummy) n.height = n.link.width;
  place(columns, links);
  const step = columns.length > 1 ? Math.max(170, (width - 2 * STUB - 40) / (columns.length - 1)) : 0;
  columns.forEach((c, i) => c.forEach(n => { n.x = STUB + 8 + i * step; }));
  return {nodes, links, columns, step};
}

// Orders each column by its neighbours' places and pulls nodes towards them, keeping gaps; a few sweeps are enough.
function place(columns, links) {
  const near = new Map();
  const join = (a, b, w) => { if (!near.has(a)) near.set(a, []); near.get(a).push([b, w]); };
  for (const l of links) if (l.kind === "forward") for (let i = 1; i < l.chain.length; i++) {
    join(l.chain[i - 1], l.chain[i], l.width);
    join(l.chain[i], l.chain[i - 1], l.width);
  }
  for (const c of columns) c.sort((a, b) => near.has(b) - near.has(a));  // what has no flows stands below what has some
  const gap = n => n.dummy ? DUMMY_GAP : GAP;
  const stack = c => { let y = 0; for (const n of c) { y += gap(n); n.y = y; y += n.height; } return y; };
  const height = Math.max(...columns.map(stack));
  for (const c of columns) { const shift = (height - stack(c)) / 2; for (const n of c) n.y += shift; }
  const wish = (n, side) => {
    const all = (near.get(n) || []).filter(([m]) => side === 0 || Math.sign(m.layer - n.layer) === side);
    const sum = all.reduce((s, [, w]) => s + w, 0);
    return sum ? all.reduce((s, [m, w]) => s + w * (m.y + m.height / 2), 0) / sum - n.height / 2 : n.y;
  };
  for (let sweep = 0; sweep < 24; sweep++) {
    const side = sweep < 18 ? (sweep % 2 ? 1 : -1) : 0;
    for (const c of side > 0 ? [...columns].reverse() : columns) {
      for (const n of c) n.want = wish(n, side);
      if (sweep < 18) c.sort((a, b) => near.has(b) - near.has(a) || a.want + a.height / 2 - b.want - b.height / 2);
      let y = 0;
      for (const n of c) { n.y = Math.max(n.want, y + gap(n)); y = n.y + n.height; }
      let over = Math.max(0, y - height);
      for (const n of [...c].reverse()) { if (over <= 0) break; n.y -= over; const above = c[c.indexOf(n) - 1]; over = above ? Math.max(0, above.y + above.height + gap(n) - n.y) : 0; }
    }
  }
  const top = Math.min(...columns.flat().map(n => n.y - gap(n)));
  for (const n of columns.flat()) n.y -= top;
}

// Where each link leaves and enters: sorted by the other end, the stubs last.
function ports(nodes) {
  for (const n of nodes) {
    const fill = (links, stub, next, key) => {
      const size = links.reduce((s, l) => s + l.width, stub ? stub.width : 0);
      let y = n.y + (n.height - size) / 2;
      for (const l of [...links].sort((a, b) => next(a) - next(b))) { l[key] = y + l.width / 2; y += l.width; }
      if (stub) stub.y = y + stub.width / 2;
    };
    const middle = m => m.y + m.height / 2;
    fill(n.out, n.right, l => middle(l.chain[1]), "from");
    fill(n.in, n.left, l => middle(l.chain[l.chain.length - 2]), "to");
  }
}

function ribbonPath(l) {
  let x = l.chain[0].x + BAR, y = l.from, d = `M${x},${y}`;
  l.chain.slice(1).forEach((n, i, all) => {
    const last = i === all.length - 1, nx = n.x, ny = last ? l.to : n.y + n.height / 2, bend = (nx - x) / 2;
    d += `C${x + bend},${y} ${nx - bend},${ny} ${nx},${ny}`;
    if (!last) d += `L${nx + BAR},${ny}`;
    x = nx + BAR;
    y = ny;
  });
  return d;
}

function loopPath(l, nodes, bottom) {
  const a = nodes[l.source], b = nodes[l.target];
  if (l.kind === "self") {
    const x = a.x + BAR / 2, y = a.y + a.height;
    return `M${x + 5},${y}C${x + 34},${y + 26} ${x - 34},${y + 26} ${x - 5},${y}`;
  }
  const x1 = a.x + BAR, y1 = a.y + a.height - 3, x0 = b.x, y0 = b.y + b.height - 3;
  return `M${x1},${y1}C${x1 + 60},${y1} ${x1 + 60},${bottom} ${x1 - 10},${bottom}L${x0 + 10},${bottom}C${x0 - 50},${bottom} ${x0 - 50},${y0} ${x0},${y0}`;
}

const flowLabel = f => {
  const source = f.source < 0 ? "(before the run)" : stageName(f.source), target = f.target < 0 ? "(left at the end)" : stageName(f.target);
  const doubt = f.confidence === "partial" ? ", partial: not all that these processes did was seen" : "";
  return `${source} → ${target}\n${bytesText(f.bytes)} in ${count(f.files, "file")}${doubt}`;
};

function sankey() {
  const box = byId("sankey");
  if (!data.stages.length) { box.append(make("p", {class: "none"}, "No I/O was recorded.")); return; }
  const {nodes, links, columns, step} = layout(Math.max(560, box.clientWidth - 26));
  ports(nodes);
  const bottom = Math.max(...columns.flat().map(n => n.y + n.height));
  const loops = links.filter(l => l.kind !== "forward");
  const height = bottom + (loops.length ? 24 + 14 * loops.filter(l => l.kind === "back").length : 10);
  const width = Math.max(box.clientWidth - 26, STUB + 8 + (columns.length - 1) * step + BAR + (columns.length > 1 ? STUB : 180));
  const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Dataflow between stages"});
  svg.append(fades());
  let level = bottom + 14;
  for (const l of [...links].sort((a, b) => b.width - a.width)) {
    const d = l.kind === "forward" ? ribbonPath(l) : loopPath(l, nodes, level);
    if (l.kind === "back") level += 14;
    const stroke = l.kind === "forward" ? l.width : Math.min(6, Math.max(2, l.width));
    const path = draw("path", {d, class: `ribbon k${tone(l.source)}${l.kind === "forward" ? "" : " back"}`, "stroke-width": stroke});
    l.element = part(path, flowLabel(l), () => showFlow(l));
    svg.append(path);
  }
  for (const n of nodes) for (const [stub, x, fade] of [[n.left, n.x - STUB, "in"], [n.right, n.x + BAR, "out"]]) if (stub)
    svg.append(part(draw("rect", {class: "stub", x, y: stub.y - stub.width / 2, width: STUB, height: stub.width, fill: `url(#fade-${fade})`}),
      flowLabel(stub), () => showFlow(stub)));
  for (const n of nodes) stageNode(svg, n, links, columns.length > 1 && n.layer === columns.length - 1);
  for (const l of links) if (l.kind === "forward" && l.width >= 9) ribbonLabel(svg, l);
  box.replaceChildren(svg);
}

function fades() {
  const defs = draw("defs");
  for (const [name, first, last] of [["in", 0, .75], ["out", .75, 0]]) {
    const gradient = draw("linearGradient", {id: `fade-${name}`});
    for (const [offset, opacity] of [[0, first], [1, last]])
      gradient.append(draw("stop", {offset, "stop-color": "var(--s-other)", "stop-opacity": opacity}));
    defs.append(gradient);
  }
  return defs;
}

function ribbonLabel(svg, l) {
  const a = l.chain[0], b = l.chain[1], y = l.chain.length === 2 ? (l.from + l.to) / 2 : (l.from + b.y + b.height / 2) / 2;
  const text = draw("text", {x: (a.x + BAR + b.x) / 2, y: y + 4, class: "small halo", "text-anchor": "middle", "pointer-events": "none", "aria-hidden": "true"}, bytesText(l.bytes));
  svg.append(text);
}

const short = (name, length) => name.length > length ? `${name.slice(0, length - 1)}…` : name;

function stageNode(svg, n, links, last) {
  const s = data.stages[n.stage];
  const words = s.tasks ? count(s.tasks, "task") : count(s.processes, "process", "processes");
  const label = `${s.stage}\n${words}, ${timeText(s.span_ms)}\n${bytesText(s.read_bytes)} read, ${bytesText(s.written_bytes)} written`;
  const bar = draw("rect", {class: `node s${tone(n.stage)}`, x: n.x, y: n.y, width: BAR, height: n.height, rx: 3});
  svg.append(part(bar, label, () => {
    select(bar, ...links.filter(l => l.source === n.stage || l.target === n.stage).map(l => l.element));
    byId("sankey").classList.add("dim");
    showStage(n.stage);
  }));
  const at = {x: last ? n.x + BAR : n.x, "text-anchor": last ? "end" : "start", "aria-hidden": "true"};
  svg.append(draw("text", {...at, y: n.y - 20, class: "name halo"}, short(s.stage, 24)));
  svg.append(draw("text", {...at, y: n.y - 6, class: "small halo"}, `${words} · ${timeText(s.span_ms)}`));
}

const list = (title, rows) => make("div", {}, make("h4", {}, title), make("ul", {}, ...rows.map(([name, value, cls]) =>
  make("li", {}, make("span", {class: cls || ""}, name), make("span", {}, value)))));

function showFlow(f) {
  byId("sankey").classList.add("dim");
  const rest = f.files - f.largest.length;
  const files = f.largest.map(x => [x.path, bytesText(x.bytes), "path"]);
  if (rest > 0) files.push([`and ${count(rest, "more file", "more files")}`, ""]);
  const [title, amount] = flowLabel(f).split("\n");
  const tasks = (f.tasks || []).map(t => [t.producer ? `${t.producer} → ${t.consumer}` : t.consumer, bytesText(t.bytes)]);
  if (f.pairs > tasks.length) tasks.push([`and ${count(f.pairs - tasks.length, "more pair")}`, ""]);
  byId("details").replaceChildren(make("h3", {}, title), make("p", {}, amount),
    make("div", {class: "cols"}, list("Files, by bytes", files), tasks.length ? list("Tasks, by bytes", tasks) : null));
}

function showStage(i) {
  const s = data.stages[i];
  const rows = [
    ["Wall time", timeText(s.span_ms)], ["with I/O running", timeText(s.io_ms)], ["reading", timeText(s.read_ms)],
    ["writing", timeText(s.write_ms)], ["metadata", timeText(s.metadata_ms)], ["in calls on pipes and sockets", timeText(s.stream_ms)],
  ];
  const files = [
    ["Files read", s.files_read], ["of these with bytes from before the run", s.files_external], ["Files written", s.files_written],
    ["read by others", s.files_passed_on], ["never read", s.files_never_read], ["Failed calls", s.failed_calls],
  ].map(([name, value]) => [name, value.toLocaleString("en")]);
  const line = `${count(s.tasks, "task")}, ${count(s.processes, "process", "processes")}, ${bytesText(s.read_bytes)} read, ${bytesText(s.written_bytes)} written`;
  byId("details").replaceChildren(make("h3", {}, s.stage), make("p", {}, line),
    make("div", {class: "cols"}, list("Time", rows), list("Files", files)));
}

// --- timeline -----------------------------------------------------------------------------------------------------------

// Greedy lanes: each task goes to the first lane that is free; a task takes at least `least` ms, so that bars don't touch.
function lanes(tasks, least) {
  const ends = [];
  for (const t of tasks) {
    let lane = ends.findIndex(end => end <= t.start);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = Math.max(t.end, t.start + least);
    t.lane = lane;
  }
  return ends.length;
}

function ticks(span) {
  const rough = span / 8, power = 10 ** Math.floor(Math.log10(rough)), unit = [1, 2, 5, 10].find(u => u * power >= rough) * power;
  return Array.from({length: Math.floor(span / unit) + 1}, (_, i) => i * unit);
}

const tasksOnly = byId("tasks-only"), inStage = data.tasks.rows.filter(t => stageName(t.stage) !== "(untagged)");
const reach = rows => rows.length ? [Math.min(...rows.map(t => t.start)), Math.max(...rows.map(t => t.end))] : [0, 0];

// Managers run long around short tasks: if stages take less than half of the run, they are shown alone at first.
function chooseRange() {
  const [first, last] = reach(inStage);
  byId("tasks-only-field").hidden = !inStage.length || inStage.length === data.tasks.rows.length;
  tasksOnly.checked = !byId("tasks-only-field").hidden && last - first < data.numbers.span_ms / 2;
  tasksOnly.addEventListener("change", timeline);
}

function timeline() {
  const box = byId("bars"), rows = tasksOnly.checked ? inStage : data.tasks.rows;
  const [from, to] = tasksOnly.checked ? reach(rows) : [0, data.numbers.span_ms], span = Math.max(to - from, .001);
  const cut = data.tasks.total > data.tasks.rows.length ? ` The ${data.tasks.rows.length.toLocaleString("en")} longest of ${data.tasks.total.toLocaleString("en")} are drawn.` : "";
  byId("timeline-hint").textContent = `A bar is a task, or a process that no task claims, from its first event to its last.${cut} Arrow keys step through the bars.`;
  if (!rows.length) { box.append(make("p", {class: "none"}, "No tasks were recorded.")); return; }
  const width = Math.max(560, box.clientWidth - 26), left = 170, room = width - left - 24, x = ms => left + (ms - from) / span * room;
  const svg = draw("svg", {width, tabindex: "0", role: "group", "aria-label": "Timeline of tasks, arrow keys step through"});
  const grid = draw("g"), bars = [];
  const groups = data.stages.map((s, i) => rows.filter(t => t.stage === i)), numbers = groups.map(g => lanes(g, 2 * span / room));
  const most = Math.max(...numbers), h = most > 60 ? 2 : most > 20 ? 4 : most > 8 ? 7 : 11, pitch = h + (h > 4 ? 2 : 1);
  let y = 8;
  data.stages.forEach((s, i) => {
    const tasks = groups[i], number = numbers[i];
    if (!tasks.length) return;
    svg.append(draw("text", {x: 0, y: y + 11, class: "name"}, short(s.stage, 22)));
    for (const t of tasks) {
      const bar = draw("rect", {class: `task s${tone(i)}`, x: x(t.start), y: y + t.lane * pitch, width: Math.max(2, x(t.end) - x(t.start)), height: h, rx: Math.min(2, h / 3)});
      bar.dataset.index = bars.push([bar, t]) - 1;
      svg.append(bar);
    }
    y += Math.max(18, number * pitch) + 9;
    grid.append(draw("line", {class: "grid", x1: 0, x2: width, y1: y - 4.5, y2: y - 4.5}));
  });
  for (const ms of ticks(span)) {
    grid.append(draw("line", {class: "grid", x1: x(from + ms), x2: x(from + ms), y1: 0, y2: y}));
    const text = ms ? timeText(ms) : from ? `${timeText(from)} +` : "0";
    svg.append(draw("text", {class: "small", x: x(from + ms), y: y + 15, "text-anchor": "middle"}, text));
  }
  svg.prepend(grid);
  svg.setAttribute("height", y + 22);
  stepping(svg, bars);
  box.replaceChildren(svg);
}

const taskLabel = t => `${t.name}\n${stageName(t.stage)}, ${timeText(t.end - t.start)} from ${timeText(t.start)} on\n${bytesText(t.read)} read, ${bytesText(t.wrote)} written`;

function stepping(svg, bars) {
  let current = -1;
  svg.addEventListener("pointermove", e => {
    const i = e.target.dataset.index;
    if (i === undefined) hideTip(); else showTip(taskLabel(bars[i][1]), e.clientX, e.clientY);
  });
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("blur", () => { hideTip(); if (current >= 0) bars[current][0].classList.remove("on"); });
  svg.addEventListener("keydown", e => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    if (!step) return;
    e.preventDefault();
    if (current >= 0) bars[current][0].classList.remove("on");
    current = Math.min(bars.length - 1, Math.max(0, current + step));
    const [bar, task] = bars[current], box = bar.getBoundingClientRect();
    bar.classList.add("on");
    svg.setAttribute("aria-label", taskLabel(task).replaceAll("\n", ", "));
    showTip(taskLabel(task), box.left + box.width / 2, box.bottom);
  });
}

// --- tables ---------------------------------------------------------------------------------------------------------------

// columns: [title, value for sorting, cell (text or node) by default the value, class]. Rows beyond `first` appear on demand.
function table(id, columns, rows, first) {
  const box = byId(id);
  if (!rows.length) { box.replaceChildren(make("p", {class: "none"}, "None.")); return; }
  let shown = first, sorted = rows;
  const body = make("tbody"), heads = columns.map(([title, value, , cls], i) => {
    const button = make("button", {type: "button"}, title), th = make("th", {scope: "col", class: cls || ""}, button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") === "descending" || (th.getAttribute("aria-sort") === null && cls !== "num");
      heads.forEach(h => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const sign = up ? 1 : -1, compare = (a, b) => typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
      sorted = [...rows].sort((a, b) => sign * compare(columns[i][1](a), columns[i][1](b)));
      fill();
    });
    return th;
  });
  const more = make("button", {type: "button", class: "more"});
  more.addEventListener("click", () => { shown = Infinity; fill(); });
  const fill = () => {
    body.replaceChildren(...sorted.slice(0, shown).map(row => make("tr", {}, ...columns.map(([, value, cell, cls]) =>
      make("td", {class: cls || ""}, ...[cell ? cell(row) : value(row)].flat())))));
    more.hidden = sorted.length <= shown;
    more.textContent = `Show all ${sorted.length.toLocaleString("en")}`;
  };
  fill();
  box.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body), more);
}

function swatch(i) {
  const svg = draw("svg", {width: 10, height: 10, "aria-hidden": "true"});
  svg.append(draw("rect", {class: `s${tone(i)}`, width: 10, height: 10, rx: 2}));
  return make("span", {class: "swatch"}, svg);
}

const named = i => i < 0 ? ["(before the run)"] : [swatch(i), stageName(i)];
const path = (name, aliases) => [make("span", {class: "path"}, name), ...(aliases || []).map(a => make("div", {class: "path alias"}, `was ${a}`))];
const stageList = all => all.map(stageName).join(", ");
const bytesColumn = (title, key) => [title, r => r[key], r => bytesText(r[key]), "num"];
const timeColumn = (title, key) => [title, r => r[key], r => timeText(r[key]), "num"];
const countColumn = (title, key) => [title, r => r[key], r => r[key].toLocaleString("en"), "num"];

function strip(s) {
  const svg = draw("svg", {width: 120, height: 10, class: "strip", role: "img", "aria-label": `I/O ${timeText(s.io_ms)} of ${timeText(s.span_ms)}`});
  svg.append(draw("rect", {class: "room", width: 120, height: 10, rx: 2}));
  let x = 0;
  for (const kind of ["read", "write", "metadata"]) {
    const width = Math.min(120 - x, 120 * s[`${kind}_ms`] / Math.max(s.span_ms, 1e-9));
    svg.append(draw("rect", {class: kind, x, width: Math.max(0, width), height: 10}));
    x += width;
  }
  return svg;
}

function stageTable() {
  table("stage-table", [
    ["Stage", r => r.stage, r => [swatch(data.stages.indexOf(r)), r.stage]], countColumn("Tasks", "tasks"), countColumn("Processes", "processes"),
    timeColumn("Wall", "span_ms"), timeColumn("I/O", "io_ms"), ["Share", r => r.io_ms / Math.max(r.span_ms, 1e-9), strip, "keep"],
    bytesColumn("Read", "read_bytes"), bytesColumn("Written", "written_bytes"),
    ["Calls", r => r.read_calls + r.write_calls + r.metadata_calls + r.stream_calls, r => (r.read_calls + r.write_calls + r.metadata_calls + r.stream_calls).toLocaleString("en"), "num"],
    countColumn("Files read", "files_read"), countColumn("written", "files_written"), countColumn("passed on", "files_passed_on"), countColumn("never read", "files_never_read"),
  ], data.stages, 50);
}

function waitTable() {
  const column = (title, key) => [title, r => r[key] ?? -1, r => r[key] === null ? "–" : timeText(r[key]), "num"];
  table("wait-table", [
    ["Stage", r => r.stage], countColumn("Tasks", "tasks"), column("On data", "data_ms"), column("On order", "order_ms"), column("Queued", "queue_ms"),
    column("Starting", "start_ms"), column("I/O", "io_ms"), column("Computing", "compute_ms"),
  ], data.waits, 50);
}

function flowTable() {
  const rows = [...data.flows].sort((a, b) => b.bytes - a.bytes);
  table("flow-table", [
    ["From", r => stageName(r.source), r => named(r.source)], ["To", r => r.target < 0 ? "(left at the end)" : stageName(r.target), r => r.target < 0 ? "(left at the end)" : named(r.target)],
    bytesColumn("Bytes", "bytes"), countColumn("Files", "files"), ["Largest file", r => r.largest[0] ? r.largest[0].path : "", r => path(r.largest[0] ? r.largest[0].path : "")],
  ], rows, 20);
}

function fileTable() {
  const columns = [
    ["File", r => r.path, r => path(r.path, r.aliases)], bytesColumn("Read", "read_bytes"), bytesColumn("Written", "written_bytes"), countColumn("Versions", "versions"),
    ["Written by", r => stageList(r.wrote)], ["Read by", r => stageList(r.read)],
    ["", r => [r.cls === "stream" ? "pipe or socket" : "", r.removed ? "removed" : ""].filter(Boolean).join(", ")],
  ];
  const search = () => {
    const words = byId("search").value.toLowerCase();
    const rows = data.files.rows.filter(r => [r.path, ...r.aliases].some(p => p.toLowerCase().includes(words)));
    const cut = data.files.total > data.files.rows.length ? ` of the ${data.files.rows.length.toLocaleString("en")} largest (${data.files.total.toLocaleString("en")} in all)` : ` of ${data.files.total.toLocaleString("en")}`;
    byId("found").textContent = `${rows.length.toLocaleString("en")}${cut}`;
    table("file-table", columns, rows, 25);
  };
  byId("search").addEventListener("input", search);
  search();
}

function unreadTable() {
  table("unread-table", [
    ["File", r => r.path, r => path(r.path)], bytesColumn("Written", "written_bytes"), ["By", r => r.stages.join(", ")], ["", r => r.removed ? "removed" : ""],
  ], data.never_read.rows, 10);
}

const MEANING = {
  "observed": "bytes passed as declared", "value only": "a future passed, no file", "not observed": "a file was declared, no bytes passed",
  "undeclared": "bytes passed, nothing was declared",
};

const taskName = (r, end) => !r[`${end}_stage`] || r[end].includes(r[`${end}_stage`]) ? r[end] : `${r[`${end}_stage`]} ${r[end]}`;

function declaredTable() {
  const counts = data.declared.counts;
  byId("declared-counts").append(...Object.keys(MEANING).map(s => make("span", {}, make("span", {class: `tag${/^(not|undeclared)/.test(s) && counts[s] ? " bad" : ""}`}, `${counts[s] || 0} ${s}`), ` ${MEANING[s]}`)));
  table("declared-table", [
    ["From task", r => taskName(r, "producer")], ["To task", r => taskName(r, "consumer")], ["Declared by", r => r.via],
    ["Status", r => r.status, r => make("span", {class: `tag${/^(not|undeclared)/.test(r.status) ? " bad" : ""}`}, r.status)],
    bytesColumn("Bytes", "bytes"), countColumn("Files", "files"),
    ["", r => r.through ? `through ${r.through}` : r.status === "undeclared" ? (r.ordered ? "ordered by other dependencies" : "nothing orders them") : r.path || ""],
  ], data.declared.rows, 15);
}

function lossTable() {
  table("loss-table", [["What", r => r.text]], data.losses, 50);
  const percent = r => `${(Math.floor(r.share * 1e4) / 100).toFixed(2)} %`;
  if (data.coverage.below.length) table("below-table", [
    ["Process", r => `${r.host}:${r.pid}`], ["Program", r => r.exe.split("/").pop()],
    bytesColumn("By the kernel", "kernel_bytes"), bytesColumn("Missing", "missing_bytes"),
    ["Share", r => r.share, percent, "num"], ["Cause", r => r.cause],
  ], data.coverage.below, 15);
  else byId("below-part").hidden = true;
}

if (!data.declared.rows.length) byId("declared").hidden = true;
if (!data.waits.length) byId("waits").hidden = true;
header();
sankey();
chooseRange();
timeline();
stageTable();
waitTable();
flowTable();
fileTable();
unreadTable();
declaredTable();
lossTable();
let timer;
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => { sankey(); timeline(); }, 150); });
document.documentElement.dataset.ready = "yes";
})();
