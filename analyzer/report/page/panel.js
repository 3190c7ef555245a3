// The panel at the side: the selected item and its query. It takes the focus when it opens and returns it at Escape.

const panel = byId("panel");
let opener = null;

// A name as a word that sh, dash, bash, ksh and zsh read alike; analyzer/util/shell.py has the same form, and its reasons.
function quoted(text) {
  const body = text.replace(/\n+$/, "");
  if (shown(body) !== body) {
    const octal = (c) =>
      /^[\w@+=:,./]$/.test(c)
        ? c
        : [...new TextEncoder().encode(c)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    return `"$(printf '${[...body].map(octal).join("")}')"${body.length < text.length ? `'${text.slice(body.length)}'` : ""}`;
  }
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}

// In the value of a filter the characters *, ? and [ begin a pattern.
const literal = (text) => quoted(text.replace(/[*?[]/g, "[$&]"));
const runShell = quoted((data.about.directory || "DIR").replace(/^-/, "./-"));
const shell = (template) => template.replaceAll("{run}", () => runShell);
// The path as a Python literal: JSON's escapes are Python's, too.
const python = (expression) =>
  `${data.prelude.replaceAll("{run}", () => JSON.stringify(data.about.directory || "DIR").replace(UNSEEN, escaped))}\n${expression}`;

const ask = (...parts) => `tailrace query ${runShell} ${parts.join(" ")}`;
// The events of a stage; an untagged one has filters of its own.
const ofStage = (i) => (data.stages[i].filters || ["--stage", stageName(i)]).map(literal).join(" ");
const stageQuery = (i) => ask(ofStage(i), "--by dir,cat --agg sum:size --agg sum:dur --agg count");
const fileQuery = (path) =>
  ask(`--path ${literal(path)}`, "--by stage,task,dir --agg sum:size --agg count --agg min:ts --agg max:ts");
const taskQuery = (t) =>
  ask(
    isProcess(t)
      ? `--host ${literal(t.host)} --pid ${quoted(String(t.pid))}${t.born ? ` --start ${quoted(t.born)}` : ""}`
      : `${t.workflow ? `--workflow ${literal(t.workflow)} ` : ""}--task ${literal(t.tag || t.name)}`,
    "--by path,dir,cat --agg sum:size --agg count --sort sum_size",
  );

// A process of no task: its query has host and pid, and its start where other processes had the pid.
const isProcess = (t) => t.pid !== null && t.pid !== undefined;

// A query with a button that copies it.
function queryBox(title, text) {
  const code = make("code", {}, new Text(shownLines(text))),
    done = make("span", { role: "status", class: "hint" });
  const copy = button(
    "Copy",
    async () => {
      if (await copyText(text)) {
        done.textContent = "copied";
        return;
      }
      getSelection().selectAllChildren(code);
      done.textContent = "selected: press Ctrl+C";
    },
    { class: "small-button", "aria-label": `Copy: ${title}` },
  );
  return make(
    "div",
    { class: "query" },
    make("div", { class: "query-head" }, make("h4", {}, title), done, copy),
    make("pre", { tabindex: "0", role: "region", "aria-label": title }, code),
  );
}

const queries = (shellText, pythonText) => [
  shellText ? queryBox("On the command line", shellText) : null,
  pythonText ? queryBox("In Python", python(pythonText)) : null,
];

const facts = (rows) =>
  make(
    "dl",
    { class: "facts" },
    ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
  );

// A name that may have a mark behind it.
const entryName = (name) => (Array.isArray(name) ? [middle(name[0]), name[1] && " ", name[1]] : middle(name));

// rows: [name, value, class of the name, action of a click]
const list = (title, rows) =>
  rows.length
    ? make(
        "div",
        {},
        make("h4", {}, title),
        make(
          "ul",
          { class: "list" },
          ...rows.map(([name, value, cls, act]) =>
            make(
              "li",
              {},
              act
                ? button(entryName(name), act, { class: `link ${cls || ""}` })
                : make("span", { class: cls || "" }, entryName(name)),
              make("span", {}, value),
            ),
          ),
        ),
      )
    : null;

function openPanel(title, kind, ...children) {
  if (panel.hidden) opener = document.activeElement;
  const heading = make("h3", { id: "panel-title", tabindex: "-1" }, title);
  panel.replaceChildren(
    make(
      "div",
      { class: "panel-head" },
      make("span", { class: "kind" }, kind),
      button("Close", closePanel, { class: "small-button", "aria-label": "Close the panel" }),
    ),
    heading,
    ...children.flat().filter((c) => c !== null && c !== undefined),
  );
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("with-panel");
  heading.focus({ preventScroll: true });
}

// Only what is seen: the address has changed already.
function hidePanel() {
  if (panel.hidden) return;
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove("with-panel");
  for (const element of document.querySelectorAll(".on")) element.classList.remove("on");
  byId("sankey").classList.remove("dim");
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
  opener = null;
}

function closePanel() {
  if (panel.hidden) return;
  hidePanel();
  keep("panel", "", true);
}

addEventListener("keydown", (e) => {
  if (e.key === "Escape") {
    hideTip();
    closePanel();
  }
});

// A button beside a heading that shows the query of its section.
const sectionQuery = [];
const showQuery = selectable(
  "query",
  () => sectionQuery,
  (q) => q.id,
  (q) =>
    openPanel(
      q.title,
      "Query",
      q.meaning.map((text) => make("p", {}, text)),
      queries(q.shellText, q.pythonText),
    ),
);

function queryButton(id, title, meaning, shellText, pythonText) {
  const query = { id: id.replace("-query", ""), title, meaning: [meaning].flat(), shellText, pythonText };
  sectionQuery.push(query);
  byId(id).append(
    button("Query", () => showQuery(query), { class: "small-button", "aria-label": `Query for: ${title}` }),
  );
}
