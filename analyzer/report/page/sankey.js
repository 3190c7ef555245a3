// The dataflow between stages: a layered Sankey diagram. One tab stop; arrow keys go through stages and flows from left to right.

const DOUBTS = {
  partial: "some calls of these processes were not recorded",
  estimated: "which of several writers some of the bytes are from is not known",
};

const flowLabel = (f) => {
  const doubt = f.confidence in DOUBTS ? `, ${f.confidence}: ${DOUBTS[f.confidence]}` : "";
  return `${flowEnds(f).join(" → ")}\n${bytesText(f.bytes)} in ${count(f.files, "file")}${doubt}`;
};

function select(...elements) {
  for (const old of document.querySelectorAll(".on")) old.classList.remove("on");
  for (const element of elements) element.classList.add("on");
  byId("sankey").classList.add("dim");
}

function sankey() {
  const box = byId("sankey");
  if (!data.stages.length) {
    box.replaceChildren(make("p", { class: "none" }, "No I/O was recorded."));
    return;
  }
  const { nodes, links, columns, step } = layout(Math.max(560, box.clientWidth - 26));
  ports(nodes);
  const bottom = Math.max(...columns.flat().map((n) => n.y + n.height));
  const loops = links.filter((l) => l.kind !== "forward");
  const height = bottom + (loops.length ? 24 + 14 * loops.filter((l) => l.kind === "back").length : 10);
  const width = Math.max(
    box.clientWidth - 26,
    STUB + 8 + (columns.length - 1) * step + BAR + (columns.length > 1 ? LABEL : 180),
  );
  const svg = draw(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": "Dataflow between stages: arrow keys go through stages and flows",
    },
    fades(),
  );
  const stops = [];
  let level = bottom + 14;
  for (const l of [...links].sort((a, b) => b.width - a.width)) {
    const d = l.kind === "forward" ? ribbonPath(l) : loopPath(l, nodes, level);
    if (l.kind === "back") level += 14;
    const stroke = l.kind === "forward" ? l.width : Math.min(3, l.width);
    const path = draw("path", {
      d,
      class: `ribbon k${tone(l.flow.source)}${l.kind === "forward" ? "" : " back"}`,
      "stroke-width": stroke,
    });
    l.element = part(path, flowLabel(l.flow), () => {
      select(path);
      showFlow(l.flow);
    });
    svg.append(path);
    stops.push([nodes[l.source].x + 0.5, nodes[l.source].y, path]);
  }
  for (const n of nodes) {
    for (const [stub, x, fade, side] of [
      [n.left, n.x - STUB, "in", -0.5],
      [n.right, n.x + BAR, "out", 0.7],
    ])
      if (stub) {
        const rect = draw("rect", {
          class: "stub",
          x,
          y: stub.y - stub.width / 2,
          width: STUB,
          height: stub.width,
          fill: `url(#fade-${fade})`,
        });
        svg.append(
          part(rect, flowLabel(stub.flow), () => {
            select(rect);
            showFlow(stub.flow);
          }),
        );
        stops.push([n.x + side, n.y, rect]);
      }
  }
  for (const n of nodes)
    stops.push([n.x, n.y, stageNode(svg, n, links, n.layer < columns.length - 1 ? step : step && LABEL)]);
  for (const l of links) if (l.kind === "forward" && l.width >= 9) ribbonLabel(svg, l);
  roving(stops.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((s) => s[2]));
  box.replaceChildren(svg);
  byId("sankey-cut").textContent =
    nodes.length < data.stages.length
      ? `The ${nodes.length} stages with the largest flows of ${numberText(data.stages.length)} are drawn; the table has all flows.`
      : "";
}

function fades() {
  const defs = draw("defs");
  for (const [name, first, last] of [
    ["in", 0, 0.75],
    ["out", 0.75, 0],
  ]) {
    const stops = [
      [0, first],
      [1, last],
    ].map(([offset, opacity]) => draw("stop", { offset, "stop-color": "var(--s-other)", "stop-opacity": opacity }));
    defs.append(draw("linearGradient", { id: `fade-${name}` }, stops));
  }
  return defs;
}

function ribbonLabel(svg, l) {
  const [a, b] = l.chain,
    over = l.chain.length === 2 ? [(a.x + BAR + b.x) / 2, (l.from + l.to) / 2] : [b.x + BAR / 2, b.y + b.height / 2];
  svg.append(
    draw(
      "text",
      {
        x: over[0],
        y: over[1] + 4,
        class: "small halo",
        "text-anchor": "middle",
        "pointer-events": "none",
        "aria-hidden": "true",
      },
      bytesText(l.bytes),
    ),
  );
}

// As much of a name as fits into so many pixels.
function fitting(name, width) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `620 13px ${getComputedStyle(document.body).fontFamily}`;
  let length = Math.min(name.length, Math.ceil(width / 3));
  while (length > 4 && pen.measureText(short(name, length)).width > width) length--;
  return short(name, length);
}

function stageNode(svg, n, links, room) {
  const s = data.stages[n.stage];
  const words = s.tasks ? count(s.tasks, "task") : count(s.processes, "process", "processes");
  const ends = endsOf(n.stage),
    label = `${s.stage}\n${words}${ends.failed ? `, ${numberText(ends.failed)} failed` : ""}${ends.retried ? `, ${numberText(ends.retried)} retried` : ""}, ${timeText(s.span_ms)}\n${bytesText(s.read_bytes)} read, ${bytesText(s.written_bytes)} written`;
  const bar = draw("rect", { class: `node s${tone(n.stage)}`, x: n.x, y: n.y, width: BAR, height: n.height, rx: 3 });
  svg.append(
    part(bar, label, () => {
      select(bar, ...links.filter((l) => l.source === n.place || l.target === n.place).map((l) => l.element));
      showStage(n.stage);
    }),
  );
  const at = { x: n.x, "aria-hidden": "true" };
  svg.append(draw("text", { ...at, y: n.y - 20, class: "name halo" }, fitting(shown(s.stage), room ? room - 8 : 480)));
  svg.append(
    draw(
      "text",
      { ...at, y: n.y - 6, class: "small halo" },
      `${words} · ${timeText(s.span_ms)}`,
      ...(ends.failed
        ? [draw("tspan", { class: "bad-words" }, ` · ${numberText(ends.failed)} failed`)]
        : ends.retried
          ? [` · ${numberText(ends.retried)} retried`]
          : []),
    ),
  );
  return bar;
}
