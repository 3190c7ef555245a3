// The files: searched by name (earlier names, too), by fate, by stage.

const KINDS = [
  ["files", "files", (f) => f.cls !== "stream"],
  ["inputs", "inputs: read, never written", (f) => !f.writers && f.cls !== "stream"],
  ["passed", "passed on: written, read by other tasks", (f) => f.writers && !f.unread && f.cls !== "stream"],
  ["unread", "written, never read by other tasks", (f) => f.unread && f.cls !== "stream"],
  ["removed", "removed before the end", (f) => f.removed],
  ["streams", "pipes and sockets", (f) => f.cls === "stream"],
  ["all", "files, pipes and sockets", () => true],
];

function fileTable() {
  const names = data.files.rows.map((f) => [f.path, ...f.aliases].join("\n").toLowerCase()),
    box = byId("file-table");
  const kind = byId("kind"),
    stage = byId("by-stage"),
    field = byId("search");
  kind.append(...KINDS.map(([value, words]) => make("option", { value }, words)));
  stage.append(
    make("option", { value: "-1" }, "any"),
    ...data.stages.map((s, i) => make("option", { value: i }, middle(s.stage, LONG / 2))),
  );
  const columns = [
    [
      "File",
      (r) => r.path,
      (r) => [
        pathLink(r.path, () => showFile(r)),
        ...r.aliases.map((a) => make("div", { class: "path alias", dir: "ltr" }, `was ${middle(a)}`)),
      ],
      "file",
    ],
    bytesColumn("Read", "read_bytes"),
    bytesColumn("Written", "written_bytes"),
    countColumn("Versions", "versions"),
    countColumn("Writers", "writers"),
    countColumn("Readers", "readers"),
    ["Written by", (r) => r.wrote.map(stageName).join(", "), (r) => short(r.wrote.map(stageName).join(", "), 60)],
    ["Read by", (r) => r.read.map(stageName).join(", "), (r) => short(r.read.map(stageName).join(", "), 60)],
    ["Access", (r) => [r.how_read, r.how_wrote].filter(Boolean).join(", ")],
    [
      "",
      (r) =>
        [
          r.by.some((i) => FAILED.has(data.tasks.rows[i].status)) ? "its writer failed" : "",
          r.cls === "stream" ? "pipe or socket" : "",
          r.unread && r.cls !== "stream" ? "never read" : "",
          r.removed ? "removed" : "",
        ]
          .filter(Boolean)
          .join(", "),
    ],
  ];
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean),
      which = KINDS.find((k) => k[0] === kind.value)[2],
      at = +stage.value;
    const rows = data.files.rows.filter(
      (f, i) =>
        words.every((w) => names[i].includes(w)) && which(f) && (at < 0 || f.wrote.includes(at) || f.read.includes(at)),
    );
    const moved = rows.reduce((s, f) => s + f.read_bytes + f.written_bytes, 0),
      all = data.files.rows.length;
    const cut =
      data.files.total > all
        ? ` of the ${numberText(all)} that moved most (${numberText(data.files.total)} in all; the query has the others)`
        : ` of ${numberText(all)}`;
    byId("found").textContent = `${numberText(rows.length)}${cut}, ${bytesText(moved)} moved`;
    table(box, "Files by bytes moved", columns, rows, 25);
  };
  for (const [control, key] of [
    [kind, "kind"],
    [stage, "of"],
    [field, "find"],
  ]) {
    kept(key, control.value, (value) => {
      control.value = value;
      if (control.value !== value) control.value = defaults[key]; // no such choice
      search();
    });
    control.addEventListener("input", () => {
      keep(key, control.value);
      search();
    });
  }
  search();
}
