// The timeline: a tree of rows, stage -> type of task -> task, each with a strip of its time. Only rows that are open exist, so a run
// of 100,000 tasks draws as many strips as it has stages.

const PAGE = 100,
  STAGES = 60,
  NAME_WIDTH = 230;
const tasksOf = data.stages.map(() => []);
for (const t of [...data.tasks.rows].sort((a, b) => a.start - b.start)) tasksOf[t.stage].push(t);
for (const p of data.critical.rows) if (p.task >= 0) data.tasks.rows[p.task].critical = true;
const whole = { from: 0, to: Math.max(data.numbers.span_ns / 1e6, 0.001) };
const view = { ...whole, stagesOnly: false, path: false, open: new Set(), more: new Map(), focus: null };

function rangeOfStages() {
  const rows = data.tasks.rows.filter((t) => stageName(t.stage) !== UNTAGGED);
  if (!rows.length || rows.length === data.tasks.rows.length) return null;
  return {
    from: rows.reduce((m, t) => Math.min(m, t.start), Infinity),
    to: Math.max(
      rows.reduce((m, t) => Math.max(m, t.end), 0),
      0.001,
    ),
  };
}

const inStages = rangeOfStages();

// key, level, words, tasks, children (rows or null), act
function treeRows() {
  const rows = [];
  if (data.critical.rows.length)
    rows.push({
      key: "path",
      level: 1,
      name: "Critical path",
      tasks: [],
      words: timeText(data.critical.makespan_ms),
      act: () => showPath(data.critical),
      strip: pathStrip,
    });
  rows.push(...sampleRows());
  const stages = [...data.stages.keys()].filter(
      (i) => tasksOf[i].length && !(view.stagesOnly && data.stages[i].stage === UNTAGGED),
    ),
    number = view.more.get("") || STAGES;
  for (const i of stages.slice(0, number)) {
    const s = data.stages[i],
      tasks = tasksOf[i];
    const row = { key: `s${i}`, level: 1, stage: i, name: s.stage, tasks, opens: true, act: () => showStage(i) };
    rows.push(row);
    if (view.open.has(row.key)) rows.push(...typeRows(row));
  }
  if (stages.length > number)
    rows.push({
      key: "+",
      level: 1,
      name: `Show ${numberText(Math.min(STAGES, stages.length - number))} more of ${count(stages.length, "stage")}`,
      tasks: [],
      act: () => {
        view.more.set("", number + STAGES);
        timeline();
      },
    });
  return rows;
}

function typeRows(parent) {
  const types = new Map();
  for (const t of parent.tasks) {
    if (!types.has(t.type)) types.set(t.type, []);
    types.get(t.type).push(t);
  }
  if (types.size === 1) return taskRows(parent, parent.tasks);
  return [...types].flatMap(([type, tasks]) => {
    const row = {
      key: `${parent.key}t${type}`,
      level: parent.level + 1,
      stage: parent.stage,
      name: data.tasks.types[type],
      tasks,
      opens: true,
      parent: parent.key,
    };
    return view.open.has(row.key) ? [row, ...taskRows(row, tasks)] : [row];
  });
}

function taskRows(parent, tasks) {
  const number = view.more.get(parent.key) || PAGE;
  const rows = tasks
    .slice(0, number)
    .map((t) => ({
      key: `i${t.index}`,
      level: parent.level + 1,
      stage: t.stage,
      name: t.name,
      tasks: [t],
      parent: parent.key,
      act: () => showTask(t),
    }));
  if (tasks.length > number)
    rows.push({
      key: `${parent.key}+`,
      level: parent.level + 1,
      name: `Show ${numberText(Math.min(PAGE, tasks.length - number))} more of ${numberText(tasks.length)}`,
      tasks: [],
      parent: parent.key,
      act: () => {
        view.more.set(parent.key, number + PAGE);
        timeline();
      },
    });
  return rows;
}

const wallOf = (tasks) => tasks.reduce((m, t) => Math.max(m, t.end), 0) - tasks[0].start;

function wordsOf(row) {
  if (!row.tasks.length) return row.words || "";
  if (!row.opens) return `${row.tasks[0].status ? `${row.tasks[0].status} · ` : ""}${timeText(row.tasks[0].dur)}`;
  const words = isProcess(row.tasks[0]) ? ["process", "processes"] : ["task", "tasks"];
  const failed = row.tasks.filter((t) => FAILED.has(t.status)).length,
    retried = row.tasks.filter((t) => t.status === "retried").length;
  return `${count(row.tasks.length, ...words)}${failed ? `, ${numberText(failed)} failed` : ""}${retried ? `, ${numberText(retried)} retried` : ""} · ${timeText(wallOf(row.tasks))}`;
}

