// Binds the reader: scan_blocks, read_blocks, read_files, sum_files and columns of tailrace._native.
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
                                      const Mounts &mounts) {
  size_t capacity = 0;
  std::vector<std::vector<Planned>> plans;
  for (const FilePart &part : parts) {
    plans.push_back(plan(TraceFile(part.path), part.places));
    for (const Planned &block : plans.back()) capacity += block.header.events;
  }
  Parser parser(columns, capacity, mounts);
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

EventBatch read_parts(const std::vector<FilePart> &parts, const Names &columns, const std::vector<MountRow> &mounts) {
  nb::gil_scoped_release unlocked;
  return EventBatch(read_all(parts, columns ? &*columns : nullptr, table_of(mounts)));
}

EventBatch read_files(const NamedParts &parts, const Names &columns, const std::vector<MountRow> &mounts) {
  return read_parts(named(parts), columns, mounts);
}

nb::object value_at(const Column &column, size_t row) {
  if (column.type() != Type::kText) {
    return column.is_null_int(row) ? nb::none() : nb::object(nb::int_(column.int_at(row)));
  }
  if (column.is_null_text(row)) return nb::none();
  const std::string_view text = column.dictionary().at(column.index_at(row));
  return nb::str(text.data(), text.size());
}

size_t place_of(const std::vector<std::string> &columns, std::string_view name) {
  return static_cast<size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
}

nb::tuple sum_files(const NamedParts &parts, const std::vector<std::string> &keys,
                    const std::vector<std::string> &values, const std::vector<MountRow> &mounts) {
  constexpr std::string_view kLines = "lines";
  const std::vector<FilePart> files = named(parts);
  std::shared_ptr<const Batch> batch;
  GroupSums sums;
  std::vector<size_t> key_places;
  {
    nb::gil_scoped_release unlocked;
    std::vector<std::string> columns;
    const auto places = [&columns](const std::vector<std::string> &names) {
      std::vector<size_t> found;
      for (const std::string &name : names) {
        found.push_back(place_of(columns, name));
        if (found.back() == columns.size()) columns.push_back(name);
      }
      return found;
    };
    key_places = places(keys);
    const std::vector<size_t> value_places = places(values);
    const size_t lines = places({std::string(kLines)}).front();
    batch = read_all(files, &columns, table_of(mounts));
    for (const size_t place : value_places) {
      if (batch->columns[place]->type() == Type::kText) throw std::invalid_argument("a sum is of numbers");
    }
    sums = group_sums(*batch, key_places, value_places, lines);
  }
  nb::list rows;
  for (size_t group = 0; group < sums.first.size(); ++group) {
    nb::list key, figures;
    for (const size_t place : key_places) key.append(value_at(*batch->columns[place], sums.first[group]));
    for (size_t i = 0; i < values.size(); ++i) {
      const Figures &of = sums.figures[group * values.size() + i];
      const nb::object least = of.some ? nb::object(nb::int_(of.least)) : nb::none();
      const nb::object most = of.some ? nb::object(nb::int_(of.most)) : nb::none();
      figures.append(nb::make_tuple(of.sum, of.known, least, most));
    }
    rows.append(nb::make_tuple(nb::tuple(key), sums.calls[group], sums.totals[group], figures));
  }
  return nb::make_tuple(rows, batch->rows);
}

EventBatch read_blocks(const nb::object &path, const std::vector<Place> &blocks, const Names &columns,
                       const std::vector<MountRow> &mounts) {
  return read_parts({{file_name(path), blocks}}, columns, mounts);
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
      nb::arg("mounts") = std::vector<MountRow>(),
      "Read blocks of several trace files into one EventBatch.\n\n"
      "parts: list of (path, [(offset, member_bytes), ...]). columns: names of tailrace.analyzer.store.schema, or "
      "tag.<key>;\n"
      "None takes them all. mounts: rows (host, 'major:minor', mount point, file system), the last '' for a local "
      "one.\n"
      "Raises TraceError, with the file and the offset, when a block is damaged or has not the lines and events that\n"
      "its header promises; ValueError on an unknown column.");
  m.def("sum_files", &sum_files, nb::arg("parts"), nb::arg("keys"), nb::arg("values"),
        nb::arg("mounts") = std::vector<MountRow>(),
        "Group the events of blocks by columns; parts, mounts and errors are those of read_files.\n\n"
        "Returns (groups, rows): groups is a list of (key, calls, totals, figures): key has the values of the columns\n"
        "`keys` (None: null), totals is how many of the group's lines stand for several calls, figures is a list with\n"
        "(sum, calls of the lines that have a value, least, greatest) for each of the columns `values`, which must be\n"
        "numbers. rows: how many lines were read.");
  m.def("columns", &columns, "The columns: list of (name, 'text' | 'int32' | 'int64', nullable).");
}

}  // namespace tailrace::native
