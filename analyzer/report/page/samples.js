// What launchers sampled (TAILRACE_SAMPLE): rows of the timeline for each node, a strip for each kind of value. The run's own share
// is darker.

const percentOf = (share) => `${three(100 * share)}%`;
const SAMPLED = {
  busy: {
    name: "Processors",
    most: (n) => n.processors,
    short: (v) => `${three(v)} processors`,
    text: (n, i) =>
      `${three(n.busy[i])} of ${n.processors} processors busy, ${three(n.run_busy[i])} by this run; ${three(n.iowait[i] || 0)} waiting for disks`,
    own: "run_busy",
  },
  used: {
    name: "Memory",
    most: (n) => n.memory,
    short: bytesText,
    text: (n, i) =>
      `${bytesText(n.used[i])} of ${bytesText(n.memory)} used, ${bytesText(n.run_used[i])} resident in this run's processes`,
    own: "run_used",
  },
  switches: {
    name: "Context switches",
    short: (v) => `${numberText(Math.round(v))} a second`,
    text: (n, i) => `${numberText(Math.round(n.switches[i]))} context switches a second`,
  },
  cpu: {
    name: "Pressure: processors",
    most: () => 1,
    short: percentOf,
    text: (n, i) => `some task waited for a processor ${percentOf(n.cpu[i])} of the time`,
  },
  memory_some: {
    name: "Pressure: memory",
    most: () => 1,
    short: percentOf,
    text: (n, i) => `some task waited for memory ${percentOf(n.memory_some[i])} of the time`,
  },
  io: {
    name: "Pressure: disks",
    most: () => 1,
    short: percentOf,
    text: (n, i) => `some task waited for a disk ${percentOf(n.io[i])} of the time`,
  },
};

function sampleRows() {
  return data.samples.nodes.flatMap((n, i) => {
    const kinds = Object.keys(SAMPLED).filter((kind) => n[kind].some((v) => v !== null));
    const row = (kind, more) => ({
      level: 1,
      tasks: [],
      strip: sampleStrip(n, kind),
      words: wordsOfSamples(n, kind),
      ...more,
    });
    const key = `n${i}`,
      head = row("busy", { key, name: n.host, opens: true });
    return view.open.has(key)
      ? [
          head,
          ...kinds
            .filter((kind) => kind !== "busy")
            .map((kind) => row(kind, { key: key + kind, level: 2, parent: key, name: SAMPLED[kind].name })),
        ]
      : [head];
  });
}

function wordsOfSamples(n, kind) {
  const known = n[kind].filter((v) => v !== null);
  return known.length ? `at most ${SAMPLED[kind].short(known.reduce((a, b) => Math.max(a, b)))}` : "";
}

function sampleStrip(n, kind) {
  return (_tones, range, width) => {
    const height = 34,
      [canvas, pen] = canvasOf(width, height),
      x = (ms) => ((ms - range.from) / (range.to - range.from)) * width,
      own = SAMPLED[kind].own;
    const most = (SAMPLED[kind].most ? SAMPLED[kind].most(n) : n[kind].reduce((a, b) => Math.max(a, b), 0)) || 1,
      seen = [...n.to.keys()].filter((i) => n.to[i] >= range.from && n.from[i] <= range.to);
    for (const [values, alpha] of [[n[kind], 0.35], ...(own ? [[n[own], 0.8]] : [])]) {
      pen.fillStyle = colour("--ink");
      pen.globalAlpha = alpha;
      for (const i of seen) {
        const tall = Math.min(1, (values[i] || 0) / most) * (height - 6),
          left = Math.max(0, x(n.from[i]));
        pen.fillRect(left, height - 2 - tall, Math.max(0.5, Math.min(width, x(n.to[i])) - left), tall);
      }
    }
    pen.globalAlpha = 1;
    return {
      canvas,
      height,
      find: (px) => {
        const ms = range.from + (px / width) * (range.to - range.from),
          i = seen.find((i) => ms >= n.from[i] && ms <= n.to[i]);
        return i === undefined || n[kind][i] === null
          ? null
          : { task: null, text: `${SAMPLED[kind].text(n, i)}\n${timeText(n.from[i])} to ${timeText(n.to[i])}` };
      },
    };
  };
}
