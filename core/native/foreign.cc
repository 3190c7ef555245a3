// Binds the writer of imported traces and the reader of DFTracer's (analyzer/foreign).
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "dftracer.h"
#include "foreign_writer.h"
#include "trace_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace::native {

namespace {

using Sums = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, int64_t, int64_t>;
using Whole = std::optional<int64_t>;

std::string file_name(nb::handle path) {
  PyObject *bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::bytes owned = nb::steal<nb::bytes>(bytes);
  return {owned.c_str(), owned.size()};
}

Sums tuple_of(const ForeignSums &sums) { return {sums.events, sums.calls, sums.read, sums.written, sums.t0, sums.t1}; }

void put_event(ForeignWriter &writer, int32_t process, std::string_view name, std::string_view cat, int64_t tid,
               int64_t ts, int64_t dur, int32_t file, int32_t file2, Whole offset, Whole size, Whole count, Whole ret,
               Whole error, Whole flags, std::string_view direction, int32_t context, int64_t calls, int64_t lines,
               int64_t span, std::string_view more) {
  ForeignEvent event;
  event.name = name;
  event.cat = cat;
  event.tid = tid;
  event.ts_ns = ts;
  event.dur_ns = dur;
  event.file = file;
  event.file2 = file2;
  event.offset = offset;
  event.size = size;
  event.count = count;
  event.ret = ret;
  event.error = error;
  event.flags = flags;
  event.direction = direction;
  event.context = context;
  event.calls = calls;
  event.lines = lines;
  event.span_ns = span;
  event.more = more;
  writer.event(process, event);
}

}  // namespace

void bind_foreign(nb::module_ &m) {
  nb::class_<ForeignWriter>(m, "ForeignWriter",
                            "Writes a trace file from another tracer's events (docs/trace-format.md); times in ns.")
      .def(
          "__init__", [](ForeignWriter *self, const nb::object &path) { new (self) ForeignWriter(file_name(path)); },
          "path"_a)
      .def("process", &ForeignWriter::process, "host"_a, "pid"_a, "start"_a = "", "facts"_a = "",
           "The number of a process; facts: the args of its start event as a JSON object.")
      .def("file", &ForeignWriter::file, "path"_a, "type"_a = "",
           "The number of a file; type '': only its name is known, 'none': there was no file.")
      .def("context", &ForeignWriter::context, "tags"_a, "members"_a,
           "The number of a context: its canonical tag string, and the members of its lines, each after a comma.")
      .def("event", &put_event, "process"_a, "name"_a, "cat"_a, "tid"_a, "ts"_a, "dur"_a, "file"_a = -1, "file2"_a = -1,
           "offset"_a = nb::none(), "size"_a = nb::none(), "count"_a = nb::none(), "ret"_a = nb::none(),
           "errno"_a = nb::none(), "flags"_a = nb::none(), "dir"_a = "", "context"_a = 0, "calls"_a = 1, "lines"_a = 1,
           "span"_a = 0, "more"_a = "",
           "Adds an event; lines > 1: a line of totals over `span`. more: further members, each after a comma.")
      .def("memory", &ForeignWriter::memory, "Bytes that names and open blocks take.")
      .def(
          "finish", [](ForeignWriter &writer) { return tuple_of(writer.finish()); },
          "Writes what is left. Returns (events, calls, read bytes, written bytes, first and last time).");

  nb::class_<DFTracerFile>(m, "DFTracerFile", "The metadata of one of DFTracer's files.");
  nb::class_<DFTracerNames>(m, "DFTracerNames", "The names of the hashes in DFTracer's files, at most so many bytes.")
      .def(nb::init<size_t>(), "most_bytes"_a)
      .def(
          "scan",
          [](const DFTracerNames &names, const nb::object &path) {
            const std::string name = file_name(path);
            nb::gil_scoped_release unlocked;
            return names.scan(name);
          },
          "path"_a, "Reads a file's metadata. Raises TraceError.")
      .def("add", &DFTracerNames::add, "file"_a, "Adds what scan() returned.")
      .def(
          "convert",
          [](const DFTracerNames &names, const DFTracerFile &file, const nb::object &target) {
            const std::string name = file_name(target);
            DFTracerResult result;
            {
              nb::gil_scoped_release unlocked;
              result = convert_dftracer(names, file, name);
            }
            return nb::make_tuple(tuple_of(result.sums), result.losses);
          },
          "file"_a, "target"_a,
          "Writes the events of an added file to a trace file. Returns (ForeignWriter.finish()'s sums, cause -> count\n"
          "of what was left out). Raises TraceError.");
  m.def(
      "is_dftracer",
      [](const nb::object &path) {
        const std::string name = file_name(path);
        nb::gil_scoped_release unlocked;
        return is_dftracer(name);
      },
      "path"_a, "Whether the file begins with lines of DFTracer's. Raises TraceError.");
}

}  // namespace tailrace::native
