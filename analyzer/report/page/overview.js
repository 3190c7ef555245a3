// The head of the page, the ten numbers with the query behind each, coverage and losses.

const UNITS = { ns: (v) => timeText(v / 1e6), bytes: bytesText, share: shareText, count: numberText };

function header() {
  const a = data.about;
  byId("title").textContent = shown(a.title || a.directory || "Run");
  byId("run-id").textContent = a.run_id ? `run ${a.run_id}` : "";
  const created = a.created
    .replace("T", " ")
    .replace(/\.\d+/, "")
    .replace(/Z$|\+00:00$/, " UTC");
  byId("about").textContent = [
    created,
    a.host && `on ${a.host}`,
    a.user && `by ${a.user}`,
    a.directory,
    a.hashed_names && `names are hashed, by the key ${a.hashed_names}`,
  ]
    .filter(Boolean)
    .map(shown)
    .join(" · ");
  byId("footer").textContent =
    `Made by tailrace ${a.version}. This page is one file: it loads nothing and sends nothing.`;
}

const declaredTasks = () => Object.values(data.outcome.counts).reduce((s, v) => s + v, 0);

// The small line below a number.
function note(key) {
  const n = data.numbers,
    part = (of, whole) => (whole ? `${shareText(of / whole)} of ${bytesText(whole)}` : "of nothing");
  return {
    span_ns: "first to last event",
    bound_ns: n.span_ns ? `${shareText(n.bound_ns / n.span_ns)} of the wall time` : "",
    tasks: `${data.outcome.done ? "all done, " : ""}${declaredTasks() > n.tasks ? `of ${numberText(declaredTasks())} declared, ` : ""}in ${count(n.stages, "stage")}${n.workflows > 1 ? ` of ${count(n.workflows, "workflow")}` : ""}`,
    processes: `on ${count(n.hosts, "host")}`,
    read_bytes: "files, pipes, sockets",
    written_bytes: "files, pipes, sockets",
    passed_bytes: part(n.passed_bytes, n.read_bytes),
    io_share: `${timeText(n.io_ns / 1e6)} of wall time`,
    peak_bytes: `in ${count(n.files, "data file")}`,
    seen_share: "of the kernel's bytes",
  }[key];
}

function outcome() {
  const { verdict, words, level, rows } = data.outcome,
    box = byId("outcome");
  box.classList.add(level || (verdict === "Succeeded" ? "fine" : "unknown"));
  box.append(make("strong", {}, `${verdict}.`), " ", shown(words));
  if (rows.length) box.append(" ", make("a", { href: "#outcomes" }, "Which tasks"));
}

// What `tailrace info --summary` says of the whole run.
function figures() {
  const n = data.numbers,
    share = (ns) => (n.span_ns ? ` (${shareText(ns / n.span_ns)})` : ""),
    time = (ns) => timeText(ns / 1e6);
  const rows = [
    [
      "Allocation",
      [
        count(n.hosts, "host"),
        count(n.stages, "stage"),
        count(n.tasks, "task"),
        count(n.processes, "process", "processes"),
        count(n.threads, "thread"),
      ].join(", "),
    ],
    [
      "Data set",
      `${count(n.all_files, "file")}, ${numberText(n.files)} of them data; ${bytesText(n.read_bytes)} read, ${bytesText(n.written_bytes)} written`,
    ],
    ["Time", `${time(n.span_ns)}; at least one call on a file was running for ${time(n.io_ns)}${share(n.io_ns)}`],
    [
      "of it reading",
      `${time(n.read_ns)}${share(n.read_ns)}; writing ${time(n.write_ns)}${share(n.write_ns)}; metadata ${time(n.metadata_ns)}${share(n.metadata_ns)}`,
    ],
    ["Calls", numberText(n.calls)],
    [
      "Bandwidth",
      n.io_ns ? `${bytesText((n.read_bytes + n.written_bytes) / (n.io_ns / 1e9))}/s while calls on files ran` : "",
    ],
    ["Collective calls", n.collectives && collectiveWords(n.collectives)],
    ["Processor", n.processor_ns === null ? "unknown" : `${time(n.processor_ns)} in all processes`],
  ];
  byId("figures").append(
    facts(rows.filter(([, words]) => words)),
    queryBox("The same on a terminal", shell("tailrace info {run} --summary")),
  );
  functionTable();
}

