// Binds the reader: scan_blocks, read_blocks, read_files, sum_files, rows_of and columns of tailrace._native.
//
// Invariants: the interpreter's lock is released while files are read, inflated and parsed, so Dask's threads run in
// parallel. A fault of a trace is tailrace.errors.TraceError, which names the file and the offset.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include "arrow_export.h"
#include "columns.h"
#include "group_sums.h"
#include "parse.h"
#include "trace_file.h"

namespace nb = nanobind;

namespace tailrace::native {

namespace {

using Place = std::pair<uint64_t, uint64_t>;  // offset, member_bytes
using MountRow = std::tuple<std::string, std::string, std::string, std::string>;
using Names = std::optional<std::vector<std::string>>;

struct FilePart {
  std::string path;
  std::vector<Place> places;
};

// A file name of the system: any bytes but NUL.
std::string file_name(nb::handle path) {
  PyObject *bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::bytes owned = nb::steal<nb::bytes>(bytes);
  return {owned.c_str(), owned.size()};
}

struct Planned {
  uint64_t offset;
  BlockHeader header;
};

std::vector<Planned> plan(const TraceFile &file, const std::vector<Place> &places) {
  std::vector<Planned> planned;
  planned.reserve(places.size());
  for (const auto &[offset, member_bytes] : places) {
    planned.push_back({offset, header_at(file, offset)});
    const uint64_t found = planned.back().header.member_bytes();
    if (found != member_bytes) {
      file.fail(offset, "it has " + std::to_string(found) + " bytes, the catalogue says " +
                            std::to_string(member_bytes) + "; the file was changed, open the run again");
    }
  }
  return planned;
}

// The columns need their size before the first line is read, so all headers are read first: one small read a block.
std::shared_ptr<const Batch> read_all(const std::vector<FilePart> &parts, const std::vector<std::string> *columns,
                                      const Mounts &mounts, bool ends) {
  size_t capacity = 0;
  std::vector<std::vector<Planned>> plans;
  for (const FilePart &part : parts) {
    plans.push_back(plan(TraceFile(part.path), part.places));
    for (const Planned &block : plans.back()) capacity += block.header.events;
  }
  Parser parser(columns, capacity, mounts, ends);
  std::vector<uint8_t> member;
  std::vector<char> raw;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TraceFile file(parts[i].path);
    for (const Planned &block : plans[i]) {
      const size_t bytes = inflate_block(file, block.offset, block.header, &member, &raw);
      try {
        parser.block({raw.data(), bytes}, block.header);
      } catch (const JsonError &error) {
        file.fail(block.offset, error.what());
      }
    }
  }
  return std::make_shared<const Batch>(parser.finish());
}

// Rows in Arrow's memory layout. Exporting it twice shares the memory.
class EventBatch {
 public:
  explicit EventBatch(std::shared_ptr<const Batch> batch) : batch_(std::move(batch)) {}

  size_t rows() const { return batch_->rows; }
  size_t events() const { return batch_->events; }

  nb::object arrow_schema() const {
    auto *schema = new ArrowSchema;
    export_schema(batch_, schema);
    return nb::steal<nb::object>(PyCapsule_New(schema, "arrow_schema", [](PyObject *capsule) {
      auto *held = static_cast<ArrowSchema *>(PyCapsule_GetPointer(capsule, "arrow_schema"));
      if (held->release != nullptr) held->release(held);
      delete held;
    }));
  }

  // A producer may ignore the requested schema (Arrow's PyCapsule interface).
  nb::tuple arrow_array(const nb::object & /*requested_schema*/) const {
    auto *array = new ArrowArray;
    export_array(batch_, array);
    const nb::object capsule = nb::steal<nb::object>(PyCapsule_New(array, "arrow_array", [](PyObject *self) {
      auto *held = static_cast<ArrowArray *>(PyCapsule_GetPointer(self, "arrow_array"));
      if (held->release != nullptr) held->release(held);
      delete held;
    }));
    return nb::make_tuple(arrow_schema(), capsule);
  }

