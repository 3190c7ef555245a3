// Strips: a row of time drawn on a canvas. Tasks are bars in lanes while they are distinct, else the number that runs at once.

const BARS_AT_MOST = 3000,
  LANES_AT_MOST = 16,
  TICK_WIDTH = 90;

// Greedy lanes: each task, by start, goes to the first free lane; it takes at least `least` ms, so that bars don't touch.
function lanes(tasks, least) {
  const ends = [],
    lane = [];
  for (const t of tasks) {
    let free = ends.findIndex((end) => end <= t.start);
    if (free < 0) {
      if (ends.length === LANES_AT_MOST) return null;
      free = ends.push(0) - 1;
    }
    ends[free] = Math.max(t.end, t.start + least);
    lane.push(free);
  }
  return { number: ends.length, lane };
}

// The mean number of tasks at each of `width` columns of the range.
function running(tasks, from, to, width) {
  const level = new Float64Array(width + 2),
    own = new Float64Array(width + 1),
    scale = width / (to - from);
  for (const t of tasks) {
    const a = Math.max(0, (t.start - from) * scale),
      b = Math.min(width, (t.end - from) * scale);
    if (b < 0 || a > width || b < a) continue;
    const i = Math.floor(a),
      j = Math.floor(b);
    if (i === j) {
      own[i] += b - a;
      continue;
    }
    own[i] += i + 1 - a;
    own[j] += b - j;
    level[i + 1]++;
    level[j]--;
  }
  let now = 0;
  return Array.from({ length: width }, (_, i) => {
    now += level[i];
    return now + own[i];
  });
}

function canvasOf(width, height) {
  const ratio = Math.min(3, devicePixelRatio || 1),
    canvas = make("canvas", { "aria-hidden": "true" });
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return [canvas, pen];
}

// Round steps of time in ms: from 20 s on by the clock.
const CLOCK = [20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => s * 1000);

function ticks(from, to, number) {
  const rough = (to - from) / number,
    power = 10 ** Math.floor(Math.log10(rough)),
    decimal = [1, 2, 5, 10].find((u) => u * power >= rough) * power;
  const unit = (decimal > 10000 && CLOCK.find((u) => u >= rough)) || decimal;
  const first = Math.ceil(from / unit - 1e-9) * unit;
  return Array.from({ length: Math.floor((to - first) / unit + 1e-9) + 1 }, (_, i) => first + i * unit);
}

const tickText = (ms) => (ms ? timeText(ms).replace(/\.0+ /, " ") : "0");

function timeAxis(width, from, to) {
  const svg = draw("svg", { width, height: 20, "aria-hidden": "true" });
  for (const ms of ticks(from, to, width / TICK_WIDTH)) {
    const x = ((ms - from) / (to - from)) * width;
    svg.append(
      draw(
        "text",
        { class: "small", x, y: 13, "text-anchor": x < 20 ? "start" : x > width - 36 ? "end" : "middle" },
        tickText(ms),
      ),
    );
  }
  return svg;
}

// The strip of some tasks, sorted by start: a canvas, and what stands at a point of it.
function strip(tasks, tones, range, width) {
  const { from, to } = range,
    x = (ms) => ((ms - from) / (to - from)) * width;
  const shown = tasks.filter((t) => t.end >= from && t.start <= to);
  const packed = shown.length <= BARS_AT_MOST ? lanes(shown, (2 * (to - from)) / width) : null;
  const height = packed ? laneHeight(packed.number) * Math.max(1, packed.number) + 8 : 46;
  const [canvas, pen] = canvasOf(width, height);
  pen.fillStyle = colour("--line");
  for (const ms of ticks(from, to, width / TICK_WIDTH)) pen.fillRect(Math.round(x(ms)), 0, 1, height);
  const find = packed ? bars(pen, shown, packed, tones, x, width) : area(pen, shown, tones, range, width, height);
  return { canvas, find, height };
}

const laneHeight = (number) => (number > 8 ? 5 : number > 4 ? 8 : number > 1 ? 11 : 14);

