// The panels of what can be selected: stages, flows, tasks, files.

const taskLine = (t) =>
  `${t.name}${t.status ? `, ${t.status}` : ""}${t.error ? `\n${middle(firstLine(t.error))}` : ""}\n${stageName(t.stage)}, ${timeText(t.dur)} from ${timeText(t.start)} on\n${timeText(t.io)} in I/O, ${bytesText(t.read)} read, ${bytesText(t.wrote)} written`;

const triesText = (row) => (row.tries === 0 ? "none" : numberText(row.tries));
const outcomeFacts = (row) =>
  row.status
    ? [
        ["Outcome", outcomeTag(row.status)],
        ["Tries", triesText(row)],
      ]
    : data.outcome.counts.done
      ? [["Outcome", "done"]]
      : [];
const preformatted = (title, text) => [
  make("h4", {}, title),
  make("pre", { tabindex: "0", role: "region", "aria-label": title }, make("code", {}, new Text(shownLines(text)))),
];
const errorOf = (row) => (row.error ? preformatted("Error", row.error) : []);
const moreOf = (total, number, word) =>
  total > number
    ? [[`and ${count(total - number, `more ${word || ""}`.trim(), `more ${word ? `${word}s` : ""}`.trim())}`, ""]]
    : [];

const statusMark = (t) => (t.status ? outcomeTag(t.status) : null);
const taskEntry = (t, value) => [[t.name, statusMark(t)], value, "", () => showTask(t)];

// --- a task ----------------------------------------------------------------------------------------------------------------------

const taskKey = (t) =>
  isProcess(t)
    ? `${t.host}:${t.pid}${t.born ? `:${t.born}` : ""}`
    : `${t.workflow ? `${t.workflow}/` : ""}${t.tag || t.name}`;
const profileOf = (t) =>
  `tailrace task ${runShell} ${quoted((isProcess(t) ? `${t.host}:${t.pid}` : t.tag || t.name).replace(/^-/, "./-"))}`;
const pairsOf = (flat) =>
  Array.from({ length: (flat || []).length / 2 }, (_, i) => [data.files.rows[flat[2 * i]], flat[2 * i + 1]]);
const LOG = /\.(out|err|log|stdout|stderr)$|(^|\/)(stdout|stderr|slurm-[^/]*\.out)$/;
const logsOf = (t) =>
  t.logs ||
  pairsOf(t.writes)
    .map(([f]) => f.path)
    .filter((path) => LOG.test(path));
const WAIT_WORDS = [
  "waiting for data",
  "waiting for the queues of those it needs",
  "waiting for predecessors",
  "in its queue",
  "starting",
  "running",
  "stopping",
];

const endText = (p) =>
  p.signal !== null ? `killed by signal ${p.signal}` : p.exit === null ? "end unknown" : `exit code ${p.exit}`;

