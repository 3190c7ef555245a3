// How tasks ended, in the words and the colour that all views have.

const FAILED = new Set(["failed", "killed", "timed out", "canceled", "never ran"]);
const outcomeTag = (status) => make("span", { class: `tag${FAILED.has(status) ? " bad" : ""}` }, status);
const firstLine = (text) => text.trim().split("\n")[0];
const sinceText = (ms) => (ms === null ? "\u2013" : timeText(Math.max(ms, 0)));

// How many tasks of a stage failed and were retried, also of those that left no events.
const stageEnds = new Map();
for (const r of data.outcome.rows) {
  const ends = stageEnds.get(r.stage) || { failed: 0, retried: 0 };
  if (FAILED.has(r.status)) ends.failed++;
  if (r.status === "retried") ends.retried++;
  stageEnds.set(r.stage, ends);
}
const endsByStage = (name) => stageEnds.get(name) || { failed: 0, retried: 0 };
const endsOf = (i) => endsByStage(stageName(i));
const tagOf = ({ failed, retried }) =>
  failed
    ? make("span", { class: "tag bad" }, `${numberText(failed)} failed`)
    : retried
      ? make("span", { class: "tag" }, `${numberText(retried)} retried`)
      : null;
const failedTag = (i) => tagOf(endsOf(i));
