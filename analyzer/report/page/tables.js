// Tables: sorted by a click on a head, long ones page by page, wide ones in a region that scrolls by itself.

// The column by which each table is sorted: by the id of its box, and then in the address; by the box itself where it has none.
const sorts = new Map(),
  resort = new Map();
kept("sort", "", (value) => {
  sorts.clear();
  for (const part of value.split(",").filter(Boolean)) {
    const [id, column, way] = part.split(".");
    sorts.set(id, { column: +column, up: way === "up" });
  }
  for (const act of resort.values()) act();
});

// columns: [title, value for sorting and copying, cell (text, node or list) by default the value, class, unit of the value].
function table(box, caption, columns, rows, first) {
  if (!rows.length) {
    box.replaceChildren(make("p", { class: "none" }, "None."));
    return;
  }
  let shown = first,
    sorted = rows;
  const own = box.id || box;
  const body = make("tbody"),
    heads = columns.map(([title, , , cls], column) =>
      make(
        "th",
        { scope: "col", class: cls || null },
        title
          ? button(title, () => {
              const old = sorts.get(own) || {},
                up = old.column === column ? !old.up : cls !== "num";
              sorts.set(own, { column, up });
              sort();
              if (box.id)
                keep(
                  "sort",
                  [...sorts]
                    .filter(([id]) => typeof id === "string")
                    .map(([id, s]) => `${id}.${s.column}.${s.up ? "up" : "down"}`)
                    .join(","),
                );
            })
          : make("span", { class: "unseen" }, "Notes"),
      ),
    );
  const sort = () => {
    const by = sorts.get(own),
      column = by && columns[by.column];
    heads.forEach((head, i) => {
      if (column && i === by.column) head.setAttribute("aria-sort", by.up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const sign = by && by.up ? 1 : -1,
      compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    sorted = column ? [...rows].sort((a, b) => sign * compare(column[1](a), column[1](b))) : rows;
    shown = first;
    refill();
  };
  const more = button(
    "",
    () => {
      shown += Math.max(100, first);
      refill();
    },
    { class: "more" },
  );
  const refill = () => {
    body.replaceChildren(
      ...sorted
        .slice(0, shown)
        .map((row) =>
          make(
            "tr",
            {},
            ...columns.map(([, value, cell, cls]) =>
              make("td", { class: cls || null }, cell ? cell(row) : middle(String(value(row)))),
            ),
          ),
        ),
    );
    more.hidden = sorted.length <= shown;
    more.textContent = `Show more: ${numberText(Math.min(Math.max(100, first), sorted.length - shown))} of ${numberText(sorted.length - shown)}`;
  };
  const done = make("span", { role: "status", class: "hint" });
  const copy = button(
    "Copy as TSV",
    async () => {
      done.textContent = (await copyText(tsv(columns, sorted)))
        ? `copied ${count(sorted.length, "row")}`
        : "can't be copied here";
    },
    { class: "small-button", "aria-label": `Copy as TSV: ${caption}` },
  );
  if (box.id) resort.set(box.id, sort);
  sort();
  box.replaceChildren(
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` },
      make("table", {}, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, heads)), body),
    ),
    make("div", { class: "table-tools" }, more, done, copy),
  );
}

const named = (i) => [swatch(i), middle(stageName(i), LONG / 2)];
const stageLink = (i) => (i < 0 ? BEFORE : button(named(i), () => showStage(i), { class: "link" }));
const pathLink = (path, act) =>
  act
    ? button(middle(path), act, { class: "link path", dir: "ltr" })
    : make("span", { class: "path", dir: "ltr" }, middle(path));
const bytesColumn = (title, key) => [title, (r) => r[key], (r) => bytesText(r[key]), "num", "bytes"];
const timeColumn = (title, key) => [title, (r) => r[key], (r) => timeText(r[key]), "num", "ms"];
const countColumn = (title, key) => [title, (r) => r[key], (r) => numberText(r[key]), "num"];

function ioStrip(s) {
  const svg = draw(
    "svg",
    {
      width: 120,
      height: 10,
      class: "strip",
      role: "img",
      "aria-label": `I/O ${timeText(s.io_ms)} of ${timeText(s.span_ms)}`,
    },
    draw("rect", { class: "room", width: 120, height: 10, rx: 2 }),
  );
  let x = 0;
  for (const kind of ["read", "write", "metadata"]) {
    const width = Math.min(120 - x, (120 * s[`${kind}_ms`]) / Math.max(s.span_ms, 1e-9));
    svg.append(draw("rect", { class: kind, x, width: Math.max(0, width), height: 10 }));
    x += width;
  }
  return svg;
}

const callsOf = (r) => r.read_calls + r.write_calls + r.metadata_calls + r.stream_calls;

function stageTable() {
  table(
    byId("stage-table"),
    "Stages",
    [
      ["Stage", (r) => r.stage, (r) => stageLink(data.stages.indexOf(r))],
      countColumn("Tasks", "tasks"),
      ...(stageEnds.size
        ? [
            [
              "Failed",
              (r) => endsOf(data.stages.indexOf(r)).failed,
              (r) => failedTag(data.stages.indexOf(r)) || "0",
              "num",
            ],
          ]
        : []),
      countColumn("Processes", "processes"),
      timeColumn("Wall", "span_ms"),
      timeColumn("I/O", "io_ms"),
      ["Share", (r) => r.io_ms / Math.max(r.span_ms, 1e-9), ioStrip, "keep"],
      bytesColumn("Read", "read_bytes"),
      bytesColumn("Written", "written_bytes"),
      ["Calls", callsOf, (r) => numberText(callsOf(r)), "num"],
      countColumn("Files read", "files_read"),
      countColumn("written", "files_written"),
      countColumn("passed on", "files_passed_on"),
      countColumn("never read", "files_never_read"),
    ],
    data.stages,
    50,
  );
  for (const text of [data.untagged.text, data.levels]) {
    if (text) byId("stage-table").append(make("p", { class: "hint" }, text));
  }
}

function outcomeTable() {
  const { rows, total } = data.outcome;
  if (!rows.length) {
    byId("outcomes").hidden = true;
    return;
  }
  table(
    byId("outcome-table"),
    "Tasks that did not simply succeed",
    [
      ["Task", (r) => r.task, (r) => button(middle(r.task), () => showOutcome(r), { class: "link" })],
      ["Stage", (r) => r.stage],
      ["Outcome", (r) => r.status, (r) => outcomeTag(r.status), "keep"],
      countColumn("Tries", "tries"),
      ["Error", (r) => firstLine(r.error), (r) => middle(firstLine(r.error), 2 * LONG)],
      ["Started", (r) => r.start ?? -1, (r) => sinceText(r.start), "num"],
      ["Ended", (r) => r.end ?? -1, (r) => sinceText(r.end), "num"],
      timeColumn("Lost", "lost"),
    ],
    rows,
    15,
  );
  if (total > rows.length)
    byId("outcomes-cut").textContent =
      `The first ${numberText(rows.length)} of ${numberText(total)}; the query has the others.`;
}

// The program's own regions. Steps are too many for a page; the query has them.
function regionTable() {
  const { rows, total } = data.regions;
  if (!rows.length) {
    byId("regions").hidden = true;
    return;
  }
  const time = (title, key) => [
    title,
    (r) => r[key] ?? -1,
    (r) => (r[key] === null ? "–" : timeText(r[key])),
    "num",
    "ms",
  ];
  table(
    byId("region-table"),
    "Regions",
    [
      ["Region", (r) => r.region],
      ["Category", (r) => r.category || ""],
      countColumn("Times", "count"),
      time("Time", "time_ms"),
      time("I/O", "io_ms"),
      bytesColumn("Read", "read_bytes"),
      bytesColumn("Written", "written_bytes"),
      time("Unoverlapped I/O", "unoverlapped_ms"),
      time("of the application", "unoverlapped_app_ms"),
      ["Never ended", (r) => r.open, (r) => numberText(r.open), "num"],
    ],
    rows,
    15,
  );
  if (total > rows.length)
    byId("regions-cut").textContent =
      `The first ${numberText(rows.length)} of ${numberText(total)}; the query has the others.`;
}

// What the tasks of each stage asked for, beside the most that one of them used.
function requestTable() {
  const stages = new Map();
  for (const t of data.tasks.rows)
    if (t.asked) {
      const row = stages.get(t.stage) || {
        stage: t.stage,
        tasks: 0,
        cores: null,
        cores_used: null,
        memory: null,
        memory_used: null,
        time: null,
        time_used: null,
      };
      const most = (key, value) => {
        if (value !== null && value !== undefined) row[key] = Math.max(row[key] ?? 0, value);
      };
      row.tasks += 1;
      for (const key of ["cores", "memory", "time"]) most(key, t.asked[key]);
      most("cores_used", coresUsed(t));
      most("memory_used", t.rss);
      most("time_used", t.dur);
      stages.set(t.stage, row);
    }
  if (!stages.size) {
    byId("requests-part").hidden = true;
    return;
  }
  const column = (title, key, text, unit) => [
    title,
    (r) => r[key] ?? -1,
    (r) => (r[key] === null ? "–" : text(r[key])),
    "num",
    unit,
  ];
  table(
    byId("request-table"),
    "What the tasks of each stage requested and used",
    [
      ["Stage", (r) => stageName(r.stage), (r) => stageLink(r.stage)],
      countColumn("Tasks", "tasks"),
      column("Cores requested", "cores", numberText),
      column("used", "cores_used", three),
      column("Memory requested", "memory", bytesText, "bytes"),
      column("used", "memory_used", bytesText, "bytes"),
      column("Time requested", "time", timeText, "ms"),
      column("used", "time_used", timeText, "ms"),
    ],
    [...stages.values()],
    15,
  );
}

function waitTable() {
  if (!data.waits.length) {
    byId("waits").hidden = true;
    return;
  }
  const column = (title, key) => [
    title,
    (r) => r[key] ?? -1,
    (r) => (r[key] === null ? "–" : timeText(r[key])),
    "num",
    "ms",
  ];
  table(
    byId("wait-table"),
    "Where the tasks' time went, summed over the tasks of each stage",
    [
      ["Stage", (r) => r.stage, (r) => [middle(r.stage, LONG / 2), " ", tagOf(endsByStage(r.stage))]],
      countColumn("Tasks", "tasks"),
      column("Waiting for data", "data_ms"),
      column("For predecessors", "order_ms"),
      column("For their queues", "upstream_ms"),
      column("In the own queue", "queue_ms"),
      column("Starting", "start_ms"),
      column("I/O", "io_ms"),
      column("Waiting for processes", "wait_ms"),
      column("Computing", "compute_ms"),
      ...(data.waits.some((r) => r.stop_ms) ? [column("Stopping", "stop_ms")] : []),
    ],
    data.waits,
    50,
  );
}

function flowTable() {
  table(
    byId("flow-table"),
    "Flows between stages",
    [
      [
        "Flow",
        (r) => flowEnds(r).join(" → "),
        (r) => button(flowEnds(r).join(" → "), () => showFlow(r), { class: "link" }),
      ],
      bytesColumn("Bytes", "bytes"),
      countColumn("Files", "files"),
      countColumn("Pairs of tasks", "pairs"),
      [
        "Largest file",
        (r) => (r.largest[0] ? r.largest[0].path : ""),
        (r) => (r.largest[0] ? pathLink(r.largest[0].path, fileNamed(r.largest[0].path)) : ""),
      ],
    ],
    [...data.flows].sort((a, b) => b.bytes - a.bytes),
    20,
  );
}

const AGREE = new Set(["observed", "value only"]);
const taskName = (r, end) =>
  !r[`${end}_stage`] || r[end].includes(r[`${end}_stage`]) ? r[end] : `${r[`${end}_stage`]} ${r[end]}`;
const statusTag = (status, words, bad) =>
  make("span", { class: `tag${bad && /^(not|undeclared)/.test(status) ? " bad" : ""}` }, words);

function declaredTable() {
  const counts = data.declared.counts,
    rows = data.declared.rows;
  if (!rows.length) {
    byId("declared").hidden = true;
    return;
  }
  byId("declared-counts").append(
    ...Object.keys(data.declared.statuses)
      .filter((s) => counts[s])
      .map((s) => make("li", {}, statusTag(s, `${numberText(counts[s])} ${s}`, counts[s]), ` ${data.declared.statuses[s]}`)),
  );
  const columns = [
    ["From task", (r) => taskName(r, "producer")],
    ["To task", (r) => taskName(r, "consumer")],
    ["Declared by", (r) => r.via],
    ["Status", (r) => r.status, (r) => statusTag(r.status, r.status, true)],
    bytesColumn("Bytes", "bytes"),
    countColumn("Files", "files"),
    [
      "",
      (r) => r.path,
      (r) =>
        r.through
          ? `through ${r.through}`
          : r.status === "undeclared"
            ? data.declared.order_words[r.order]
            : r.path
              ? pathLink(r.path, fileNamed(r.path))
              : "",
    ],
  ];
  const agree = rows.filter((r) => AGREE.has(r.status)),
    apart = rows.filter((r) => !AGREE.has(r.status) && r.status !== "untraced");
  if (apart.length)
    table(byId("declared-table"), "Dependencies in which the manager and the data disagree", columns, apart, 15);
  else
    byId("declared-table").replaceChildren(
      make(
        "p",
        { class: "none" },
        agree.length ? "The manager and the data agree." : "Of none of them both tasks were traced.",
      ),
    );
  if (!agree.length) {
    byId("agree-part").hidden = true;
    return;
  }
  byId("agree-words").textContent = `${count(agree.length, "dependency", "dependencies")} in which they agree`;
  table(byId("agree-table"), "Dependencies in which the manager and the data agree", columns, agree, 15);
}

function lossTable() {
  table(byId("loss-table"), "Losses", [["What was lost", (r) => r.text]], data.losses, 50);
  if (!data.losses.length)
    byId("loss-table").replaceChildren(
      make("p", { class: "none" }, data.coverage.causes.length ? "No recorded event was lost." : "Nothing was lost."),
    );
  if (!data.coverage.causes.length) {
    byId("below-part").hidden = true;
    return;
  }
  table(
    byId("below-table"),
    "Processes not fully recorded, by cause",
    [
      countColumn("Processes", "processes"),
      bytesColumn("By the kernel", "kernel_bytes"),
      bytesColumn("Missing", "missing_bytes"),
      ["Share", (r) => r.share, (r) => shareText(r.share), "num"],
      ["Most of it", (r) => `${r.host}:${r.pid} ${r.exe.split("/").pop()}`],
      ["Cause", (r) => r.cause],
    ],
    data.coverage.causes,
    15,
  );
}