function commandsOf(t) {
  const rows = (t.procs || []).map((i) => processRows()[i]);
  if (!rows.length) return [];
  const own = rows.filter((p) => p.tasks <= 1),
    shared = rows.filter((p) => p.tasks > 1);
  const item = (p) =>
    make(
      "li",
      {},
      make("code", {}, shownLines(p.command) || shown(p.program) || "unknown program"),
      make(
        "small",
        { class: p.signal !== null || p.exit ? "bad-words" : null },
        [
          `${p.host}:${p.pid}`,
          endText(p),
          p.dur === null ? "" : timeText(p.dur),
          p.cpu === null ? "" : `${timeText(p.cpu)} processor`,
          p.rss === null ? "" : bytesText(p.rss),
          p.tasks > 1 ? `also ran ${count(p.tasks - 1, "other task")}` : "",
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    );
  const block = (title, some) =>
    some.length ? [make("h4", {}, title), make("ul", { class: "commands" }, some.map(item))] : [];
  return own.length
    ? [
        ...block("Commands", own),
        shared.length
          ? make(
              "details",
              { class: "alternative" },
              make("summary", {}, `${count(shared.length, "process", "processes")} shared with other tasks`),
              make("ul", { class: "commands" }, shared.map(item)),
            )
          : null,
      ]
    : block("Worker, shared with other tasks", shared);
}

// What it used beside what it asked its manager for.
const coresUsed = (t) => (t.cpu !== null && t.cpu !== undefined && t.dur > 0 ? t.cpu / t.dur : null);
function usedFacts(t) {
  const asked = t.asked || {},
    used = coresUsed(t),
    rows = [];
  const beside = (words, text) => `${words || "unknown"}${text ? ` of ${text} requested` : ""}`;
  if (used !== null || asked.cores)
    rows.push(["Cores used", beside(used === null ? "" : three(used), asked.cores && numberText(asked.cores))]);
  if (t.rss || asked.memory)
    rows.push([
      "Memory, largest process",
      beside(t.rss ? bytesText(t.rss) : "", asked.memory && bytesText(asked.memory)),
    ]);
  if (asked.time) rows.push(["Time", beside(timeText(t.dur), timeText(asked.time))]);
  return rows;
}

function argumentsOf(t) {
  const words = t.args || [],
    rows = Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i], words[2 * i + 1]]);
  return rows.length
    ? [
        make("h4", {}, "Arguments"),
        facts(rows.map(([name, text]) => [shown(name), make("code", {}, shownLines(text))])),
      ]
    : [];
}

function waitFacts(t) {
  if (!t.waits) return [];
  const rows = t.waits.map((ms, i) => [WAIT_WORDS[i], ms]).filter(([, ms]) => ms);
  return rows.length
    ? [make("h4", {}, "By the workflow manager's times"), facts(rows.map(([words, ms]) => [words, timeText(ms)]))]
    : [];
}

const showTask = selectable(
  "task",
  () => data.tasks.rows,
  taskKey,
  (t) => {
    const entries = (key, total) => [
      ...pairsOf(t[key]).map(([f, amount]) => [f.path, bytesText(amount), "path", () => showFile(f)]),
      ...moreOf(t[total] || 0, pairsOf(t[key]).length),
    ];
    openPanel(
      t.name,
      "Task",
      facts([
        ["Stage", stageLink(t.stage)],
        ...(t.workflow ? [["Workflow", t.workflow]] : []),
        ...(isProcess(t) ? [] : outcomeFacts(t)),
        ["Start", timeText(t.start)],
        ["Wall time", timeText(t.dur)],
        ["in I/O", `${timeText(t.io)}, ${shareText(t.io / Math.max(t.dur, 1e-9))}`],
        ["Read", bytesText(t.read)],
        ["Written", bytesText(t.wrote)],
        ...usedFacts(t),
        [
          "Critical path",
          t.critical ? "on it" : t.slack ? `not on it: it could take ${timeText(t.slack)} longer` : "not on it",
        ],
      ]),
      errorOf(t),
      list(
        "Logs",
        logsOf(t).map((path) => [path, "", "path", fileNamed(path)]),
      ),
      argumentsOf(t),
      commandsOf(t),
      waitFacts(t),
      list("Files it read, bytes by it", entries("reads", "n_reads")),
      list("Files it wrote, bytes by it", entries("writes", "n_writes")),
      queries(taskQuery(t)),
      queryBox("All of this task: slowest calls, and what sets it apart", profileOf(t)),
    );
  },
);

// A task by its outcome: one that left events has the panel of the task.
const showLost = selectable(
  "outcome",
  () => data.outcome.rows,
  (r) => `${r.workflow}/${r.stage}/${r.task}`,
  (r) =>
    openPanel(
      r.task,
      "Task",
      facts([
        ["Stage", r.stage],
        ...(r.workflow ? [["Workflow", r.workflow]] : []),
        ...outcomeFacts(r),
        ["Start", sinceText(r.start)],
        ["End", sinceText(r.end)],
      ]),
      errorOf(r),
      make("p", { class: "hint" }, "It left no events."),
      queries("", "run.outcomes"),
    ),
);
const showOutcome = (r) => (r.row >= 0 ? showTask(data.tasks.rows[r.row]) : showLost(r));

