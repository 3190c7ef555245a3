// Where the run's time went, and the findings, each with its evidence and its query.

const PARTS = data.critical.words;

function spent() {
  const c = data.critical,
    parts = Object.keys(PARTS).filter((p) => c.account_ms[p] > 0);
  if (!parts.length) {
    byId("spent-part").hidden = true;
    return;
  }
  const share = (p) => c.account_ms[p] / c.makespan_ms;
  const bar = make(
    "div",
    { class: "spent", "aria-hidden": "true" },
    parts.map((p) => {
      const piece = make("span", { class: `part-${p}` });
      piece.style.flexGrow = share(p);
      return piece;
    }),
  );
  const words = parts.map((p) =>
    make(
      "li",
      { title: PARTS[p][1] },
      make("span", { class: `key part-${p}` }),
      make("strong", {}, `${timeText(c.account_ms[p])}, ${shareText(share(p))}`),
      ` ${PARTS[p][0]}`,
    ),
  );
  byId("spent").append(bar, make("ul", { class: "counts" }, words));
}

// The words of a finding, with paths relative to the directory in which the run was started.
function titleText(f) {
  return data.about.cwd.length > 1 ? f.words.replaceAll(` ${data.about.cwd.replace(/\/$/, "")}/`, " ") : f.words;
}

// A value of a row of evidence, by the unit that its key names.
function evidenceText(key, value) {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (key.endsWith("_ns") || Object.keys(PARTS).includes(key)) return timeText(value / 1e6);
  if (key.endsWith("_s")) return timeText(value * 1000);
  return key.endsWith("bytes") ? bytesText(value) : numberText(value);
}

function evidence(rows) {
  if (!rows.length) return null;
  const box = make("div"),
    keys = Object.keys(rows[0]),
    title = (key) => key.replace(/_(ns|s)$/, "").replaceAll("_", " ");
  table(
    box,
    "Evidence",
    keys.map((key) => [
      title(key),
      (r) => r[key],
      (r) => (key === "path" ? pathLink(String(r[key]), fileNamed(r[key])) : evidenceText(key, r[key])),
      typeof rows[0][key] === "number" ? "num" : "",
    ]),
    rows,
    10,
  );
  return [make("h4", {}, rows.length > 1 ? `Evidence: the ${rows.length} that cost most` : "Evidence"), box];
}

const showFinding = selectable(
  "finding",
  () => data.findings.rows,
  (f) => f.kind,
  (f) => {
    const costs = [
      ["Costs", f.cost],
      ["Cases", numberText(f.count)],
    ];
    if (f.most_ns > f.cost_ns)
      costs.push(["Between", `${timeText(f.least_ns / 1e6)} and ${timeText(f.most_ns / 1e6)}`]);
    if (f.cost_ns && f.cost_bytes) costs.push(["Bytes", bytesText(f.cost_bytes)]);
    const inPython = !f.query.startsWith("tailrace ");
    openPanel(
      f.title,
      `Finding: ${f.kind}`,
      make("p", { class: "hint" }, data.findings.about[f.about], f.estimate ? " The cost is an estimate." : ""),
      facts(costs),
      make("p", {}, f.advice),
      evidence(f.evidence),
      f.query ? queryBox(inPython ? "In Python, after import tailrace" : "On the command line", f.query) : null,
    );
  },
);

const FIRST = 3; // findings that the first screen has at most, with what to do; small ones it has none

function findings() {
  const rows = data.findings.rows,
    list = byId("findings"),
    first = Math.min(FIRST, rows.filter((f) => !f.small).length);
  if (!first)
    list.before(
      make("p", { class: "none" }, "Nothing stands out: no race, no wait and no waste worth 3 % of the run."),
    );
  if (!rows.length) {
    list.remove();
    return;
  }
  const items = rows.map((f, i) =>
    make(
      "li",
      {},
      button(
        [
          make("span", { class: `cost about-${f.about}` }, f.cost),
          make(
            "span",
            { class: "finding" },
            make("span", { class: "what" }, titleText(f)),
            i < first ? make("span", { class: "advice" }, f.advice) : null,
          ),
        ],
        () => showFinding(f),
      ),
    ),
  );
  const more = button(
    first ? `Show all ${numberText(items.length)}` : `Show ${count(items.length, "small thing")}`,
    () => {
      keep("findings", "all");
      unfold();
      items[first].querySelector("button").focus();
    },
    { class: "more" },
  );
  const unfold = () => {
    const all = state.findings === "all" || items.length <= first;
    items.forEach((item, i) => {
      item.hidden = i >= first && !all;
    });
    more.hidden = all;
  };
  kept("findings", "", unfold);
  unfold();
  list.append(...items);
  byId("more-findings").append(more);
}

