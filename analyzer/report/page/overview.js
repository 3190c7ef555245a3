// The head of the page, the ten numbers with the query behind each, coverage and losses.

const UNITS = {ns: v => timeText(v / 1e6), bytes: bytesText, share: shareText, count: numberText};

function header() {
  const a = data.about;
  byId("title").textContent = shown(a.title || a.directory || "Run");
  byId("run-id").textContent = a.run_id ? `run ${a.run_id}` : "";
  const created = a.created.replace("T", " ").replace(/\.\d+/, "").replace(/Z$|\+00:00$/, " UTC");
  byId("about").textContent = [created, a.host && `on ${a.host}`, a.user && `by ${a.user}`, a.directory].filter(Boolean).map(shown).join(" · ");
  byId("footer").textContent = `Made by tailrace ${a.version}. This page is one file: it loads nothing and sends nothing.`;
}

// The small line below a number.
function note(key) {
  const n = data.numbers, part = (of, whole) => whole ? `${shareText(of / whole)} of ${bytesText(whole)}` : "of nothing";
  return {
    span_ns: "first to last event", bound_ns: n.span_ns ? `${shareText(n.bound_ns / n.span_ns)} of the wall time` : "", tasks: `${data.outcome.done ? "all done, " : ""}in ${count(n.stages, "stage")}${n.workflows > 1 ? ` of ${count(n.workflows, "workflow")}` : ""}`,
    processes: `on ${count(n.hosts, "host")}`, read_bytes: "files, pipes, sockets", written_bytes: "files, pipes, sockets", passed_bytes: part(n.passed_bytes, n.read_bytes),
    io_share: `${timeText(n.io_ns / 1e6)} of wall time`, peak_bytes: `in ${count(n.files, "data file")}`, seen_share: "of the kernel's bytes",
  }[key];
}

function outcome() {
  const {text, level} = data.outcome, box = byId("outcome");
  if (!text) return;
  box.hidden = false;
  box.classList.add(level);
  box.append(shown(text));
}

// On a phone the findings come before the numbers, also for the keyboard: its first screen has the first finding.
function placeFindings() {
  const part = byId("findings-part"), narrow = innerWidth <= 620;
  if (narrow) byId("numbers").before(part); else byId("spent-part").after(part);
}

function overview() {
  for (const item of data.overview) {
    const value = data.numbers[item.key], words = value === null ? "unknown" : UNITS[item.unit](value);
    const show = () => openPanel(`${item.title}: ${words}`, "Number", make("p", {}, item.meaning),
      item.unit !== "share" && words !== String(value) && value !== null ? facts([["Exactly", `${numberText(value)} ${item.unit === "count" ? "" : item.unit}`]]) : null,
      queries(item.shell && shell(item.shell), item.python));
    const tile = button([make("span", {class: "number-name"}, item.title), make("span", {class: "number-value"}, words), make("span", {class: "number-note"}, note(item.key))], show);
    byId("numbers").append(make("li", {}, tile));
  }
  byId("coverage").append(make("p", {}, data.coverage.text), ...data.losses.map(l => make("p", {class: "lost"}, `Lost: ${l.text}`)));
}

function navigation() {
  const links = [...document.querySelectorAll("main > section:not([hidden])")].map(section => {
    const link = make("a", {href: `#${section.id}`}, section.dataset.nav || section.querySelector("h2").textContent);
    byId("sections").append(link);
    return [section, link];
  });
  const mark = () => {
    const here = links.filter(([section]) => section.getBoundingClientRect().top < innerHeight / 3).pop() || links[0];
    for (const [, link] of links) if (link === here[1]) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  };
  addEventListener("scroll", mark, {passive: true});
  mark();
}
