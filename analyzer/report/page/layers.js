// The layout of the dataflow: layers, order within a layer, ports, paths. No drawing.

// Stages in an order in which flows go forward: sources first, sinks last (Eades, Lin, Smyth 1993). A loop begins with the stage that began
// first: the stages are in the order of their first events.
function forwardOrder(size, links) {
  const rest = new Set(Array.from({ length: size }, (_, i) => i)),
    head = [],
    tail = [];
  const linked = (i, end, other) => links.some((l) => l[end] === i && l[other] !== i && rest.has(l[other]));
  while (rest.size) {
    const nodes = [...rest];
    const sink = nodes.findLast((i) => !linked(i, "source", "target") && linked(i, "target", "source"));
    const next = sink ?? nodes.find((i) => !linked(i, "target", "source")) ?? Math.min(...nodes);
    if (sink === undefined) head.push(next);
    else tail.unshift(next);
    rest.delete(next);
  }
  return [...head, ...tail];
}

function layers(size, links) {
  const order = forwardOrder(size, links),
    place = [];
  order.forEach((node, i) => {
    place[node] = i;
  });
  const layer = new Array(size).fill(0);
  for (const node of order)
    for (const l of links)
      if (l.source === node && place[l.target] > place[node])
        layer[l.target] = Math.max(layer[l.target], layer[node] + 1);
  // a stage without producers goes just before its first consumer
  for (const node of [...order].reverse()) {
    const after = links.filter((l) => l.source === node && place[l.target] > place[node]).map((l) => layer[l.target]);
    if (after.length && !links.some((l) => l.target === node && place[l.source] < place[node]))
      layer[node] = Math.min(...after) - 1;
  }
  return { layer, forward: (l) => place[l.target] > place[l.source] };
}

const GAP = 46,
  DUMMY_GAP = 16,
  BAR = 16,
  STUB = 44,
  LABEL = 150,
  DRAWN_AT_MOST = 48;

// The stages that are drawn: all, or those with the largest flows.
function drawnStages() {
  const bytes = data.stages.map(() => 0);
  for (const f of data.flows) for (const end of [f.source, f.target]) if (end >= 0) bytes[end] += f.bytes;
  const all = [...bytes.keys()];
  return all.length <= DRAWN_AT_MOST
    ? all
    : all
        .sort((a, b) => bytes[b] - bytes[a])
        .slice(0, DRAWN_AT_MOST)
        .sort((a, b) => a - b);
}

// Nodes with y and height per column; a link over several columns passes through a dummy node in each. Source and target of a link are
// positions in `nodes`, its `flow` is the row of the data.
function layout(width) {
  const stages = drawnStages(),
    local = new Map(stages.map((stage, i) => [stage, i]));
  const known = (end) => end < 0 || local.has(end),
    flows = data.flows.filter((f) => known(f.source) && known(f.target));
  const link = (f) => ({ flow: f, bytes: f.bytes, source: local.get(f.source), target: local.get(f.target) });
  const links = flows.filter((f) => f.source >= 0 && f.target >= 0).map(link);
  const { layer, forward } = layers(stages.length, links);
  const stubs = (end) => flows.filter((f) => f[end] < 0).map(link);
  const columns = Array.from({ length: Math.max(0, ...layer) + 1 }, () => []);
  const nodes = stages.map((stage, i) => ({
    stage,
    place: i,
    layer: layer[i],
    in: [],
    out: [],
    left: null,
    right: null,
  }));
  for (const f of stubs("source")) nodes[f.target].left = f;
  for (const f of stubs("target")) nodes[f.source].right = f;
  nodes.forEach((n) => columns[n.layer].push(n));
  for (const l of links) {
    l.kind = l.source === l.target ? "self" : forward(l) ? "forward" : "back";
    if (l.kind !== "forward") continue;
    l.chain = [nodes[l.source]];
    for (let c = layer[l.source] + 1; c < layer[l.target]; c++) {
      const dummy = { dummy: true, layer: c, link: l };
      columns[c].push(dummy);
      l.chain.push(dummy);
    }
    l.chain.push(nodes[l.target]);
    nodes[l.source].out.push(l);
    nodes[l.target].in.push(l);
  }
  const used = (n) =>
    n.dummy
      ? n.link.bytes
      : Math.max(
          n.in.reduce((s, l) => s + l.bytes, n.left ? n.left.bytes : 0),
          n.out.reduce((s, l) => s + l.bytes, n.right ? n.right.bytes : 0),
        );
  const most = Math.max(1, ...columns.map((c) => c.reduce((s, n) => s + used(n), 0)));
  const scale = 230 / most,
    thick = (f) => Math.max(1.5, f.bytes * scale);
  for (const l of links) l.width = thick(l);
  for (const n of nodes) {
    for (const stub of [n.left, n.right]) if (stub) stub.width = thick(stub);
    const side = (ls, stub) => ls.reduce((s, l) => s + l.width, stub ? stub.width : 0);
    n.height = Math.max(12, side(n.in, n.left), side(n.out, n.right));
  }
  for (const c of columns) for (const n of c) if (n.dummy) n.height = n.link.width;
  place(columns, links);
  const step = columns.length > 1 ? Math.max(170, (width - STUB - 8 - LABEL) / (columns.length - 1)) : 0;
  columns.forEach((c, i) =>
    c.forEach((n) => {
      n.x = STUB + 8 + i * step;
    }),
  );
  return { nodes, links, columns, step };
}