// --- a file ----------------------------------------------------------------------------------------------------------------------

// What a file was made from and used for, by one step: the files that its writers read, and those that its readers wrote.
function linkedFiles(f, end, key) {
  const found = new Map();
  for (const t of f[end].map((i) => data.tasks.rows[i]))
    for (const [other, amount] of pairsOf(t[key]))
      if (other !== f) {
        const old = found.get(other);
        found.set(other, {
          by: old ? old.by : t.name.includes(stageName(t.stage)) ? t.name : `${stageName(t.stage)} ${t.name}`,
          amount: (old ? old.amount : 0) + amount,
        });
      }
  const rows = [...found].sort((a, b) => b[1].amount - a[1].amount);
  return [
    ...rows
      .slice(0, 10)
      .map(([other, { by, amount }]) => [
        other.path,
        `${bytesText(amount)} by ${middle(by, 24)}`,
        "path",
        () => showFile(other),
      ]),
    ...moreOf(rows.length, 10, "file"),
  ];
}

function versionsOf(f) {
  const rows = data.histories.rows.filter((r) => r.path === f.path);
  return list(
    "Versions",
    rows.map((r) => [
      `@${r.state}: ${r.how}, ${bytesText(r.bytes)} by ${actorsText(r.wrote, r.writers)}${r.readers ? `; read by ${actorsText(r.read, r.readers)}` : "; read by no one else"}`,
      timeText(r.start),
      "",
    ]),
  );
}

const showFile = selectable(
  "file",
  () => data.files.rows,
  (f) => f.path,
  (f) => {
    const kinds = [
      f.cls === "stream" ? "pipe or socket" : "file",
      f.removed ? "removed" : "",
      f.unread ? "never read by other tasks" : "",
    ]
      .filter(Boolean)
      .join(", ");
    const tasks = (key) => f[key].map((i) => data.tasks.rows[i]).map((t) => taskEntry(t, stageName(t.stage)));
    const failed = f.by.map((i) => data.tasks.rows[i]).filter((t) => FAILED.has(t.status));
    openPanel(
      make("span", { class: "path" }, f.path),
      "File",
      failed.length
        ? make("p", { class: "lost" }, `Written by a task that did not succeed: ${middle(failed[0].name)}.`)
        : null,
      facts([
        ["What", kinds],
        ["Read", `${bytesText(f.read_bytes)}${f.how_read ? `, ${f.how_read}` : ""}`],
        ["Written", `${bytesText(f.written_bytes)}${f.how_wrote ? `, ${f.how_wrote}` : ""}`],
        ["Versions", numberText(f.versions)],
        ["First use", timeText(f.first)],
        ["Last use", timeText(f.last)],
        ["Written by", f.wrote.map(stageName).join(", ") || "no task of this run"],
        ["Read by", f.read.map(stageName).join(", ") || "no task of this run"],
      ]),
      f.aliases.length
        ? list(
            "Earlier and other names",
            f.aliases.map((a) => [a, "", "path"]),
          )
        : null,
      list("Writers", [...tasks("by"), ...moreOf(f.writers, f.by.length)]),
      list("Made from, by what its writers read", linkedFiles(f, "by", "reads")),
      versionsOf(f),
      list("Readers", [...tasks("to"), ...moreOf(f.readers, f.to.length)]),
      list("Used for, by what its readers wrote", linkedFiles(f, "to", "writes")),
      queries(fileQuery(f.path)),
      queryBox("Its history, back to what nobody made", `tailrace file ${runShell} ${literal(f.path)} --up --down`),
    );
  },
);

let filesByPath = null;
function fileNamed(path) {
  if (!filesByPath) filesByPath = new Map([...data.files.rows].reverse().map((f) => [f.path, f]));
  const f = filesByPath.get(path);
  return f ? () => showFile(f) : null;
}

