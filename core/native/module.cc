// tailrace._native: the parts of the core that Python calls. Each file of this folder binds its own part.
#include <nanobind/nanobind.h>

namespace tailrace::native {
void bind_reader(nanobind::module_ &m);     // reader.cc: blocks -> Arrow columns
void bind_edges(nanobind::module_ &m);      // edges.cc: events -> tables of edges
void bind_core(nanobind::module_ &m);       // core.cc: tags, settings, tables of hooks
void bind_launching(nanobind::module_ &m);  // launching.cc: run directories, commands, sealing
void bind_foreign(nanobind::module_ &m);    // foreign.cc: events of other tracers -> trace files
void bind_ledger(nanobind::module_ &m);     // ledger.cc: the coverage ledger, the table of causes
}  // namespace tailrace::native

NB_MODULE(_native, m) {
  m.doc() = "The native parts of tailrace: reading trace blocks, folding events, sealing journals, checking tags.";
  tailrace::native::bind_core(m);
  tailrace::native::bind_launching(m);
  tailrace::native::bind_reader(m);
  tailrace::native::bind_edges(m);
  tailrace::native::bind_foreign(m);
  tailrace::native::bind_ledger(m);
}
