// The panel at the side: the selected item and its query. It takes the focus when it opens and returns it at Escape.

const panel = byId("panel");
let opener = null;

// A name as a word that sh, dash, bash, ksh and zsh read alike; analyzer/util/shell.py has the same form, and its reasons.
function quoted(text) {
  const body = text.replace(/\n+$/, "");
  if (shown(body) !== body) {
    const octal = c => /^[\w@+=:,./]$/.test(c) ? c : [...new TextEncoder().encode(c)].map(byte => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    return `"$(printf '${[...body].map(octal).join("")}')"${body.length < text.length ? `'${text.slice(body.length)}'` : ""}`;
  }
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}

// In the value of a filter the characters *, ? and [ begin a pattern.
const literal = text => quoted(text.replace(/[*?[]/g, "[$&]"));
const runShell = quoted((data.about.directory || "DIR").replace(/^-/, "./-"));
const shell = template => template.replaceAll("{run}", () => runShell);
// The path as a Python literal: JSON's escapes are Python's, too.
const python = expression => `${data.prelude.replaceAll("{run}", () => JSON.stringify(data.about.directory || "DIR").replace(UNSEEN, escaped))}\n${expression}`;

const ask = (...parts) => `tailrace query ${runShell} ${parts.join(" ")}`;
// The events of a stage; an untagged one has filters of its own.
const ofStage = i => (data.stages[i].filters || ["--stage", stageName(i)]).map(literal).join(" ");
const stageQuery = i => ask(ofStage(i), "--by dir,cat --agg sum:size --agg sum:dur --agg count");
const fileQuery = path => ask(`--path ${literal(path)}`, "--by stage,task,dir --agg sum:size --agg count --agg min:ts --agg max:ts");
const taskQuery = t => ask(isProcess(t) ? `--host ${literal(t.host)} --pid ${quoted(String(t.pid))}${t.born ? ` --start ${quoted(t.born)}` : ""}` : `${t.workflow ? `--workflow ${literal(t.workflow)} ` : ""}--task ${literal(t.tag || t.name)}`,
  "--by path,dir,cat --agg sum:size --agg count --sort sum_size");

// A process of no task: its query has host and pid, and its start where other processes had the pid.
const isProcess = t => t.pid !== null && t.pid !== undefined;

// A query with a button that copies it.
function queryBox(title, text) {
  const code = make("code", {}, new Text(shownLines(text))), done = make("span", {role: "status", class: "hint"});
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      done.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      done.textContent = "selected: press Ctrl+C";
    }
  }, {class: "small-button", "aria-label": `Copy: ${title}`});
  return make("div", {class: "query"}, make("div", {class: "query-head"}, make("h4", {}, title), done, copy),
    make("pre", {tabindex: "0", role: "region", "aria-label": title}, code));
}

const queries = (shellText, pythonText) => [
  shellText ? queryBox("On the command line", shellText) : null, pythonText ? queryBox("In Python", python(pythonText)) : null,
];

const facts = rows => make("dl", {class: "facts"}, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));

// rows: [name, value, class of the name, action of a click]
const list = (title, rows) => rows.length ? make("div", {}, make("h4", {}, title), make("ul", {class: "list"}, ...rows.map(([name, value, cls, act]) =>
  make("li", {}, act ? button(middle(name), act, {class: `link ${cls || ""}`}) : make("span", {class: cls || ""}, middle(name)), make("span", {}, value))))) : null;

function openPanel(title, kind, ...children) {
  if (panel.hidden) opener = document.activeElement;
  const heading = make("h3", {id: "panel-title", tabindex: "-1"}, title);
  panel.replaceChildren(make("div", {class: "panel-head"}, make("span", {class: "kind"}, kind), button("Close", closePanel, {class: "small-button", "aria-label": "Close the panel"})),
    heading, ...children.flat().filter(c => c !== null && c !== undefined));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("with-panel");
  heading.focus({preventScroll: true});
}