const showPath = selectable(
  "path",
  () => [data.critical],
  () => "critical",
  (c) => {
    const rows = [...c.rows].sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, 40);
    const pieces = rows.map((p) => [
      p.name,
      `${timeText(p.end - p.start)}${p.gap > 0 ? `, ${timeText(p.gap)} of it waiting` : ""}`,
      "",
      p.task < 0 ? null : () => showTask(data.tasks.rows[p.task]),
    ]);
    openPanel(
      "Critical path",
      "Path",
      make(
        "p",
        { class: "hint" },
        "The chain that set the run's length, followed backwards from its end: a task's time is on it back to the moment at which its last input arrived.",
      ),
      facts([
        ["Wall time", timeText(c.makespan_ms)],
        ...Object.keys(PARTS)
          .filter((p) => c.account_ms[p] > 0)
          .map((p) => [PARTS[p][0], timeText(c.account_ms[p])]),
        ["Longest chain of work", timeText(c.bound_ms)],
      ]),
      list(
        "By stage",
        c.stages.map((s) => [s.stage, `${timeText(s.path_ms)}, ${timeText(s.io_ms)} in I/O`]),
      ),
      list(`Pieces${c.total > rows.length ? `, the longest of ${numberText(c.total)}` : ""}`, pieces),
      queries("", "insights(run).critical.path"),
    );
  },
);

// --- live and stored data over time -----------------------------------------------------------------------------------------------

function footprint() {
  const f = data.footprint,
    box = byId("footprint");
  if (!f.peak_held_bytes) {
    byId("footprint-part").hidden = true;
    return;
  }
  const narrow = box.clientWidth < 620,
    width = Math.max(200, box.clientWidth - 26 - (narrow ? 0 : NAME_WIDTH)),
    height = 90;
  const from = data.heat.from_ms,
    to = from + data.heat.bin_ms * (data.heat.read[0] || [0]).length,
    x = (ms) => Math.min(width, Math.max(0, ((ms - from) / (to - from)) * width)),
    y = (v) => height - (v / f.peak_held_bytes) * (height - 8);
  const steps = (values) =>
    `M0,${height}` +
    values
      .map((v, i) => `L${x(f.ms[i]).toFixed(1)},${y(i ? values[i - 1] : 0).toFixed(1)}V${y(v).toFixed(1)}`)
      .join("") +
    `H${width}V${height}Z`;
  const words = `At most ${bytesText(f.peak_live_bytes)} in use at a time, ${bytesText(f.peak_held_bytes)} stored.`;
  byId("footprint-hint").textContent =
    `${words} In use: written or first read, and still to be read. Stored: not removed, needed or not.`;
  const svg = draw(
    "svg",
    { width, height, role: "img", "aria-label": words },
    draw("path", { class: "held", d: steps(f.held_bytes) }),
    draw("path", { class: "live", d: steps(f.live_bytes) }),
  );
  svg.addEventListener("pointermove", (e) => {
    const ms = from + (e.offsetX / width) * (to - from),
      at = f.ms.findLastIndex((v) => v <= ms);
    showTip(
      `at ${timeText(ms)}\n${bytesText(at < 0 ? 0 : f.live_bytes[at])} in use, ${bytesText(at < 0 ? 0 : f.held_bytes[at])} stored`,
      e.clientX,
      e.clientY,
    );
  });
  svg.addEventListener("pointerleave", hideTip);
  const name = (cls, text) =>
    make("div", { class: "tree-name" }, make("span", { class: `key ${cls}` }), make("span", { class: "name" }, text));
  box.replaceChildren(
    make(
      "div",
      { class: `heat${narrow ? " narrow" : ""}` },
      make(
        "div",
        { class: "heat-row" },
        make("div", { class: "legend-names" }, name("held", "stored"), name("live", "in use")),
        svg,
      ),
      make("div", { class: "heat-row" }, make("div", { class: "tree-name" }), timeAxis(width, from, to)),
    ),
  );
}
