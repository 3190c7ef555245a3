// Copying: queries as they are, tables as tab-separated values that a spreadsheet takes as text and numbers.

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" }),
      before = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (before) before.focus({ preventScroll: true });
    return done;
  }
}

// A text that a spreadsheet would take for a formula stays text by the apostrophe before it.
const tsvText = (text) => shown(text).replace(/^(?=[=+\-@])/, "'");
const tsvCell = (value) =>
  value === null || value === undefined ? "" : typeof value === "number" ? String(value) : tsvText(String(value));

// columns: as those of a table; numbers are exact, their units in the head.
function tsv(columns, rows) {
  const head = columns.map(([title, , , , unit]) => tsvText(unit ? `${title} (${unit})` : title || "Notes"));
  return (
    [head, ...rows.map((row) => columns.map(([, value]) => tsvCell(value(row))))]
      .map((cells) => cells.join("\t"))
      .join("\n") + "\n"
  );
}
