// Binds the edge table and what is computed of its times: fold_events, fold_bursts, unite_intervals, time_states and
// bits of tailrace._native.
//
// Invariants: the interpreter's lock is released while rows are folded, so Dask's threads run in parallel. Arrays are
// checked before, so that a table from a damaged file is an error and no read out of bounds.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "accesses.h"
#include "bursts.h"
#include "intervals.h"
#include "time_states.h"

namespace nb = nanobind;

namespace tailrace::native {

namespace {

template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = Array<int64_t>;
using IntervalArrays = std::tuple<Codes, Codes, Codes, Codes>;  // group, start, end, weight
using LimitRow = std::tuple<int64_t, size_t, size_t, size_t>;   // BurstLimits
using PartRow = std::tuple<nb::dict, IntervalArrays, IntervalArrays, Codes, Codes>;

[[noreturn]] void refuse(const std::string &what) { throw nb::value_error(what.c_str()); }

// The array called `name`; `rows` is the length that it must have.
template <typename T>
const T *column(const nb::dict &columns, const char *name, size_t rows) {
  Array<T> array;
  if (!columns.contains(name) || !nb::try_cast(columns[name], array, false)) {
    refuse(std::string("column ") + name + " is missing, or no contiguous array of its type");
  }
  if (array.shape(0) != rows) refuse(std::string("column ") + name + " has another length than the others");
  return array.data();  // the dict keeps it
}

template <typename T>
void check_range(const T *values, size_t size, int64_t low, int64_t high, const char *what) {
  if (size == 0) return;
  const auto [least, most] = std::minmax_element(values, values + size);
  if (*least < low || *most >= high) refuse(std::string(what) + " has a code out of its range");
}

template <typename T>
nb::object to_numpy(Growing<T> *column) {
  const size_t size = column->size();
  T *data = column->release();
  const nb::capsule owner(data, [](void *memory) noexcept { std::free(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
}

template <size_t Columns>
nb::dict to_dict(Growing<int64_t> (&columns)[Columns], const char *const (&names)[Columns]) {
  nb::dict made;
  for (size_t i = 0; i < Columns; ++i) made[names[i]] = to_numpy(&columns[i]);
  return made;
}

nb::tuple to_tuple(Intervals *rows) {
  return nb::make_tuple(to_numpy(&rows->group), to_numpy(&rows->start), to_numpy(&rows->end), to_numpy(&rows->weight));
}

nb::tuple to_tuple(BurstTable *table) {
  nb::dict bursts = to_dict(table->bursts.column, kBurstNames);
  bursts["fresh"] = to_numpy(&table->bursts.fresh);
  bursts["cut"] = to_numpy(&table->bursts.cut);
  bursts["hides"] = to_numpy(&table->bursts.hides);
  bursts["exact"] = to_numpy(&table->bursts.exact);
  return nb::make_tuple(bursts, to_tuple(&table->extents), to_tuple(&table->times));
}

BurstLimits limits_of(const LimitRow &row) {
  const auto [pause_ns, bursts, extents, times] = row;
  if (bursts == 0 || extents == 0 || times == 0) refuse("a limit must be at least 1");
  return {pause_ns, bursts, extents, times};
}

IntervalView view_of(const IntervalArrays &arrays) {
  const auto &[group, start, end, weight] = arrays;
  const size_t size = group.shape(0);
  if (start.shape(0) != size || end.shape(0) != size || weight.shape(0) != size) {
    refuse("the columns of intervals differ in length");
  }
  return {group.data(), start.data(), end.data(), weight.data(), size};
}

// Intervals of rows 0 .. rows - 1, in their order.
IntervalView view_of(const IntervalArrays &arrays, size_t rows) {
  const IntervalView view = view_of(arrays);
  if (!std::is_sorted(view.group, view.group + view.size)) refuse("intervals are not in the order of their groups");
  check_range(view.group, view.size, 0, static_cast<int64_t>(rows), "the group of an interval");
  return view;
}

size_t length_of(const nb::dict &columns, const char *name) {
  if (!columns.contains(name)) refuse(std::string("column ") + name + " is missing");
  return nb::len(nb::handle(nb::object(columns[name])));
}

BurstPart part_of(const PartRow &row, size_t actors) {
  const auto &[columns, extents, times, who, file] = row;
  const size_t rows = length_of(columns, "fresh");
  BurstPart part;
  for (size_t i = 0; i < kBurstColumns; ++i) part.bursts.column[i] = column<int64_t>(columns, kBurstNames[i], rows);
  part.bursts.fresh = column<bool>(columns, "fresh", rows);
  part.bursts.cut = column<bool>(columns, "cut", rows);
  part.bursts.hides = column<bool>(columns, "hides", rows);
  part.bursts.exact = column<bool>(columns, "exact", rows);
  part.bursts.size = rows;
  check_range(part.bursts.column[kDirection], rows, 0, 2, "the direction");
  part.extents = view_of(extents, rows);
  part.times = view_of(times, rows);
  check_range(part.bursts.column[kWho], rows, 0, static_cast<int64_t>(who.shape(0)), "who");
  check_range(part.bursts.column[kFile], rows, 0, static_cast<int64_t>(file.shape(0)), "file");
  check_range(who.data(), who.shape(0), 0, static_cast<int64_t>(actors), "the common code of an actor");
  part.who = who.data();
  part.file = file.data();
  return part;
}

nb::tuple combine_bursts(const std::vector<PartRow> &rows, size_t actors, const LimitRow &limit_row) {
  const BurstLimits limits = limits_of(limit_row);
  std::vector<BurstPart> parts;
  for (const PartRow &row : rows) parts.push_back(part_of(row, actors));
  BurstTable table;
  {
    nb::gil_scoped_release unlocked;
    table = fold_bursts(parts, actors, limits);
  }
  return to_tuple(&table);
}

nb::tuple unite(const std::vector<IntervalArrays> &parts, size_t limit) {
  if (limit == 0) refuse("a limit must be at least 1");
  std::vector<IntervalView> views;
  for (const IntervalArrays &part : parts) views.push_back(view_of(part));
  UnitedGroups united;
  {
    nb::gil_scoped_release unlocked;
    united = unite_groups(views, limit);
  }
  return nb::make_tuple(to_tuple(&united.rows), to_numpy(&united.coarse));
}

// shares: the columns of ThreadShares, by thread.
nb::tuple states_of(const std::tuple<Codes, Codes> &owners, const std::vector<Array<double>> &shares,
                    const IntervalArrays &lives, const IntervalArrays &calls,
                    const std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t> &kind_row) {
  const auto &[group, process] = owners;
  const size_t threads = group.shape(0);
  const auto [count, data, sockets, pipes, of_threads] = kind_row;
  if (data < 0 || sockets < data || pipes <= sockets || of_threads <= pipes || count <= of_threads || count > 64) {
    refuse("no such kinds of calls");
  }
  if (shares.size() != 8) refuse("a thread has eight shares");
  if (process.shape(0) != threads) refuse("groups and processes differ in length");
  for (const Array<double> &column : shares) {
    if (column.shape(0) != threads) refuse("the shares differ in length from the threads");
  }
  std::vector<ThreadShares> of(threads);
  for (size_t i = 0; i < threads; ++i) {
    const auto share = [&](size_t column) { return shares[column].data()[i]; };
    of[i] = {share(0), share(1), share(2), share(3), share(4), share(5), share(6), share(7)};
  }
  const IntervalView life = view_of(lives, threads), call = view_of(calls, threads * static_cast<size_t>(count));
  const std::vector<int64_t> groups(group.data(), group.data() + threads);
  const std::vector<int64_t> of_process(process.data(), process.data() + threads);
  Intervals rows;
  {
    nb::gil_scoped_release unlocked;
    rows = time_states(groups, of_process, of, life, call, {count, data, sockets, pipes, of_threads});
  }
  return to_tuple(&rows);
}

Events events_of(const nb::dict &codes, const nb::dict &bits, const nb::dict &numbers, size_t files,
                 const std::vector<std::string> &pieces, const std::vector<std::string> &sizes) {
  Events events;
  events.rows = length_of(numbers, kNumberNames[0]);
  events.files = files;
  for (size_t i = 0; i < kTextColumns; ++i) events.code[i] = column<int32_t>(codes, kTextNames[i], events.rows);
  for (size_t i = 0; i < kNumberColumns; ++i) events.number[i] = column<int64_t>(numbers, kNumberNames[i], events.rows);
  for (const std::string &text : pieces) events.pieces.push_back(text);
  for (const std::string &text : sizes) events.sizes.push_back(text);
  for (size_t i = 0; i < kBitColumns; ++i) {
    events.meanings[i] = length_of(bits, kTextNames[i]);
    events.bits[i] = column<uint32_t>(bits, kTextNames[i], events.meanings[i]);
  }
  return events;
}

nb::dict fold(const nb::dict &codes, const nb::dict &bits, const nb::dict &numbers, size_t files,
              const LimitRow &limit_row, size_t busy_limit, const std::vector<std::string> &pieces,
              const std::vector<std::string> &sizes) {
  const BurstLimits limits = limits_of(limit_row);
  if (busy_limit == 0) refuse("a limit must be at least 1");
  const Events events = events_of(codes, bits, numbers, files, pieces, sizes);
  EventFold found;
  {
    nb::gil_scoped_release unlocked;
    found = fold_events(events, limits, busy_limit);
  }
  nb::dict notes;
  for (size_t i = 0; i < kNotes; ++i) {
    Noted &noted = found.notes[i];
    notes[kNoteNames[i]] = nb::make_tuple(to_numpy(&noted.row), to_numpy(&noted.who), to_numpy(&noted.file));
  }
  nb::dict made;
  made["actors"] = to_numpy(&found.actors);
  made["file_codes"] = to_numpy(&found.file_codes);
  made["file_types"] = to_numpy(&found.file_types);
  made["aliases"] = to_dict(found.aliases, kAliasNames);
  made["counts"] = to_dict(found.counts, kCountNames);
  made["busy"] = to_tuple(&found.busy);
  made["patterns"] = to_dict(found.patterns.patterns, kPatternNames);
  made["sizes"] = to_dict(found.patterns.sizes, kSizeNames);
  made["functions"] = to_dict(found.patterns.functions, kFunctionNames);
  made["lengths"] = to_dict(found.patterns.lengths, kLengthNames);
  made["threads"] = to_dict(found.threads, kThreadNames);
  made["notes"] = notes;
  made["edges"] = to_tuple(&found.edges);
  return made;
}

nb::dict bits() {
  nb::dict made;
  for (const BitName &row : kBitNames) made[row.name] = static_cast<uint32_t>(row.bit);
  return made;
}

}  // namespace

void bind_edges(nb::module_ &m) {
  m.def("fold_events", &fold, nb::arg("codes"), nb::arg("bits"), nb::arg("numbers"), nb::arg("files"),
        nb::arg("limits"), nb::arg("busy_limit"), nb::arg("pieces") = std::vector<std::string>{""},
        nb::arg("sizes") = std::vector<std::string>{""},
        "Fold a partition of events into the tables of an edge table (analyzer/edges/edge_table.py).\n\n"
        "codes: int32 arrays of the text columns, 0 for none; bits: for name, cat, ftype and dir a uint32 array, what\n"
        "each code means (see bits); numbers: int64 arrays; files: codes of file and file2 are below it; limits: see\n"
        "fold_bursts; busy_limit: intervals of one actor and kind; pieces, sizes: the texts of these columns.\n"
        "Returns a dict: actors (first row of each), file_codes, file_types, aliases, counts, threads, busy,\n"
        "patterns, sizes, functions and lengths (the tables of patterns.h), notes (name -> row, who, file) and edges,\n"
        "as fold_bursts gives them. Raises ValueError on arrays that don't fit together.");
  m.def("fold_bursts", &combine_bursts, nb::arg("parts"), nb::arg("actors"), nb::arg("limits"),
        "Fold the bursts of partial tables into those of one.\n\n"
        "parts: (bursts, extents, times, common codes of its actors, of its files); extents and times are (group,\n"
        "start, end, weight) in the order of their groups, which are positions in bursts. actors: common codes of\n"
        "actors are below it. limits: (pause_ns, bursts of a key, extents and times of a burst).\n"
        "Returns (bursts, extents, times). Raises ValueError on arrays that don't fit together.");
  m.def("unite_intervals", &unite, nb::arg("parts"), nb::arg("limit") = kNoLimit,
        "The union of the intervals of each group, at most `limit` of them: the smallest gaps are closed first.\n\n"
        "parts: (group, start, end, weight) each. Returns ((group, start, end, weight) sorted by group and start,\n"
        "groups in which gaps were closed).");
  m.def(
      "time_states", &states_of, nb::arg("owners"), nb::arg("shares"), nb::arg("lives"), nb::arg("calls"),
      nb::arg("kinds"),
      "What groups of threads spent their time on (core/native/time_states.h).\n\n"
      "owners: (group, process) of each thread, group -1: in none; shares: float64 arrays known, ready, elsewhere,\n"
      "ready_in_call, computed_beside, ready_beside, sockets_within and pipes_within, by thread; lives and calls:\n"
      "(group, start, end, weight), unions in the order of their groups, by thread and by thread * kinds + kind;\n"
      "kinds: (how many, how many on data, the one on sockets, the one on pipes, from which on they wait for what may\n"
      "be in the group, the one that waits for threads).\n"
      "Returns (group, start, end, weight), group * (kinds + 4) + state, by group and time. Raises ValueError on\n"
      "arrays that don't fit together.");
  m.def("bits", &bits, "What names, categories, types and directions can mean to fold_events, as bits by name.");
}

}  // namespace tailrace::native