 private:
  std::shared_ptr<const Batch> batch_;
};

Mounts table_of(const std::vector<MountRow> &mounts) {
  std::vector<Mount> rows;
  rows.reserve(mounts.size());
  for (const auto &[host, dev, point, file_system] : mounts) rows.push_back({host, dev, point, file_system});
  return Mounts(std::move(rows));
}

using NamedParts = std::vector<std::pair<nb::object, std::vector<Place>>>;

std::vector<FilePart> named(const NamedParts &parts) {
  std::vector<FilePart> out;
  out.reserve(parts.size());
  for (const auto &[path, places] : parts) out.push_back({file_name(path), places});
  return out;
}

EventBatch read_parts(const std::vector<FilePart> &parts, const Names &columns, const std::vector<MountRow> &mounts,
                      bool ends) {
  nb::gil_scoped_release unlocked;
  return EventBatch(read_all(parts, columns ? &*columns : nullptr, table_of(mounts), ends));
}

EventBatch read_files(const NamedParts &parts, const Names &columns, const std::vector<MountRow> &mounts, bool ends) {
  return read_parts(named(parts), columns, mounts, ends);
}

nb::object value_at(const Column &column, size_t row) {
  if (column.type() != Type::kText) {
    return column.is_null_int(row) ? nb::none() : nb::object(nb::int_(column.int_at(row)));
  }
  if (column.is_null_text(row)) return nb::none();
  const std::string_view text = column.dictionary().at(column.index_at(row));
  return nb::str(text.data(), text.size());
}

using KeyRow = std::tuple<std::string, std::string, int64_t, int64_t>;
using ConditionRow = std::tuple<std::string, std::vector<std::pair<int64_t, int64_t>>, bool>;

Key::Kind kind_of(const std::string &name) {
  if (name == "column") return Key::Kind::kValues;
  if (name == "powers") return Key::Kind::kPowers;
  if (name == "widths") return Key::Kind::kWidths;
  if (name == "times") return Key::Kind::kTimes;
  throw std::invalid_argument("there is no kind of key " + name);
}

// The names of the columns that are read, and what is asked of them.
struct Plan {
  std::vector<std::string> columns;
  Asked asked;

  explicit Plan(const std::optional<nb::bytes> &keep) {
    if (keep) asked.keep.emplace(keep->c_str(), keep->size());
  }

  size_t place(const std::string &name) {
    const auto at = static_cast<size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
    if (at == columns.size()) columns.push_back(name);
    return at;
  }

  // After all other columns are placed: it adds those that they need.
  void add(const std::vector<KeyRow> &keys, const std::vector<ConditionRow> &conditions,
           const std::optional<int64_t> &ended) {
    for (const auto &[column, kind, width, origin] : keys) {
      asked.keys.push_back({kind_of(kind), place(column), width, origin});
      if (asked.keys.back().kind == Key::Kind::kWidths || asked.keys.back().kind == Key::Kind::kTimes) {
        if (width <= 0) throw std::invalid_argument("a range is larger than 0");
      }
    }
    for (const auto &[column, ranges, nulls] : conditions) {
      asked.conditions.push_back({place(column), ranges, nulls});
    }
    const bool is_timed =
        std::any_of(asked.keys.begin(), asked.keys.end(), [](const Key &key) { return key.kind == Key::Kind::kTimes; });
    asked.ends_after = ended.has_value();
    asked.ended = ended.value_or(0);
    asked.lines = place("lines");
    // The columns that tell the two ends of a copy apart.
    place("dir");
    if (std::find(columns.begin(), columns.end(), "offset") != columns.end()) place("offset2");
    if (std::find(columns.begin(), columns.end(), "offset2") != columns.end()) place("offset");
    if (is_timed || asked.ends_after) {
      asked.ts = place("ts");
      asked.dur = place("dur");
      asked.span = place("span");
    }
  }

