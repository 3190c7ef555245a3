// Draws the page, and redraws the parts that depend on its width or its colours.

function sectionQueries() {
  queryButton(
    "spent-query",
    "The critical path's time",
    [
      "Each moment of the wall time is counted once.",
      ...Object.values(PARTS).map(([part, meaning]) => `${part}: ${meaning}.`),
    ],
    "",
    "insights(run).critical.parts",
  );
  queryButton(
    "findings-query",
    "Findings",
    "All findings, in order of what they cost; bytes count as the time that the run's own reads and writes took for so many.",
    shell("tailrace report {run}"),
    "run.findings()",
  );
  queryButton(
    "outcomes-query",
    "Outcomes",
    "How each declared task ended, with its error; the tries that failed have their own in run.declared_tries.",
    "",
    "run.outcomes",
  );
  queryButton(
    "dataflow-query",
    "Dataflow between stages",
    "For each pair of stages, the bytes that the second one read of what the first one wrote, version by version of each file.",
    shell("tailrace graph {run} --level stage --format json"),
    "dataflow.flow_table(dataflow.model(run), 'stage')",
  );
  queryButton(
    "timeline-query",
    "Timeline",
    "First and last event of each task, and the bytes it moved.",
    shell("tailrace query {run} --by stage,task --agg min:ts --agg max:ts --agg sum:size"),
    "run.tasks",
  );
  queryButton(
    "heat-query",
    "Heat maps",
    "Bytes of each access, spread over the time of its calls; a cell has a query of its own.",
    shell("tailrace query {run} --by stage,path,dir --agg sum:size"),
    "summary.collect(run)['heat']",
  );
  queryButton(
    "stages-query",
    "Stages",
    "One row a stage; a stage has a query of its own.",
    shell("tailrace query {run} --by stage,dir,cat --agg sum:size --agg sum:dur --agg count"),
    "stages.table(run)",
  );
  queryButton(
    "access-query",
    "Kinds of access",
    "Each access's offsets, sizes and calls, from the edge table; a file has its own by tailrace file.",
    shell("tailrace query {run} --by stage,dir --agg sum:size --agg count --agg p50:size"),
    "summary.collect(run)['access']",
  );
  queryButton(
    "regions-query",
    "Regions",
    "One row for each path of regions; run.regions also has them by rank, stage or task, and by epoch and step.",
    "",
    "run.regions.table()",
  );
  queryButton(
    "waits-query",
    "Where the tasks' time went",
    "Each declared task's time from its submission to its end, split into waiting and running.",
    shell("tailrace report {run}"),
    "waits.table(run)",
  );
  queryButton(
    "files-query",
    "Files",
    "Bytes moved by each file; a file has a query of its own.",
    shell("tailrace query {run} --by path,dir --agg sum:size --agg count --sort sum_size"),
    "stages.file_fates(dataflow.model(run))",
  );
  queryButton(
    "histories-query",
    "Files written more than once",
    "Each version of a file that was written, without those that their own writers replaced before a first read.",
    shell("tailrace graph {run} --level task --format json"),
    "histories.histories(dataflow.model(run))",
  );
  queryButton(
    "declared-query",
    "Declared and observed",
    "The workflow manager's dependencies, compared with the bytes that passed between tasks.",
    shell("tailrace report {run}"),
    "declared_vs_observed.compare_declared(run)",
  );
  queryButton(
    "losses-query",
    "Losses and coverage",
    "Events that could not be recorded, by cause, and each process's bytes by the kernel's accounting.",
    shell("tailrace info {run}"),
    "run.losses, run.coverage",
  );
}

sectionQueries();
header();
outcome();
overview();
figures();
spent();
findings();
sankey();
flowTable();
timelineTools();
timeline();
heatTools();
heatMaps();
accessTools();
accessMatrix();
footprint();
stageTable();
outcomeTable();
regionTable();
waitTable();
requestTable();
fileTable();
historyFigure();
historyTable();
declaredTable();
lossTable();
navigation();

const redraw = () => {
  hideTip();
  sankey();
  timeline();
  heatMaps();
  footprint();
  accessMatrix();
  historyFigure();
};
let timer,
  width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(timer);
  timer = setTimeout(redraw, 150);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// On paper: a sheet's width, in the light colours, whatever the screen has.
const printing = (on) => {
  document.documentElement.classList.toggle("printing", on);
  redraw();
  fit(on);
};

// What is wider than the sheet is made smaller by itself: a browser would make all of the page smaller, and cut off the rest.
function fit(on) {
  for (const part of document.querySelectorAll("main table, .figure svg")) part.style.zoom = "";
  if (!on) return;
  for (const part of document.querySelectorAll("main table, .figure svg")) {
    const box = part.parentElement,
      style = getComputedStyle(box),
      room = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const wide = Math.max(part.scrollWidth || 0, part.getBoundingClientRect().width);
    if (room > 0 && wide > room + 1) part.style.zoom = String(room / wide);
  }
}
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));

const folds = [...document.querySelectorAll("details[id]")];
kept("open", "", (value) => {
  const open = new Set(value.split(","));
  for (const fold of folds) fold.open = open.has(fold.id);
});
for (const fold of folds)
  fold.addEventListener("toggle", () =>
    keep(
      "open",
      folds
        .filter((f) => f.open)
        .map((f) => f.id)
        .join(","),
    ),
  );
follow();
document.documentElement.dataset.ready = "yes";
