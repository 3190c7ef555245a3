// Bandwidth and calls over time: what the heat map has by stage, stacked, as a rate.

const RATE_HEIGHT = 150;
const rateText = (value) =>
  heat.metric === "busy"
    ? three(value)
    : heat.metric === "calls"
      ? `${value >= 10 ? numberText(Math.round(value)) : three(value)} calls/s`
      : `${bytesText(value)}/s`;

function rates() {
  const h = data.heat,
    box = byId("rates"),
    rows = h[heat.metric],
    factor = heat.metric === "busy" ? 1 : 1000 / h.bin_ms,
    bins = (rows[0] || []).length;
  const totals = Array.from({ length: bins }, (_, i) => rows.reduce((s, row) => s + row[i] * factor, 0)),
    most = totals.reduce((m, v) => Math.max(m, v), 0);
  byId("rates-part").hidden = !most;
  if (!most) return;
  const narrow = box.clientWidth < 620,
    left = narrow ? 0 : NAME_WIDTH,
    width = Math.max(200, box.clientWidth - 26 - left),
    x = (i) => (i * width) / bins,
    y = (v) => RATE_HEIGHT - (v / most) * (RATE_HEIGHT - 12);
  const mean = totals.reduce((s, v) => s + v, 0) / bins,
    peak = totals.indexOf(most),
    words = `At most ${rateText(most)}, at ${timeText(h.from_ms + peak * h.bin_ms)}; ${rateText(mean)} on average.`;
  byId("rates-hint").textContent = `${METRICS[heat.metric][0]} by stage, over cells of ${timeText(h.bin_ms)}. ${words}`;
  const svg = draw("svg", { width, height: RATE_HEIGHT, role: "img", "aria-label": words }),
    base = new Array(bins).fill(0);
  for (const share of [0.5, 1])
    svg.append(draw("line", { class: "grid", x1: 0, x2: width, y1: y(most * share), y2: y(most * share) }));
  const order = rows
    .map((row, r) => [row.reduce((s, v) => s + v, 0), r])
    .filter(([sum]) => sum)
    .sort((a, b) => b[0] - a[0])
    .map(([, r]) => r);
  for (const r of order) {
    const low = [...base],
      up = low.map((v, i) => v + rows[r][i] * factor);
    const path =
      up.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${y(v).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("") +
      [...low.keys()]
        .reverse()
        .map((i) => `L${x(i + 1).toFixed(1)},${y(low[i]).toFixed(1)}H${x(i).toFixed(1)}`)
        .join("") +
      "Z";
    svg.append(draw("path", { class: `s${tone(h.stage[r])} rate`, d: path }));
    up.forEach((v, i) => {
      base[i] = v;
    });
  }
  for (const share of [0.5, 1])
    svg.append(
      draw(
        "text",
        { class: "small halo", x: 4, y: y(most * share) + 11, "aria-hidden": "true" },
        rateText(most * share),
      ),
    );
  svg.addEventListener("pointermove", (e) => {
    const i = Math.min(bins - 1, Math.max(0, Math.floor((e.offsetX / width) * bins))),
      at = order.filter((r) => rows[r][i] > 0).sort((a, b) => rows[b][i] - rows[a][i]);
    showTip(
      `${timeText(h.from_ms + i * h.bin_ms)}: ${rateText(totals[i])}\n${at
        .slice(0, 6)
        .map((r) => `${stageName(h.stage[r])} ${rateText(rows[r][i] * factor)}`)
        .join("\n")}`,
      e.clientX,
      e.clientY,
    );
  });
  svg.addEventListener("pointerleave", hideTip);
  const names = order
    .slice(0, 7)
    .map((r) =>
      make("div", { class: "tree-name" }, swatch(h.stage[r]), make("span", { class: "name" }, stageName(h.stage[r]))),
    );
  if (order.length > 7) names.push(make("div", { class: "tree-name" }, `and ${numberText(order.length - 7)} more`));
  box.replaceChildren(
    make(
      "div",
      { class: `heat${narrow ? " narrow" : ""}` },
      make("div", { class: "heat-row" }, make("div", { class: "legend-names" }, names), svg),
      make(
        "div",
        { class: "heat-row" },
        make("div", { class: "tree-name" }),
        timeAxis(width, h.from_ms, h.from_ms + h.bin_ms * bins),
      ),
    ),
  );
}