function bars(pen, tasks, packed, tones, x, width) {
  const bad = colour("--bad"),
    pitch = laneHeight(packed.number),
    room = pitch > 5 ? pitch - 2 : pitch - 1,
    boxes = [];
  tasks.forEach((t, i) => {
    const left = Math.max(0, x(t.start)),
      box = { t, left, right: Math.max(left + 2, Math.min(width, x(t.end))), top: 4 + packed.lane[i] * pitch };
    pen.fillStyle = FAILED.has(t.status) ? bad : tones(t.stage);
    pen.globalAlpha = view.path && !t.critical ? 0.22 : 0.9;
    pen.beginPath();
    pen.roundRect(box.left, box.top, box.right - box.left, room, Math.min(2, room / 3));
    pen.fill();
    if (t.status === "retried") {
      pen.fillStyle = bad;
      pen.fillRect(box.left, box.top, Math.min(3, box.right - box.left), room);
    }
    boxes.push(box);
  });
  pen.globalAlpha = 1;
  return (px, py) => {
    const hit = boxes.find((b) => px >= b.left - 2 && px <= b.right + 2 && py >= b.top - 1 && py <= b.top + pitch);
    return hit ? { task: hit.t, text: taskLine(hit.t) } : null;
  };
}

function area(pen, tasks, tones, range, width, height) {
  const numbers = running(tasks, range.from, range.to, Math.ceil(width)),
    most = Math.max(...numbers, 1),
    y = (v) => height - 3 - (v / most) * (height - 10);
  pen.fillStyle = tasks.length ? tones(tasks[0].stage) : "transparent";
  pen.globalAlpha = 0.75;
  pen.beginPath();
  pen.moveTo(0, height - 3);
  numbers.forEach((v, i) => {
    pen.lineTo(i, y(v));
    pen.lineTo(i + 1, y(v));
  });
  pen.lineTo(numbers.length, height - 3);
  pen.fill();
  pen.globalAlpha = 1;
  const mark = (wanted, y) => {
    for (const t of tasks)
      if (wanted(t))
        pen.fillRect(
          Math.max(0, ((t.start - range.from) / (range.to - range.from)) * width),
          y,
          Math.max(2, (t.dur / (range.to - range.from)) * width),
          3,
        );
  };
  pen.fillStyle = colour("--bad");
  mark((t) => FAILED.has(t.status) || t.status === "retried", 0);
  if (view.path) {
    pen.fillStyle = colour("--ink");
    mark((t) => t.critical, height - 3);
  }
  const at = (px) => range.from + (px / width) * (range.to - range.from);
  return (px) => ({
    task: null,
    text: `${three(numbers[Math.min(numbers.length - 1, Math.max(0, Math.floor(px)))])} at once, at most ${three(most)}\nat ${timeText(at(px))}; ${count(tasks.length, "task")} in this row`,
  });
}

// The critical path: its pieces in the colours of their stages, thin where it waits for a task to start.
function pathStrip(tones, range, width) {
  const height = 26,
    [canvas, pen] = canvasOf(width, height),
    x = (ms) => Math.min(width, Math.max(0, ((ms - range.from) / (range.to - range.from)) * width)),
    boxes = [];
  for (const p of data.critical.rows) {
    if (p.end < range.from || p.start > range.to) continue;
    const [left, begun, right] = [p.start, p.start + p.gap + p.startup + p.stop + p.tracing, p.end].map(x);
    pen.fillStyle = colour("--soft");
    pen.fillRect(left, height / 2 - 1, Math.max(0, begun - left), 2);
    if (p.task >= 0 || p.stage >= 0) {
      pen.fillStyle = tones(p.stage);
      pen.fillRect(begun, 5, Math.max(1, right - begun - 0.5), height - 10);
    }
    boxes.push({ left, right: Math.max(right, left + 1), p });
  }
  const text = (p) =>
    `${p.name}${p.stage >= 0 ? `, ${stageName(p.stage)}` : ""}\n${timeText(p.end - p.start)} from ${timeText(p.start)} on: ` +
    Object.keys(PARTS)
      .filter((k) => p[k] > 0)
      .map((k) => `${timeText(p[k])} ${PARTS[k][0]}`)
      .join(", ") +
    (p.path ? `\nwaited for ${p.path}` : "");
  return {
    canvas,
    height,
    find: (px) => {
      const hit = boxes.find((b) => px >= b.left && px <= b.right);
      return hit ? { task: hit.p.task >= 0 ? data.tasks.rows[hit.p.task] : null, text: text(hit.p) } : null;
    },
  };
}

const toneColours = () => {
  const known = Object.fromEntries(
    [...Array(10).keys(), "other"].map((k) => [k, colour(`--s${k === "other" ? "-other" : k}`)]),
  );
  return (stage) => known[tone(stage)];
};