const collectiveWords = (c) => {
  const time = (ns) => timeText(ns / 1e6);
  return `${count(c.calls, "call")} of ${count(c.ranks, "rank")} of MPI-IO, ${time(c.time_ns)}: ${time(c.io_ns)} in system calls on the file, ${time(c.waited_ns)} before the last rank came, ${time(c.rest_ns)} within MPI`;
};

function functionTable() {
  const size = (title, key) => [
    title,
    (r) => r[key] ?? -1,
    (r) => (r[key] === null ? "–" : bytesText(r[key])),
    "num",
    "bytes",
  ];
  table(
    byId("function-table"),
    "Functions, by the time in their calls",
    [
      ["Function", (r) => r.name],
      ["Layer", (r) => r.layer, null, "keep"],
      countColumn("Calls", "calls"),
      ["Time in calls", (r) => r.time_ns / 1e6, (r) => timeText(r.time_ns / 1e6), "num", "ms"],
      ["Bytes", (r) => r.bytes, (r) => (r.bytes ? bytesText(r.bytes) : "–"), "num", "bytes"],
      size("Least", "min"),
      size("25%", "p25"),
      size("Median", "median"),
      size("75%", "p75"),
      size("Largest", "max"),
      [
        "Bandwidth",
        (r) => r.bandwidth ?? -1,
        (r) => (r.bandwidth === null ? "–" : `${bytesText(r.bandwidth)}/s`),
        "num",
        "bytes per s",
      ],
    ],
    data.functions,
    15,
  );
}

const valueText = (item) => (data.numbers[item.key] === null ? "unknown" : UNITS[item.unit](data.numbers[item.key]));
const showNumber = selectable(
  "number",
  () => data.overview,
  (item) => item.key,
  (item) => {
    const value = data.numbers[item.key],
      words = valueText(item);
    openPanel(
      `${item.title}: ${words}`,
      "Number",
      make("p", {}, item.meaning),
      item.unit !== "share" && words !== String(value) && value !== null
        ? facts([["Exactly", `${numberText(value)} ${item.unit === "count" ? "" : item.unit}`]])
        : null,
      queries(item.shell && shell(item.shell), item.python),
    );
  },
);

function overview() {
  for (const item of data.overview) {
    const words = valueText(item),
      show = () => showNumber(item);
    const tile = button(
      [
        make("span", { class: "number-name" }, item.title),
        make("span", { class: "number-value" }, words),
        make("span", { class: "number-note" }, note(item.key)),
      ],
      show,
    );
    byId("numbers").append(make("li", {}, tile));
  }
  byId("verdict").textContent = shown(data.verdict.text);
  byId("coverage").append(...data.losses.map((l) => make("p", { class: "lost" }, `Lost: ${l.text}`)));
  byId("coverage-words").textContent = shown(data.coverage.text);
}

function navigation() {
  const links = [...document.querySelectorAll("main > section:not([hidden])")].map((section) => {
    const link = make("a", { href: `#${section.id}` }, section.dataset.nav || section.querySelector("h2").textContent);
    const heading = section.querySelector("h2");
    if (section.id !== "overview")
      heading.append(
        make("a", { href: `#${section.id}`, class: "anchor", "aria-label": `Link to: ${heading.textContent}` }, "#"),
      );
    byId("sections").append(link);
    return [section, link];
  });
  const mark = () => {
    const here = links.filter(([section]) => section.getBoundingClientRect().top < innerHeight / 3).pop() || links[0];
    for (const [, link] of links)
      if (link === here[1]) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
  };
  document.addEventListener("click", (e) => {
    const to = e.target.closest && e.target.closest('a[href^="#"]:not(.skip)');
    if (!to || e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    goToSection(to.getAttribute("href").slice(1));
  });
  addEventListener("scroll", mark, { passive: true });
  mark();
}