// --- a stage, a flow -------------------------------------------------------------------------------------------------------------

const showStage = selectable(
  "stage",
  () => [...data.stages.keys()],
  stageName,
  (i) => {
    const s = data.stages[i],
      top = (rows, key) => [...rows].sort((a, b) => b[key] - a[key]).slice(0, 8);
    const mine = data.tasks.rows.filter((t) => t.stage === i),
      news = mine.filter((t) => t.status);
    const files = (key, amount) =>
      top(
        data.files.rows.filter((f) => f[key].includes(i)),
        amount,
      ).map((f) => [f.path, bytesText(f[amount]), "path", () => showFile(f)]);
    openPanel(
      [swatch(i), s.stage],
      "Stage",
      facts([
        ["Tasks", numberText(s.tasks)],
        ...(endsOf(i).failed ? [["failed", numberText(endsOf(i).failed)]] : []),
        ...(endsOf(i).retried ? [["retried", numberText(endsOf(i).retried)]] : []),
        ["Processes", numberText(s.processes)],
        ["Wall time", timeText(s.span_ms)],
        ["with I/O running", `${timeText(s.io_ms)}, ${shareText(s.io_ms / Math.max(s.span_ms, 1e-9))}`],
        ["reading", timeText(s.read_ms)],
        ["writing", timeText(s.write_ms)],
        ["metadata", timeText(s.metadata_ms)],
        ["on pipes, sockets", timeText(s.stream_ms)],
        ["Read", bytesText(s.read_bytes)],
        ["Written", bytesText(s.written_bytes)],
        ["Files read", numberText(s.files_read)],
        ["from before the run", numberText(s.files_external)],
        ["Files written", numberText(s.files_written)],
        ["read by others", numberText(s.files_passed_on)],
        ["never read", numberText(s.files_never_read)],
        ["Failed calls", numberText(s.failed_calls)],
      ]),
      list(
        news.length ? "Tasks, those that did not simply succeed first" : "Longest tasks",
        [...news, ...top(mine, "dur").filter((t) => !t.status)].slice(0, 10).map((t) => taskEntry(t, timeText(t.dur))),
      ),
      list("Largest files read, bytes by all", files("read", "read_bytes")),
      list("Largest files written, bytes by all", files("wrote", "written_bytes")),
      queries(stageQuery(i), "stages.table(run)"),
    );
  },
);

const flowEnds = (f) => [
  f.source < 0 ? (f.undecided_bytes ? UNDECIDED : BEFORE) : stageName(f.source),
  f.target < 0 ? LEFT : stageName(f.target),
];

const showFlow = selectable(
  "flow",
  () => data.flows,
  (f) => flowEnds(f).join("→"),
  (f) => {
    const files = [
      ...f.largest.map((x) => [x.path, bytesText(x.bytes), "path", fileNamed(x.path)]),
      ...moreOf(f.files, f.largest.length, "file"),
    ];
    const pairs = [
      ...f.tasks.map((t) => [t.producer ? `${t.producer} → ${t.consumer}` : t.consumer, bytesText(t.bytes)]),
      ...moreOf(f.pairs, f.tasks.length, "pair"),
    ];
    const doubt =
      f.confidence in DOUBTS
        ? make(
            "p",
            { class: "lost" },
            `${f.confidence === "partial" ? "Partial" : "Estimated"}: ${DOUBTS[f.confidence]}.`,
          )
        : null;
    openPanel(
      flowEnds(f).join(" → "),
      "Flow",
      facts([
        ["Bytes", bytesText(f.bytes)],
        ["Files", numberText(f.files)],
        ["Pairs of tasks", numberText(f.pairs)],
      ]),
      doubt,
      list("Files, by bytes", files),
      list("Tasks, by bytes", pairs),
      queries(
        shell("tailrace graph {run} --level stage --format json"),
        "dataflow.flow_table(dataflow.model(run), 'stage')",
      ),
    );
  },
);
