// Files written more than once, state by state: a loop, round by round.

const HISTORY_LANES = 16,
  HISTORY_PITCH = 34;
const actorsText = (some, number) =>
  some.map((a) => a.name).join(", ") + (number > some.length ? ` and ${numberText(number - some.length)} more` : "");

// A lane a file: a bar is a state, from its first write to the next one's, in the colour of the stage that wrote it; a tick is the first
// read of it by another task, in the colour of that task's stage.
function historyFigure() {
  const box = byId("history-bars"),
    files = [...new Set(data.histories.rows.map((r) => r.path))].slice(0, HISTORY_LANES);
  if (!files.length) return;
  const width = Math.max(420, box.clientWidth - 26),
    left = 170,
    room = width - left - 24,
    span = Math.max(data.numbers.span_ns / 1e6, 0.001);
  const x = (ms) => left + (ms / span) * room,
    height = files.length * HISTORY_PITCH,
    bars = [];
  const svg = draw("svg", {
    width,
    height: height + 22,
    role: "group",
    "aria-label": "States of files over time, arrow keys step through",
  });
  for (const ms of ticks(0, span, room / TICK_WIDTH)) {
    svg.append(draw("line", { class: "grid", x1: x(ms), x2: x(ms), y1: 0, y2: height }));
    svg.append(draw("text", { class: "small", x: x(ms), y: height + 15, "text-anchor": "middle" }, tickText(ms)));
  }
  files.forEach((path, lane) => {
    const states = data.histories.rows.filter((r) => r.path === path),
      y = lane * HISTORY_PITCH + 14;
    svg.append(draw("text", { class: "name", x: 0, y: y + 11 }, short(path.split("/").pop(), 20)));
    states.forEach((r, i) => {
      const wide = Math.max(2, x(i + 1 < states.length ? states[i + 1].start : span) - x(r.start) - 1);
      const readers = r.readers ? `read by ${actorsText(r.read, r.readers)}` : "read by no one else";
      const bar = draw("rect", {
        class: `state s${tone(r.wrote[0].stage)}`,
        x: x(r.start),
        y,
        width: wide,
        height: 14,
        rx: 2,
      });
      bars.push(
        part(
          bar,
          `${path} @${r.state}\n${r.how}, ${bytesText(r.bytes)} by ${actorsText(r.wrote, r.writers)}\n${readers}`,
          fileNamed(path) || (() => {}),
        ),
      );
      svg.append(bar);
      if (wide > 24)
        svg.append(
          draw(
            "text",
            { class: "small", x: x(r.start) + 4, y: y + 11, "pointer-events": "none", "aria-hidden": "true" },
            `@${r.state}`,
          ),
        );
      for (const a of r.read)
        svg.append(
          draw("rect", {
            class: `s${tone(a.stage)}`,
            x: x(a.ms) - 1.5,
            y: y - 5,
            width: 3,
            height: 24,
            "pointer-events": "none",
          }),
        );
    });
  });
  roving(bars);
  box.replaceChildren(svg);
}

function historyTable() {
  if (!data.histories.rows.length) {
    byId("histories").hidden = true;
    return;
  }
  table(
    byId("history-table"),
    "Files written more than once",
    [
      ["File", (r) => r.path, (r) => pathLink(r.path, fileNamed(r.path)), "file"],
      ["State", (r) => r.state, (r) => `@${r.state}`, "num"],
      ["How", (r) => r.how],
      ["By", (r) => actorsText(r.wrote, r.writers)],
      bytesColumn("Written", "bytes"),
      ["Read by", (r) => actorsText(r.read, r.readers)],
      bytesColumn("Read", "read_bytes"),
    ],
    data.histories.rows,
    20,
  );
}
