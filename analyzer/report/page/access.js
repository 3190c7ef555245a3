// How the stages access their files: stages by kinds of access, as a table whose cells are coloured.

const access = { of: "bytes" };
const ACCESS = {
  bytes: ["Bytes", 0, bytesText],
  calls: ["Calls", 1, numberText],
  time: ["Time in calls", 2, timeText],
};

function accessMatrix() {
  const { patterns, rows } = data.access,
    [title, at, words] = ACCESS[access.of],
    box = byId("access-matrix"),
    colours = ramp();
  if (!rows.length) {
    byId("access").hidden = true;
    return;
  }
  const scale = scaleOf(rows.flatMap((r) => Object.values(r.kinds).map((k) => k[at]))),
    name = (r) => `${stageName(r.stage)} ${r.dir}s`;
  const head = patterns.map(([kind, meaning]) => make("th", { scope: "col", title: meaning }, kind));
  const cell = (r, kind) =>
    heatCell(
      (r.kinds[kind] || [0, 0, 0])[at],
      scale,
      colours,
      r.kinds[kind]
        ? `${name(r)}, ${kind}\n${bytesText(r.kinds[kind][0])} in ${count(r.kinds[kind][1], "call")}, ${timeText(r.kinds[kind][2])}`
        : "",
      words,
    );
  const body = rows.map((r) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, stageLink(r.stage), make("small", {}, ` ${r.dir}s`)),
      patterns.map(([kind]) => cell(r, kind)),
      make("td", { class: "plain" }, r.calls ? bytesText(r.bytes / r.calls) : "–"),
      make("td", { class: "plain" }, numberText(r.calls)),
      make("td", { class: "plain" }, r.ms ? `${bytesText(r.bytes / (r.ms / 1000))}/s` : "–"),
    ),
  );
  box.replaceChildren(
    make(
      "table",
      { class: "matrix", "aria-label": `${title} by stage and kind of access` },
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("th", { scope: "col" }, "Stage"),
          head,
          make("th", { scope: "col" }, "a call"),
          make("th", { scope: "col" }, "calls"),
          make("th", { scope: "col" }, "bandwidth"),
        ),
      ),
      make("tbody", {}, body),
    ),
  );
  fill(box, { tabindex: "0", role: "region", "aria-label": "Table: kinds of access by stage" }, []);
  byId("access-words").replaceChildren(
    ...patterns.map(([kind, meaning]) => make("li", {}, make("strong", {}, kind), `: ${meaning}`)),
  );
}

function accessTools() {
  byId("access-tools").append(
    choice("access", "Cells show", ACCESS, access.of, (key) => {
      access.of = key;
      accessMatrix();
    }),
  );
}