const labelOf = (row) =>
  [
    row.name,
    wordsOf(row),
    row.tasks.length ? `from ${timeText(row.tasks[0].start)} on` : "",
    row.tasks.length
      ? `${bytesText(row.tasks.reduce((s, t) => s + t.read, 0))} read, ${bytesText(row.tasks.reduce((s, t) => s + t.wrote, 0))} written`
      : "",
  ]
    .filter(Boolean)
    .join(", ");

function toggle(row, open) {
  if (open) view.open.add(row.key);
  else view.open.delete(row.key);
  view.focus = row.key;
  keep("rows", [...view.open].map(encodeURIComponent).join(","));
  timeline();
}

function timeline() {
  const box = byId("bars"),
    rows = treeRows(),
    held = box.contains(document.activeElement);
  if (!data.tasks.rows.length) {
    box.replaceChildren(make("p", { class: "none" }, "No tasks were recorded."));
    return;
  }
  const narrow = box.clientWidth < 620,
    width = Math.max(200, box.clientWidth - 26 - (narrow ? 0 : NAME_WIDTH)),
    tones = toneColours();
  if (!rows.some((row) => row.key === view.focus)) view.focus = rows[0].key;
  const grid = make("div", {
    role: "treegrid",
    class: `tree${narrow ? " narrow" : ""}`,
    "aria-label": "Timeline by stage, type of task and task",
    "aria-readonly": "true",
  });
  for (const row of rows) grid.append(rowElement(row, rows, width, tones));
  box.replaceChildren(
    make(
      "div",
      { class: `axis${narrow ? " narrow" : ""}`, "aria-hidden": "true" },
      timeAxis(width, view.from, view.to),
    ),
    grid,
  );
  const focused = grid.querySelector('[tabindex="0"]');
  if (held && focused) focused.focus({ preventScroll: true });
}

function rowElement(row, rows, width, tones) {
  const open = view.open.has(row.key),
    mark = row.opens
      ? draw(
          "svg",
          { class: `turn${open ? " open" : ""}`, width: 10, height: 10, "aria-hidden": "true" },
          draw("path", { d: "M3 1l4 4-4 4" }),
        )
      : null;
  const name = make(
    "div",
    { role: "gridcell", class: `tree-name level${row.level}` },
    mark,
    row.level === 1 && row.opens && row.stage !== undefined ? swatch(row.stage) : null,
    make(
      "span",
      { class: "tree-words" },
      make("span", { class: "name", dir: "ltr", title: row.name.length > 40 ? shown(row.name) : null }, row.name),
      make("small", {}, wordsOf(row)),
    ),
  );
  const cell = make("div", { role: "gridcell", class: "tree-strip" });
  const element = make(
    "div",
    {
      role: "row",
      class: "tree-row",
      "aria-level": row.level,
      "aria-label": shown(labelOf(row)),
      tabindex: row.key === view.focus ? "0" : "-1",
      "aria-expanded": row.opens ? String(open) : null,
    },
    name,
    cell,
  );
  if (row.tasks.length || row.strip) drawStrip(cell, row, tones, width);
  name.addEventListener("click", () => {
    if (row.opens) toggle(row, !open);
    else choose(row, element);
  });
  element.addEventListener("keydown", (e) => treeKey(e, row, rows, element));
  element.addEventListener("focus", () => {
    if (row.key !== view.focus) moveFocus(element, row);
  });
  element.dataset.key = row.key;
  return element;
}

function moveFocus(element, row) {
  for (const old of element.parentNode.querySelectorAll('[tabindex="0"]')) old.setAttribute("tabindex", "-1");
  element.setAttribute("tabindex", "0");
  view.focus = row.key;
}

function choose(row, element) {
  if (!row.act) return;
  view.focus = row.key;
  element.focus({ preventScroll: true });
  row.act();
}