  // Throws std::invalid_argument where numbers are asked of text.
  void check(const Batch &batch) const {
    const auto is_text = [&batch](size_t place) { return batch.columns[place]->type() == Type::kText; };
    for (const size_t place : asked.values) {
      if (is_text(place)) throw std::invalid_argument("a sum is of numbers");
    }
    for (const Condition &condition : asked.conditions) {
      if (is_text(condition.column)) throw std::invalid_argument("a range is of numbers");
    }
    for (const Key &key : asked.keys) {
      if (key.kind != Key::Kind::kValues && is_text(key.column)) throw std::invalid_argument("a range is of numbers");
    }
  }
};

nb::object key_at(const Key &key, const Batch &batch, size_t row, int64_t range) {
  if (key.kind == Key::Kind::kTimes) return nb::int_(range);
  const Column &column = *batch.columns[key.column];
  if (key.kind == Key::Kind::kValues) return value_at(column, row);
  return has_range(key, column, row) ? nb::object(nb::int_(range_of(key, column.int_at(row)))) : nb::none();
}

nb::bytes bytes_of(const std::vector<int64_t> &numbers) {
  return nb::bytes(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(int64_t));
}

nb::object gathered_of(const Column &column, const Gathered &found) {
  if (column.type() != Type::kText) return nb::make_tuple(bytes_of(found.values), bytes_of(found.up_to));
  nb::list texts;
  for (const int64_t code : found.values) {
    const std::string_view text = column.dictionary().at(static_cast<int32_t>(code));
    texts.append(nb::str(text.data(), text.size()));
  }
  return texts;
}

nb::tuple sum_files(const NamedParts &parts, const std::vector<KeyRow> &keys, const std::vector<std::string> &values,
                    const std::vector<std::string> &gathered, const std::vector<ConditionRow> &conditions,
                    const std::optional<int64_t> &ended, const std::vector<MountRow> &mounts,
                    const std::optional<nb::bytes> &keep) {
  const std::vector<FilePart> files = named(parts);
  std::shared_ptr<const Batch> batch;
  GroupSums sums;
  Plan plan(keep);
  {
    nb::gil_scoped_release unlocked;
    for (const std::string &name : values) plan.asked.values.push_back(plan.place(name));
    for (const std::string &name : gathered) plan.asked.gathered.push_back(plan.place(name));
    plan.add(keys, conditions, ended);
    batch = read_all(files, &plan.columns, table_of(mounts), true);
    plan.check(*batch);
    sums = group_sums(*batch, plan.asked);
  }
  nb::list rows;
  for (size_t group = 0; group < sums.first.size(); ++group) {
    nb::list key, figures, listed;
    for (const Key &one : plan.asked.keys) {
      key.append(key_at(one, *batch, sums.first[group], sums.range.empty() ? 0 : sums.range[group]));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const Figures &of = sums.figures[group * values.size() + i];
      const nb::object least = of.some ? nb::object(nb::int_(of.least)) : nb::none();
      const nb::object most = of.some ? nb::object(nb::int_(of.most)) : nb::none();
      figures.append(nb::make_tuple(of.sum, of.whole, of.known, least, most));
    }
    for (size_t i = 0; i < gathered.size(); ++i) {
      listed.append(gathered_of(*batch->columns[plan.asked.gathered[i]], sums.gathered[group * gathered.size() + i]));
    }
    rows.append(nb::make_tuple(nb::tuple(key), sums.calls[group], sums.totals[group], figures, listed));
  }
  return nb::make_tuple(rows, batch->events);
}

// Numbers as sum_files returns them.
class Listed {
 public:
  explicit Listed(const nb::bytes &bytes)
      : numbers_(reinterpret_cast<const char *>(bytes.c_str())), size_(bytes.size() / sizeof(int64_t)) {}

  size_t size() const { return size_; }
  int64_t operator[](size_t i) const {
    int64_t number;
    std::memcpy(&number, numbers_ + i * sizeof number, sizeof number);
    return number;
  }
  // How many of the numbers, which are sorted, are at most `value`.
  size_t up_to(int64_t value) const {
    size_t low = 0, high = size_;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      (*this)[middle] <= value ? low = middle + 1 : high = middle;
    }
    return low;
  }

 private:
  const char *numbers_;
  size_t size_;
};

// The value of the rank `rank`, from 0, among those of all lists.
int64_t ranked(const std::vector<std::pair<Listed, Listed>> &lists, int64_t rank) {
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  while (low < high) {
    // Halfway between, without an overflow.
    const int64_t middle = (low & high) + ((low ^ high) >> 1);
    int64_t found = 0;
    for (const auto &[values, up_to] : lists) {
      const size_t at = values.up_to(middle);
      found += at == 0 ? 0 : up_to[at - 1];
    }
    found > rank ? high = middle : low = middle + 1;
  }
  return low;
}

