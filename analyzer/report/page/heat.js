// Heat maps: stages over time on canvases, families of files by stage as a table whose cells are coloured. The scale is logarithmic,
// since bytes of a run lie orders of magnitude apart.

const METRICS = {
  read: ["Bytes read", "read", bytesText],
  wrote: ["Bytes written", "written", bytesText],
  calls: ["Calls", "calls", (v) => numberText(Math.round(v))],
  busy: ["I/O running", "calls running", three],
};
const heat = { metric: "read", row: 0, bin: 0, marked: false };

// "#rrggbb" to [r, g, b], and a colour `share` of the way along the ramp.
const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

function ramp() {
  const stops = [0, 1, 2, 3].map((i) => parts(colour(`--heat-${i}`)));
  return (share) => {
    const at = Math.min(0.99999, Math.max(0, share)) * (stops.length - 1),
      i = Math.floor(at);
    return stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * (at - i)));
  };
}

const css = (rgb) => `rgb(${rgb.join(" ")})`;
const luminance = (rgb) =>
  rgb
    .map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);

// From value to share of the ramp: 0 stays 0, the least value is still seen, the largest is 1.
function scaleOf(values) {
  const some = values.filter((v) => v > 0),
    most = some.reduce((m, v) => Math.max(m, v), 0),
    least = Math.max(
      some.reduce((m, v) => Math.min(m, v), Infinity),
      most / 1e5,
    );
  const length = Math.log(most / least) || 1;
  return { most, least, share: (v) => (v <= 0 ? 0 : 0.12 + 0.88 * Math.max(0, Math.log(v / least) / length)) };
}

function legend(scale, words, colours) {
  const [canvas, pen] = canvasOf(120, 10);
  for (let x = 0; x < 120; x++) {
    pen.fillStyle = css(colours(0.12 + (0.88 * x) / 119));
    pen.fillRect(x, 0, 1, 10);
  }
  return make(
    "div",
    { class: "legend" },
    make("span", {}, words(scale.least)),
    canvas,
    make("span", {}, words(scale.most)),
  );
}

function heatTime() {
  const h = data.heat,
    box = byId("heat-time"),
    [title, verb, words] = METRICS[heat.metric],
    rows = h[heat.metric],
    values = rows.flat();
  const binText = timeText(h.bin_ms);
  byId("heat-hint").textContent =
    heat.metric === "calls"
      ? `Each cell is ${binText}: reads, writes and metadata calls on files, those of a process spread evenly over its time in them.`
      : heat.metric === "busy"
        ? `Each cell is ${binText}: how many processes were inside a read, write or metadata call, on average.`
        : `Each cell is ${binText}: bytes ${verb}, spread evenly over the time of the calls. Stages that moved none stay empty.`;
  if (!values.some((v) => v > 0)) {
    box.replaceChildren(make("p", { class: "none" }, `${title}: none.`));
    return;
  }
  const narrow = box.clientWidth < 620,
    width = Math.max(200, box.clientWidth - 26 - (narrow ? 0 : NAME_WIDTH)),
    colours = ramp(),
    scale = scaleOf(values);
  const map = make("div", {
    class: `heat${narrow ? " narrow" : ""}`,
    role: "group",
    tabindex: "0",
    "aria-label": `${title} by stage over time, arrow keys go from cell to cell, Enter shows the query`,
  });
  const said = make("span", { class: "unseen", role: "status" }),
    bins = rows[0].length,
    strips = [];
  rows.forEach((row, r) => {
    const [canvas, pen] = canvasOf(width, 20),
      x = (i) => Math.round((i * width) / bins);
    const paint = (mark) => {
      pen.clearRect(0, 0, width, 20);
      row.forEach((v, i) => {
        pen.fillStyle = css(colours(scale.share(v)));
        pen.fillRect(x(i), 0, x(i + 1) - x(i), 18);
      });
      if (mark !== undefined) {
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(x(mark) - 1, 1, x(mark + 1) - x(mark) + 2, 16);
      }
    };
    const bin = (e) => Math.min(bins - 1, Math.max(0, Math.floor((e.offsetX / width) * bins)));
    paint();
    canvas.addEventListener("pointermove", (e) => showTip(cellText(r, bin(e)), e.clientX, e.clientY));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (e) => showCell(r, bin(e)));
    strips.push({ canvas, paint });
    map.append(
      make(
        "div",
        { class: "heat-row" },
        make(
          "div",
          { class: "tree-name" },
          swatch(h.stage[r]),
          make("span", { class: "name" }, stageName(h.stage[r])),
          failedTag(h.stage[r]),
        ),
        canvas,
      ),
    );
  });
  map.append(
    make(
      "div",
      { class: "heat-row" },
      make("div", { class: "tree-name" }),
      timeAxis(width, h.from_ms, h.from_ms + h.bin_ms * bins),
    ),
  );
  map.addEventListener("keydown", (e) => heatKey(e, strips, bins, said));
  map.addEventListener("blur", () => {
    hideTip();
    strips.forEach((s) => s.paint());
  });
  box.replaceChildren(
    map,
    legend(scale, heat.metric === "busy" ? words : (v) => words(v), colours),
    said,
    heatTable(title, rows, words),
  );
}