function treeKey(e, row, rows, element) {
  const at = rows.indexOf(row),
    open = view.open.has(row.key),
    grid = element.parentNode;
  const go = (i) => {
    const next = grid.children[i];
    if (next) {
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
  };
  if (e.key === "ArrowDown") go(at + 1);
  else if (e.key === "ArrowUp") go(at - 1);
  else if (e.key === "Home") go(0);
  else if (e.key === "End") go(rows.length - 1);
  else if (e.key === "ArrowRight" && row.opens) {
    if (open) go(at + 1);
    else toggle(row, true);
  } else if (e.key === "ArrowLeft" && row.opens && open) toggle(row, false);
  else if (e.key === "ArrowLeft" && row.parent) go(rows.findIndex((r) => r.key === row.parent));
  else if (e.key === "Enter" || e.key === " ") choose(row, element);
  else return;
  e.preventDefault();
}

// --- pointing at a strip: hover says what is there, a click chooses it, a drag zooms in ---------------------------------------------

function drawStrip(cell, row, tones, width) {
  const { canvas, find } = row.strip ? row.strip(tones, view, width) : strip(row.tasks, tones, view, width),
    time = (x) => view.from + (x / width) * (view.to - view.from);
  const brush = make("div", { class: "brush", hidden: "" });
  let start = null;
  canvas.addEventListener("pointerdown", (e) => {
    start = e.offsetX;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    const found = find(e.offsetX, e.offsetY),
      dragged = start !== null && Math.abs(e.offsetX - start) > 4;
    if (dragged) {
      const [a, b] = [start, e.offsetX].map((x) => Math.min(width, Math.max(0, x))).sort((p, q) => p - q);
      brush.hidden = false;
      brush.style.left = `${a}px`;
      brush.style.width = `${b - a}px`;
      showTip(`${timeText(time(a))} to ${timeText(time(b))}`, e.clientX, e.clientY);
    } else if (found) showTip(found.text, e.clientX, e.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("pointercancel", () => {
    start = null;
    brush.hidden = true;
  });
  canvas.addEventListener("pointerup", (e) => {
    const from = start,
      found = find(e.offsetX, e.offsetY);
    start = null;
    brush.hidden = true;
    if (from !== null && Math.abs(e.offsetX - from) > 4) zoom(...[from, e.offsetX].map(time).sort((a, b) => a - b));
    else if (found && found.task) {
      view.focus = row.key;
      canvas.closest('[role="row"]').focus({ preventScroll: true });
      showTask(found.task);
    } else if (row.act) choose(row, canvas.closest('[role="row"]'));
  });
  cell.append(canvas, brush);
}

// The range, moved into the run where it reaches over its ends.
function zoom(from, to) {
  const length = Math.min(whole.to - whole.from, Math.max(to - from, (whole.to - whole.from) / 1e5));
  view.from = Math.max(whole.from, Math.min((from + to - length) / 2, whole.to - length));
  view.to = view.from + length;
  keep(
    "range",
    view.from === home().from && view.to === home().to ? "" : `${view.from.toFixed(3)}-${view.to.toFixed(3)}`,
  );
  timeline();
}

const home = () => (view.stagesOnly && inStages ? inStages : whole);

function timelineTools() {
  const cut =
    data.tasks.total > data.tasks.rows.length
      ? ` The ${numberText(data.tasks.rows.length)} longest of ${numberText(data.tasks.total)} are here.`
      : "";
  byId("timeline-hint").textContent =
    `A bar is a task, or an untagged process, from its first event to its last; where there are too many, the height is how many run at once.${cut} ` +
    `${data.outcome.level === "failed" ? "Red: it failed, was killed, timed out or was canceled; red at its left end: it needed another try. " : ""}Open a stage for its types of task and its tasks; drag to zoom in.` +
    (data.samples.problems.length ? ` Samples: ${data.samples.problems.join("; ")}.` : "");
  const span = () => view.to - view.from,
    by = (factor, shift) => () => zoom(view.from + span() * (shift - factor), view.to + span() * (shift + factor));
  const tools = byId("timeline-tools"),
    goHome = () => zoom(home().from, home().to);
  if (inStages) {
    view.stagesOnly = inStages.to - inStages.from < whole.to / 2;
    const box = make("input", { type: "checkbox", id: "stages-only" });
    box.checked = view.stagesOnly;
    box.addEventListener("change", () => {
      view.stagesOnly = box.checked;
      keep("stages", box.checked ? "only" : "all");
      goHome();
    });
    kept("stages", box.checked ? "only" : "all", (value) => {
      view.stagesOnly = box.checked = value === "only";
      goHome();
    });
    tools.append(make("label", {}, box, " Only stages, without what runs around them"));
  }
  if (data.critical.rows.length) {
    const box = make("input", { type: "checkbox", id: "fade" });
    box.addEventListener("change", () => {
      view.path = box.checked;
      keep("critical", box.checked ? "shown" : "");
      timeline();
    });
    kept("critical", "", (value) => {
      view.path = box.checked = value === "shown";
      timeline();
    });
    tools.append(make("label", {}, box, " Show what is on the critical path"));
  }
  const zoomers = [
    ["−", "Zoom out", by(0.5, 0)],
    ["+", "Zoom in", by(-0.25, 0)],
    ["←", "Earlier", by(0, -0.4)],
    ["→", "Later", by(0, 0.4)],
  ];
  tools.append(
    make(
      "div",
      { class: "buttons", role: "group", "aria-label": "Range of the timeline" },
      ...zoomers.map(([sign, words, act]) =>
        button(sign, act, { class: "small-button", "aria-label": words, title: words }),
      ),
      button("All", goHome, { class: "small-button", "aria-label": "All of the range" }),
    ),
  );
  Object.assign(view, home());
  kept("rows", "", (value) => {
    view.open = new Set(
      value
        .split(",")
        .filter(Boolean)
        .map((text) => {
          try {
            return decodeURIComponent(text);
          } catch {
            return "";
          }
        }),
    );
    timeline();
  });
  kept("range", "", (value) => {
    const [from, to] = value.split("-").map(Number);
    if (value && from < to) zoom(from, to);
    else zoom(home().from, home().to);
  });
}
