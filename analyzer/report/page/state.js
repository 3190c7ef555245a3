// What is shown, as the page's address: #SECTION&KEY=VALUE&... A selection is a step that "back" undoes; a filter or a zoom replaces the
// address. An address is read by its keys only: what it names is looked up, and what isn't there is left out.

const state = Object.assign(Object.create(null), { section: "" }),
  defaults = Object.create(null);

function stateOf(hash) {
  const [section, ...rest] = hash.replace(/^#/, "").split("&"),
    values = { section: "" };
  const pairs = section.includes("=") ? [section, ...rest] : rest;
  if (!section.includes("=")) values.section = section;
  for (const pair of pairs) {
    const cut = pair.indexOf("="),
      [key, value] = [pair.slice(0, cut), pair.slice(cut + 1)].map((text) => {
        try {
          return decodeURIComponent(text);
        } catch {
          return "";
        }
      });
    if (key in defaults) values[key] = value || "";
  }
  return values;
}

function address() {
  const set = Object.keys(defaults).filter((key) => state[key] !== defaults[key]);
  return (
    "#" +
    [state.section, ...set.map((key) => `${encodeURIComponent(key)}=${encodeURIComponent(state[key])}`)]
      .filter(Boolean)
      .join("&")
  );
}

// A page inside another one may have no address of its own: then its state is only in memory.
function write(step) {
  try {
    const where = address();
    if (where === (location.hash || "#")) return;
    if (step) history.pushState(null, "", where);
    else history.replaceState(null, "", where);
  } catch {
    return;
  }
}

// Parts of the page whose state is in the address: key -> [its value when nothing is chosen, what to do when "back" or a link sets it].
const restore = Object.create(null);

function kept(key, value, apply) {
  defaults[key] = value;
  state[key] = value;
  restore[key] = apply;
}

function keep(key, value, step = false) {
  state[key] = String(value);
  write(step);
}

function follow() {
  const wanted = { ...defaults, ...stateOf(location.hash) },
    before = { ...state };
  Object.assign(state, wanted);
  for (const key of Object.keys(defaults)) if (wanted[key] !== before[key]) restore[key](wanted[key]);
  if (wanted.section && wanted.section !== before.section) goTo(wanted.section);
}

function goTo(id) {
  const section = byId(id);
  if (section && !section.hidden) section.scrollIntoView();
}

function goToSection(id) {
  state.section = id;
  write(true);
  goTo(id);
}

// --- what can be selected: each kind has its rows, a key for each of them, and what shows one -----------------------------------------

const kinds = Object.create(null);
kept("panel", "", (value) => {
  const [kind, ...rest] = value.split(":"),
    key = rest.join(":");
  const row = kinds[kind] && kinds[kind].find(key);
  if (row === undefined) {
    hidePanel();
    return;
  }
  kinds[kind].draw(row);
});

// The function that selects a row of a kind. name: what its key is made of; the second row of a name has ~2 behind it.
function selectable(kind, rows, name, drawRow) {
  let byKey = null,
    keys = null;
  const index = () => {
    if (byKey) return;
    byKey = new Map();
    keys = new Map();
    const uses = new Map();
    for (const row of rows()) {
      const own = name(row),
        number = (uses.get(own) || 0) + 1;
      uses.set(own, number);
      const key = number > 1 ? `${own}~${number}` : own;
      byKey.set(key, row);
      keys.set(row, key);
    }
  };
  kinds[kind] = {
    find: (key) => {
      index();
      return byKey.get(key);
    },
    draw: drawRow,
  };
  return (row) => {
    index();
    drawRow(row);
    keep("panel", `${kind}:${keys.get(row)}`, true);
  };
}

addEventListener("popstate", follow);