function cellText(r, bin) {
  const h = data.heat,
    from = h.from_ms + bin * h.bin_ms,
    [, verb, words] = METRICS[heat.metric];
  return `${stageName(h.stage[r])}, ${timeText(from)} to ${timeText(from + h.bin_ms)}\n${words(h[heat.metric][r][bin])} ${verb}`;
}

const cells = data.heat.stage.map((_, r) => (data.heat.read[r] || []).map((_, bin) => ({ r, bin })));
const showCell = (r, bin) => selectCell(cells[r][bin]);
const selectCell = selectable(
  "cell",
  () => cells.flat(),
  (c) => `${c.r}.${c.bin}`,
  ({ r, bin }) => {
    const h = data.heat,
      s = (ms) => ((ms + data.about.lead_ms) / 1000).toFixed(6),
      stage = stageName(h.stage[r]),
      from = h.from_ms + bin * h.bin_ms,
      to = from + h.bin_ms;
    const running = data.tasks.rows.filter((t) => t.stage === h.stage[r] && t.end >= from && t.start < to);
    const rows = running.slice(0, 12).map((t) => [t.name, timeText(t.dur), "", () => showTask(t)]);
    if (running.length > rows.length) rows.push([`and ${numberText(running.length - rows.length)} more`, ""]);
    openPanel(
      `${stage}, ${timeText(from)} to ${timeText(to)}`,
      "Time",
      facts([
        ["Read", bytesText(h.read[r][bin])],
        ["Written", bytesText(h.wrote[r][bin])],
        ["Calls", `about ${numberText(Math.round(h.calls[r][bin]))}`],
        ["Calls running", three(h.busy[r][bin])],
      ]),
      make("p", { class: "hint" }, "The query has the calls that touch this time, each with all of its bytes."),
      list("Tasks that run in it", rows),
      queries(
        ask(
          ofStage(h.stage[r]),
          `--since ${s(from)} --until ${s(to)}`,
          "--by path,dir --agg sum:size --agg count --sort sum_size",
        ),
        "summary.collect(run)['heat']",
      ),
    );
  },
);

function heatKey(e, strips, bins, said) {
  const step = {
    ArrowRight: [0, 1],
    ArrowLeft: [0, -1],
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    Home: [0, -bins],
    End: [0, bins],
  }[e.key];
  if (e.key === "Enter") showCell(heat.row, heat.bin);
  else if (!step) return;
  e.preventDefault();
  if (!step) return;
  if (heat.marked) {
    heat.row = Math.min(strips.length - 1, Math.max(0, heat.row + step[0]));
    heat.bin = Math.min(bins - 1, Math.max(0, heat.bin + step[1]));
  }
  heat.marked = true;
  strips.forEach((s, r) => s.paint(r === heat.row ? heat.bin : undefined));
  const box = strips[heat.row].canvas.getBoundingClientRect(),
    text = cellText(heat.row, heat.bin);
  said.textContent = text.replaceAll("\n", ", ");
  showTip(text, box.left + ((heat.bin + 0.5) / bins) * box.width, box.bottom);
}

function heatTable(title, rows, words) {
  const h = data.heat,
    inner = make("div");
  table(
    inner,
    `${title} by stage: in all and at most`,
    [
      ["Stage", (r) => r.name],
      ["In all", (r) => r.sum, (r) => (heat.metric === "busy" ? "" : words(r.sum)), "num"],
      ["Most in a cell", (r) => r.most, (r) => words(r.most), "num"],
      ["at", (r) => r.at, (r) => timeText(r.at), "num"],
    ].filter((c) => heat.metric !== "busy" || c[0] !== "In all"),
    rows.map((row, i) => {
      const most = row.reduce((m, v) => Math.max(m, v), 0);
      return {
        name: stageName(h.stage[i]),
        sum: row.reduce((s, v) => s + v, 0),
        most,
        at: h.from_ms + row.indexOf(most) * h.bin_ms,
      };
    }),
    40,
  );
  return make("details", { class: "alternative" }, make("summary", {}, "The map as a table"), inner);
}