// Orders each column by its neighbours' places and pulls nodes towards them, keeping gaps; a few sweeps are enough.
function place(columns, links) {
  const near = new Map();
  const join = (a, b, w) => {
    if (!near.has(a)) near.set(a, []);
    near.get(a).push([b, w]);
  };
  for (const l of links)
    if (l.kind === "forward")
      for (let i = 1; i < l.chain.length; i++) {
        join(l.chain[i - 1], l.chain[i], l.width);
        join(l.chain[i], l.chain[i - 1], l.width);
      }
  for (const c of columns) c.sort((a, b) => near.has(b) - near.has(a)); // stages without flows go below the others
  const gap = (n) => (n.dummy ? DUMMY_GAP : GAP);
  const stack = (c) => {
    let y = 0;
    for (const n of c) {
      y += gap(n);
      n.y = y;
      y += n.height;
    }
    return y;
  };
  const height = Math.max(...columns.map(stack));
  for (const c of columns) {
    const shift = (height - stack(c)) / 2;
    for (const n of c) n.y += shift;
  }
  const wish = (n, side) => {
    const all = (near.get(n) || []).filter(([m]) => side === 0 || Math.sign(m.layer - n.layer) === side);
    const sum = all.reduce((s, [, w]) => s + w, 0);
    return sum ? all.reduce((s, [m, w]) => s + w * (m.y + m.height / 2), 0) / sum - n.height / 2 : n.y;
  };
  for (let sweep = 0; sweep < 24; sweep++) {
    const side = sweep < 18 ? (sweep % 2 ? 1 : -1) : 0;
    for (const c of side > 0 ? [...columns].reverse() : columns) {
      for (const n of c) n.want = wish(n, side);
      if (sweep < 18) c.sort((a, b) => near.has(b) - near.has(a) || a.want + a.height / 2 - b.want - b.height / 2);
      let y = 0;
      for (const n of c) {
        n.y = Math.max(n.want, y + gap(n));
        y = n.y + n.height;
      }
      let over = Math.max(0, y - height);
      for (const n of [...c].reverse()) {
        if (over <= 0) break;
        n.y -= over;
        const above = c[c.indexOf(n) - 1];
        over = above ? Math.max(0, above.y + above.height + gap(n) - n.y) : 0;
      }
    }
  }
  const top = Math.min(...columns.flat().map((n) => n.y - gap(n)));
  for (const n of columns.flat()) n.y -= top;
}

// Where each link leaves and enters: sorted by the other end, the stubs last.
function ports(nodes) {
  for (const n of nodes) {
    const fill = (links, stub, next, key) => {
      const size = links.reduce((s, l) => s + l.width, stub ? stub.width : 0);
      let y = n.y + (n.height - size) / 2;
      for (const l of [...links].sort((a, b) => next(a) - next(b))) {
        l[key] = y + l.width / 2;
        y += l.width;
      }
      if (stub) stub.y = y + stub.width / 2;
    };
    const middle = (m) => m.y + m.height / 2;
    fill(n.out, n.right, (l) => middle(l.chain[1]), "from");
    fill(n.in, n.left, (l) => middle(l.chain[l.chain.length - 2]), "to");
  }
}

function ribbonPath(l) {
  let x = l.chain[0].x + BAR,
    y = l.from,
    d = `M${x},${y}`;
  l.chain.slice(1).forEach((n, i, all) => {
    const last = i === all.length - 1,
      nx = n.x,
      ny = last ? l.to : n.y + n.height / 2,
      bend = (nx - x) / 2;
    d += `C${x + bend},${y} ${nx - bend},${ny} ${nx},${ny}`;
    if (!last) d += `L${nx + BAR},${ny}`;
    x = nx + BAR;
    y = ny;
  });
  return d;
}

function loopPath(l, nodes, bottom) {
  const a = nodes[l.source],
    b = nodes[l.target];
  if (l.kind === "self") {
    const x = a.x + BAR / 2,
      y = a.y + a.height;
    return `M${x + 5},${y}C${x + 34},${y + 26} ${x - 34},${y + 26} ${x - 5},${y}`;
  }
  const x1 = a.x + BAR,
    y1 = a.y + a.height - 3,
    x0 = b.x,
    y0 = b.y + b.height - 3;
  return `M${x1},${y1}C${x1 + 60},${y1} ${x1 + 60},${bottom} ${x1 - 10},${bottom}L${x0 + 10},${bottom}C${x0 - 50},${bottom} ${x0 - 50},${y0} ${x0},${y0}`;
}