function closePanel() {
  if (panel.hidden) return;
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove("with-panel");
  for (const element of document.querySelectorAll(".on")) element.classList.remove("on");
  byId("sankey").classList.remove("dim");
  if (opener && opener.isConnected) opener.focus({preventScroll: true});
  opener = null;
}

addEventListener("keydown", e => { if (e.key === "Escape") { hideTip(); closePanel(); } });

// A button beside a heading that shows the query of its section.
function queryButton(id, title, meaning, shellText, pythonText) {
  byId(id).append(button("Query", () => openPanel(title, "Query", make("p", {}, meaning), queries(shellText, pythonText)),
    {class: "small-button", "aria-label": `Query for: ${title}`}));
}

// --- what can be selected: stages, flows, tasks, files ------------------------------------------------------------------------------

const taskLine = t => `${t.name}${t.status ? `, ${t.status}` : ""}${t.error ? `\n${middle(firstLine(t.error))}` : ""}\n${stageName(t.stage)}, ${timeText(t.dur)} from ${timeText(t.start)} on\n${timeText(t.io)} in I/O, ${bytesText(t.read)} read, ${bytesText(t.wrote)} written`;

const triesText = row => row.tries === 0 ? "none" : numberText(row.tries);
const outcomeFacts = row => row.status ? [["Outcome", outcomeTag(row.status)], ["Tries", triesText(row)]] : data.outcome.counts.done ? [["Outcome", "done"]] : [];
const errorOf = row => row.error ? [make("h4", {}, "Error"), make("pre", {tabindex: "0", role: "region", "aria-label": "Error"}, make("code", {}, new Text(shownLines(row.error))))] : [];

// A task by its outcome: one that left events has the panel of the task.
function showOutcome(r) {
  if (r.row >= 0) { showTask(data.tasks.rows[r.row]); return; }
  openPanel(r.task, "Task", facts([["Stage", r.stage], ...(r.workflow ? [["Workflow", r.workflow]] : []), ...outcomeFacts(r), ["Start", sinceText(r.start)], ["End", sinceText(r.end)]]),
    errorOf(r), make("p", {class: "hint"}, "It left no events."), queries("", "run.outcomes"));
}

function showTask(t) {
  const files = data.files.rows, mine = (key, amount) => files.filter(f => f[key].includes(t.index)).slice(0, 12)
    .map(f => [f.path, bytesText(f[amount]), "path", () => showFile(f)]);
  openPanel(t.name, "Task", facts([
    ["Stage", [swatch(t.stage), stageName(t.stage)]], ...(t.workflow ? [["Workflow", t.workflow]] : []), ["Type", data.tasks.types[t.type]], ...(isProcess(t) ? [] : outcomeFacts(t)), ["Start", timeText(t.start)], ["Wall time", timeText(t.dur)],
    ["in I/O", `${timeText(t.io)}, ${shareText(t.io / Math.max(t.dur, 1e-9))}`], ["Read", bytesText(t.read)], ["Written", bytesText(t.wrote)],
    ["Slack", t.slack === null || t.slack === undefined ? "" : t.slack ? timeText(t.slack) : "none: it is on the longest chain of work"],
    ["Critical path", t.critical ? "on it" : "not on it"],
  ]), errorOf(t), list("Files it read, bytes by all", mine("to", "read_bytes")), list("Files it wrote, bytes by all", mine("by", "written_bytes")), queries(taskQuery(t)));
}