// --- families of files ----------------------------------------------------------------------------------------------------

function heatFiles() {
  const metric = heat.metric === "wrote" ? "wrote" : "read",
    all = data.families.rows,
    box = byId("heat-files"),
    colours = ramp();
  if (!all.length) {
    byId("families-part").hidden = true;
    return;
  }
  const rows = all.filter((r) => r[metric].some((v) => v > 0));
  const moved = data.stages.map((_, i) => all.reduce((s, r) => s + r.read[i] + r.wrote[i], 0));
  const used = [...moved.keys()]
      .filter((i) => moved[i])
      .sort((a, b) => moved[b] - moved[a])
      .slice(0, 30)
      .sort((a, b) => a - b),
    scale = scaleOf(rows.flatMap((r) => used.map((i) => r[metric][i])));
  const cut =
    data.families.total > all.length ? ` Of ${numberText(data.families.total)} the ${all.length} that moved most.` : "";
  byId("families-hint").textContent =
    `Bytes ${metric === "wrote" ? "written" : "read"} by each stage. Files whose names differ in numbers only are one family, # stands for the number.${cut}`;
  const head = used.map((i) =>
    make("th", { scope: "col", class: "turned" }, make("span", {}, short(stageName(i), 24))),
  );
  const body = rows.map((r) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, familyName(r)),
      ...used.map((i) =>
        heatCell(
          r[metric][i],
          scale,
          colours,
          `${stageName(i)}\n${r.name}\n${bytesText(r[metric][i])} ${metric === "wrote" ? "written" : "read"}`,
        ),
      ),
    ),
  );
  box.replaceChildren(
    make(
      "table",
      {
        class: "matrix",
        "aria-label": `Bytes ${metric === "wrote" ? "written" : "read"} by family of files and stage`,
      },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Files"), head)),
      make("tbody", {}, body),
    ),
  );
  fill(box, { tabindex: "0", role: "region", "aria-label": "Map: files by stage" }, []);
}

function familyName(r) {
  const cut = r.name.lastIndexOf("/") + 1;
  return [
    make(
      "span",
      { class: "path", title: shown(r.name) },
      make("span", { class: "alias" }, short(r.name.slice(0, cut), 40)),
      r.name.slice(cut),
    ),
    r.files > 1 ? make("small", {}, ` × ${numberText(r.files)}`) : null,
  ];
}

function heatCell(value, scale, colours, label, words = bytesText) {
  const cell = make("td", {}, value > 0 ? words(value) : make("span", { class: "unseen" }, "none")),
    rgb = colours(scale.share(value));
  if (value > 0) {
    cell.style.background = css(rgb);
    cell.style.color = luminance(rgb) > 0.18 ? "#000" : "#fff";
    cell.addEventListener("pointermove", (e) => showTip(label, e.clientX, e.clientY));
    cell.addEventListener("pointerleave", hideTip);
  }
  return cell;
}

function heatMaps() {
  rates();
  heatTime();
  heatFiles();
}

// One of several, as radio buttons: of [title, ...] by key; what is chosen is in the address.
function choice(name, legend, of, first, choose) {
  const boxes = Object.entries(of).map(([key, [title]]) => {
    const box = make("input", { type: "radio", name, value: key, id: `${name}-${key}` });
    box.checked = key === first;
    box.addEventListener("change", () => {
      keep(name, key);
      choose(key);
    });
    return make("label", {}, box, make("span", {}, title));
  });
  kept(name, first, (value) => {
    if (!Object.hasOwn(of, value)) return;
    boxes.forEach((label) => {
      const box = label.firstChild;
      box.checked = box.value === value;
    });
    choose(value);
  });
  return make("fieldset", { class: "choice" }, make("legend", {}, legend), ...boxes);
}

function heatTools() {
  byId("heat-tools").append(
    choice("metric", "Colour shows", METRICS, heat.metric, (key) => {
      heat.metric = key;
      heatMaps();
    }),
  );
}