std::optional<double> quantile(const std::vector<std::pair<nb::bytes, nb::bytes>> &lists, double fraction) {
  std::vector<std::pair<Listed, Listed>> found;
  int64_t count = 0;
  for (const auto &[values, up_to] : lists) {
    found.emplace_back(Listed(values), Listed(up_to));
    const Listed &last = found.back().second;
    count += last.size() == 0 ? 0 : last[last.size() - 1];
  }
  if (count == 0) return std::nullopt;
  const double place = fraction * static_cast<double>(count - 1);
  const auto rank = static_cast<int64_t>(place);
  const double rest = place - static_cast<double>(rank);
  const auto value = static_cast<double>(ranked(found, rank));
  return rest == 0 ? value : value + (static_cast<double>(ranked(found, rank + 1)) - value) * rest;
}

size_t distinct(const std::vector<nb::bytes> &lists) {
  std::vector<int64_t> all;
  for (const nb::bytes &list : lists) {
    const Listed values(list);
    for (size_t i = 0; i < values.size(); ++i) all.push_back(values[i]);
  }
  std::sort(all.begin(), all.end());
  return static_cast<size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

nb::tuple rows_of(const NamedParts &parts, const std::vector<std::string> &names,
                  const std::vector<ConditionRow> &conditions, const std::optional<int64_t> &ended,
                  const std::vector<MountRow> &mounts, const std::optional<nb::bytes> &keep) {
  const std::vector<FilePart> files = named(parts);
  std::shared_ptr<const Batch> batch;
  std::vector<uint32_t> found;
  std::vector<size_t> places;
  Plan plan(keep);
  {
    nb::gil_scoped_release unlocked;
    for (const std::string &name : names) places.push_back(plan.place(name));
    plan.add({}, conditions, ended);
    batch = read_all(files, &plan.columns, table_of(mounts), true);
    plan.check(*batch);
    found = chosen(*batch, plan.asked);
  }
  nb::list rows;
  for (const uint32_t row : found) {
    nb::list values;
    for (const size_t place : places) values.append(value_at(*batch->columns[place], row));
    rows.append(nb::tuple(values));
  }
  return nb::make_tuple(rows, batch->events);
}

EventBatch read_blocks(const nb::object &path, const std::vector<Place> &blocks, const Names &columns,
                       const std::vector<MountRow> &mounts) {
  return read_parts({{file_name(path), blocks}}, columns, mounts, false);
}

nb::tuple scan(const nb::object &path, uint64_t start_offset, size_t most) {
  const std::string name = file_name(path);
  Scan found;
  {
    nb::gil_scoped_release unlocked;
    found = scan_blocks(TraceFile(name), start_offset, most);
  }
  nb::list blocks;
  for (const FoundBlock &block : found.blocks) {
    blocks.append(nb::make_tuple(block.offset, block.member_bytes,
                                 nb::bytes(block.header_json.data(), block.header_json.size())));
  }
  return nb::make_tuple(blocks, found.torn_bytes, found.cause, found.problem);
}

nb::list columns() {
  nb::list rows;
  for (const ColumnSpec &spec : kColumns) {
    const char *type = spec.type == Type::kText ? "text" : spec.type == Type::kInt64 ? "int64" : "int32";
    rows.append(nb::make_tuple(spec.name, type, spec.nullable));
  }
  return rows;
}

}  // namespace