function showFile(f) {
  const kinds = [f.cls === "stream" ? "pipe or socket" : "file", f.removed ? "removed" : "", f.unread ? "never read by other tasks" : ""].filter(Boolean).join(", ");
  const tasks = key => f[key].map(i => data.tasks.rows[i]).map(t => [t.name, stageName(t.stage), "", () => showTask(t)]);
  const more = (total, shown) => total > shown ? [[`and ${numberText(total - shown)} more`, ""]] : [];
  openPanel(make("span", {class: "path"}, f.path), "File", facts([
    ["What", kinds], ["Read", bytesText(f.read_bytes)], ["Written", bytesText(f.written_bytes)], ["Versions", numberText(f.versions)],
    ["Written by", f.wrote.map(stageName).join(", ") || "no task of this run"], ["Read by", f.read.map(stageName).join(", ") || "no task of this run"],
  ]), f.aliases.length ? list("Earlier and other names", f.aliases.map(a => [a, "", "path"])) : null,
  list("Writers", [...tasks("by"), ...more(f.writers, f.by.length)]), list("Readers", [...tasks("to"), ...more(f.readers, f.to.length)]), queries(fileQuery(f.path)));
}

function fileNamed(path) {
  const f = data.files.rows.find(row => row.path === path);
  return f ? () => showFile(f) : null;
}

function showStage(i) {
  const s = data.stages[i], top = (rows, key) => [...rows].sort((a, b) => b[key] - a[key]).slice(0, 8);
  const tasks = top(data.tasks.rows.filter(t => t.stage === i), "dur").map(t => [t.name, timeText(t.dur), "", () => showTask(t)]);
  const files = (key, amount) => top(data.files.rows.filter(f => f[key].includes(i)), amount).map(f => [f.path, bytesText(f[amount]), "path", () => showFile(f)]);
  openPanel([swatch(i), s.stage], "Stage", facts([
    ["Tasks", numberText(s.tasks)], ["Processes", numberText(s.processes)], ["Wall time", timeText(s.span_ms)],
    ["with I/O running", `${timeText(s.io_ms)}, ${shareText(s.io_ms / Math.max(s.span_ms, 1e-9))}`], ["reading", timeText(s.read_ms)], ["writing", timeText(s.write_ms)],
    ["metadata", timeText(s.metadata_ms)], ["on pipes, sockets", timeText(s.stream_ms)], ["Read", bytesText(s.read_bytes)], ["Written", bytesText(s.written_bytes)],
    ["Files read", numberText(s.files_read)], ["from before the run", numberText(s.files_external)], ["Files written", numberText(s.files_written)],
    ["read by others", numberText(s.files_passed_on)], ["never read", numberText(s.files_never_read)], ["Failed calls", numberText(s.failed_calls)],
  ]), list("Longest tasks", tasks), list("Largest files read, bytes by all", files("read", "read_bytes")),
  list("Largest files written, bytes by all", files("wrote", "written_bytes")), queries(stageQuery(i), "stages.table(run)"));
}

const flowEnds = f => [f.source < 0 ? (f.undecided_bytes ? UNDECIDED : BEFORE) : stageName(f.source), f.target < 0 ? LEFT : stageName(f.target)];

function showFlow(f) {
  const rest = f.files - f.largest.length, files = f.largest.map(x => [x.path, bytesText(x.bytes), "path", fileNamed(x.path)]);
  if (rest > 0) files.push([`and ${count(rest, "more file")}`, ""]);
  const pairs = f.tasks.map(t => [t.producer ? `${t.producer} → ${t.consumer}` : t.consumer, bytesText(t.bytes)]);
  if (f.pairs > pairs.length) pairs.push([`and ${count(f.pairs - pairs.length, "more pair")}`, ""]);
  const doubt = f.confidence === "partial" ? make("p", {class: "lost"}, "Partial: some calls of these processes were not recorded.") : null;
  openPanel(flowEnds(f).join(" → "), "Flow", facts([["Bytes", bytesText(f.bytes)], ["Files", numberText(f.files)], ["Pairs of tasks", numberText(f.pairs)]]),
    doubt, list("Files, by bytes", files), list("Tasks, by bytes", pairs),
    queries(shell("tailrace graph {run} --level stage --format json"), "dataflow.flow_table(dataflow.model(run), 'stage')"));
}
