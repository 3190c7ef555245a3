// Binds the core: tags, settings, the clock's reference, sealing of journals.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "format/build_info.h"
#include "format/functions.h"
#include "format/program.h"
#include "format/seal.h"
#include "format/settings.h"
#include "format/tags.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace::native {
namespace {

std::optional<std::string> tag_error(const std::string &tags) {
  TagSet set;
  size_t at;
  char text[512];
  Writer message(text, sizeof text);
  if (parse_tags(tags, set, at, message)) return std::nullopt;
  return std::string(message.view());
}

std::string merge(const std::string &base, const std::string &over) {
  TagSet a, b;
  size_t at;
  char text[512];
  Writer message(text, sizeof text);
  if (!parse_tags(base, a, at, message) || !parse_tags(over, b, at, message)) {
    throw nb::value_error(std::string(message.view()).c_str());
  }
  std::vector<char> buffer(2 * kMaxTagsBytes);
  Writer out(buffer.data(), buffer.size());
  if (!merge_tags(a, b, out)) throw nb::value_error("together the tags are more than 64 or longer than 8192 bytes");
  return std::string(out.view());
}

std::string clock_reference() {
  char text[64];
  Writer w(text, sizeof text);
  write_clock_reference(w);
  return std::string(w.view());
}

std::vector<std::tuple<std::string, std::string, std::string>> settings() {
  std::vector<std::tuple<std::string, std::string, std::string>> rows;
  for (const SettingRow &row : kSettings) rows.emplace_back(row.name, row.fallback, row.doc);
  return rows;
}

std::vector<std::tuple<std::string, std::string, std::string>> hooks() {
  std::vector<std::tuple<std::string, std::string, std::string>> rows;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function &f = function(static_cast<Fn>(i));
    if (!f.symbol.empty()) rows.emplace_back(f.symbol, f.name, f.category);
  }
  return rows;
}

// An event has the bits of its name and those of its category.
std::tuple<std::map<std::string, uint32_t>, std::map<std::string, uint32_t>> meanings() {
  std::map<std::string, uint32_t> names, categories;
  for (const CategoryRow &row : kCategories) categories[std::string(row.name)] = row.traits & ~trait::kUncounted;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function &f = function(static_cast<Fn>(i));
    names[std::string(f.name)] |= f.traits & ~trait::kUncounted;
  }
  return {names, categories};
}

std::string program_obstacle(const std::string &path) {
  int64_t read_bytes = 0;
  return std::string(kObstacleNames[static_cast<int>(find_obstacle(path.c_str(), read_bytes))]);
}

std::string journal_directory(const std::string &run_dir, const std::string &journal_dir) {
  std::vector<char> buffer(run_dir.size() + journal_dir.size() + 128);
  Writer w(buffer.data(), buffer.size());
  write_journal_directory(w, journal_dir, geteuid(), run_dir);
  return std::string(w.view());
}

nb::dict seal_journals(const std::string &run_dir, const std::string &journal_dir) {
  SealedJournals result;
  std::string directory = journal_directory(run_dir, journal_dir);
  int status;
  {
    nb::gil_scoped_release released;
    status = seal_dead_journals(directory.c_str(), result, run_dir + "/trace");
  }
  if (status < 0) throw std::runtime_error(directory + ": " + strerror(-status));
  nb::dict out, unrecorded;
  out["sealed_journals"] = result.sealed;
  out["alive"] = result.alive;
  out["failed"] = result.failed;
  out["failed_events"] = result.failed_events;
  out["events"] = result.totals.events;
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    if (result.unrecorded_lost[i]) unrecorded[kLossNames[i]] = result.unrecorded_lost[i];
  }
  out["unrecorded_lost"] = unrecorded;
  return out;
}

}  // namespace

void bind_core(nb::module_ &m) {
  m.def("tag_error", &tag_error, "tags"_a, "None for valid tags, else a sentence that names the key and the rule.");
  m.def("merge_tags", &merge, "base"_a, "over"_a,
        "The canonical form of `base` with the tags of `over` replaced or added; ValueError when a rule is broken.");
  m.def("clock_reference", &clock_reference,
        "The value of TAILRACE_CLOCK for processes that are started on this node.");
  m.def("settings", &settings, "(name, default, what it does) of every setting in the environment.");
  m.def("hooks", &hooks, "(symbol, event name, category) of every hooked function.");
  m.def(
      "meanings", &meanings,
      "What the names and the categories of events mean for the dataflow: (event name -> bits, category -> bits), the\n"
      "bits of `bits`.");
  m.def("obstacle", &program_obstacle, "path"_a,
        "What keeps the core out of the program at `path`: a word of docs/trace-format.md, or \"\".");
  m.def("journal_directory", &journal_directory, "run_dir"_a, "journal_dir"_a,
        "The directory of this user's journals of the run on this node. run_dir is a real, absolute path.");
  m.def("seal_journals", &seal_journals, "run_dir"_a, "journal_dir"_a,
        "Seals the journals of the run's dead processes on this node into <run_dir>/trace. Returns counts:\n"
        "sealed_journals, alive, failed, failed_events, events, and unrecorded_lost (cause -> events that no block\n"
        "reports). RuntimeError when the directory can't be read.");
  m.def(
      "build_info", [] { return std::string(build_info()); }, "What was compiled in: a JSON object.");
}

}  // namespace tailrace::native