void bind_reader(nb::module_ &m) {
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const TraceFault &fault) {
      const nb::object error = nb::module_::import_("tailrace.errors").attr("TraceError");
      // A file's name need not be UTF-8.
      const nb::object words = nb::steal<nb::object>(PyUnicode_DecodeFSDefault(fault.what()));
      PyErr_SetObject(error.ptr(), words.ptr());
    }
  });

  nb::class_<EventBatch>(m, "EventBatch", "Events as Arrow columns; pyarrow.record_batch(batch) takes it with no copy.")
      .def("__len__", &EventBatch::rows)
      .def_prop_ro("events", &EventBatch::events, "How many events were read: fewer than rows where copies are two.")
      .def("__arrow_c_schema__", &EventBatch::arrow_schema)
      .def("__arrow_c_array__", &EventBatch::arrow_array, nb::arg("requested_schema") = nb::none());

  m.def("scan_blocks", &scan, nb::arg("path"), nb::arg("start_offset") = 0, nb::arg("most") = 0,
        "Find the blocks of a trace file by their headers alone.\n\n"
        "Returns (blocks, torn_bytes, cause, problem): blocks is a list of (offset, member_bytes, header JSON as "
        "bytes);\n"
        "torn_bytes counts what is not in a whole block from start_offset to the end; cause is '' or why the scan\n"
        "stopped ('foreign': no file of tailrace, 'version': a newer format), problem the sentence for the user.\n"
        "most: the scan ends after so many blocks; 0: at the file's end.\n"
        "Raises TraceError when the file can't be read.");
  m.def("read_blocks", &read_blocks, nb::arg("path"), nb::arg("blocks"), nb::arg("columns") = nb::none(),
        nb::arg("mounts") = std::vector<MountRow>(),
        "Read blocks of one trace file, given as (offset, member_bytes), into an EventBatch. See read_files.");
  m.def(
      "read_files", &read_files, nb::arg("parts"), nb::arg("columns") = nb::none(),
      nb::arg("mounts") = std::vector<MountRow>(), nb::arg("ends") = false,
      "Read blocks of several trace files into one EventBatch.\n\n"
      "parts: list of (path, [(offset, member_bytes), ...]). columns: names of tailrace.analyzer.store.schema, or "
      "tag.<key>;\n"
      "None takes them all. mounts: rows (host, 'major:minor', mount point, file system), the last '' for a local "
      "one. ends: a copy from one file to another is two rows, with the column dir: what was read, and after it what\n"
      "was written, whose `lines` is 0.\n"
      "Raises TraceError, with the file and the offset, when a block is damaged or has not the lines and events that\n"
      "its header promises; ValueError on an unknown column.");
  m.def(
      "sum_files", &sum_files, nb::arg("parts"), nb::arg("keys"), nb::arg("values"), nb::arg("gathered"),
      nb::arg("conditions"), nb::arg("ended").none(), nb::arg("mounts") = std::vector<MountRow>(),
      nb::arg("keep").none() = nb::none(),
      "Group the events of blocks; parts, mounts and errors are those of read_files.\n\n"
      "keys: rows (column, kind, width, origin): its values ('column'), the powers of two ('powers') or the ranges of\n"
      "a width ('widths') that they are in; 'times': the ranges of time since origin, with the column ts.\n"
      "values, gathered: columns. conditions: rows (column, [(least, greatest), ...], nulls), all of which must hold.\n"
      "ended: only calls that ended at or after it (ns since the epoch); None: all.\n"
      "keep: a byte for each row of read_files with ends, 0 for those that do not fit; None: all fit.\n"
      "Returns (groups, rows): groups is a list of (key, calls, totals, figures, listed): key has the least value of\n"
      "each range (None: null), of time the number of the range; totals is how many of the group's lines stand for\n"
      "several calls; figures is a list with (sum, sum of the calls that begin in the group, calls of the lines that\n"
      "have a value, least, greatest) for each of the columns `values`, which must be numbers; listed has for each of\n"
      "`gathered` the different texts, or of numbers two bytes of int64: the different values, sorted, and how many\n"
      "lines have it or one before it. rows: how many lines were read. Raises ValueError where a call covers more "
      "than\n"
      "a million ranges.");
  m.def("quantile", &quantile, nb::arg("lists"), nb::arg("fraction"),
        "The quantile of all values of lists of sum_files, linear between two of them; None where there is none.");
  m.def("distinct", &distinct, nb::arg("lists"), "How many different values lists of sorted int64 have together.");
  m.def("rows_of", &rows_of, nb::arg("parts"), nb::arg("names"), nb::arg("conditions"), nb::arg("ended").none(),
        nb::arg("mounts") = std::vector<MountRow>(), nb::arg("keep").none() = nb::none(),
        "Events of blocks as tuples of the columns `names` (None: null). Returns (tuples, how many lines were read);\n"
        "the other arguments and errors are those of sum_files.");
  m.def("columns", &columns, "The columns: list of (name, 'text' | 'int32' | 'int64', nullable).");
}

}  // namespace tailrace::native
