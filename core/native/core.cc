// Binds the core: tags, settings, the clock's reference, sealing of journals.
#include <errno.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "base/sys.h"
#include "format/build_info.h"
#include "format/detail.h"
#include "format/functions.h"
#include "format/journal_place.h"
#include "format/node_sealer.h"
#include "format/program.h"
#include "format/redaction.h"
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

bool is_detail(const std::string &text) {
  Detail detail;
  return parse_detail(text, detail);
}

std::optional<std::string> journal_trace_file(const std::string &path) {
  char text[4096];
  Writer w(text, sizeof text);
  if (!write_trace_file_of(path.c_str(), w)) return std::nullopt;
  return std::string(w.view());
}

std::vector<nb::bytes> redact_command(const std::vector<nb::bytes> &command, const std::string &mode) {
  Redactor redactor(parse_redaction(mode));
  std::vector<nb::bytes> out;
  for (const nb::bytes &argument : command) {
    // A value of one byte becomes kRedacted.
    std::vector<char> buffer(argument.size() * (kRedacted.size() + 1) + kRedacted.size());
    Writer w(buffer.data(), buffer.size());
    redactor.write(w, {argument.c_str(), argument.size()}, [](Writer &to, string_view part) { to << part; });
    out.emplace_back(buffer.data(), w.size());
  }
  return out;
}

std::string journal_directory(const std::string &run_dir, const std::string &journal_dir) {
  std::vector<char> buffer(run_dir.size() + journal_dir.size() + 128);
  Writer w(buffer.data(), buffer.size());
  write_journal_directory(w, journal_dir, geteuid(), run_dir);
  return std::string(w.view());
}

// One directory for each place that this node may have (format/journal_place.h).
std::vector<std::string> journal_directories(const std::string &run_dir, const std::string &journal_dir) {
  std::vector<std::string> found;
  std::vector<char> buffer(run_dir.size() + journal_dir.size() + 256);
  for (int place = 0; place < kJournalPlaces; ++place) {
    Writer w(buffer.data(), buffer.size());
    int64_t bytes_read = 0;
    if (!write_journal_place(w, place, journal_dir, geteuid(), run_dir, bytes_read)) continue;
    write_journal_directory(w, geteuid(), run_dir);
    found.emplace_back(w.view());
  }
  return found;
}

std::string journal_fault(const std::string &journal_dir) {
  int status = check_journal_directory(journal_dir, geteuid());
  if (status == -EINVAL) return "it is no absolute path";
  if (status == -EPERM) return "another user has made tailrace-" + std::to_string(geteuid()) + " in it";
  return status < 0 && status != -ENOSPC && status != -EDQUOT ? strerror(-status) : "";
}

// Seals what is in the directories by seal(directory), which returns 0 or -errno. Returns what failed.
template <class Seal>
std::string seal_places(const std::vector<std::string> &directories, const std::string &run_dir, Seal seal) {
  std::string fault;
  for (const std::string &directory : directories) {
    int status = seal(directory.c_str());
    // Where another user has taken our name the core has used another place, which is in the list.
    bool foreign = status == -EPERM || status == -EACCES || status == -ENOTDIR || status == -ELOOP;
    if (status < 0 && !(foreign && directories.size() > 1)) fault = directory + ": " + strerror(-status);
    remove_empty_place(directory, run_dir);
  }
  return fault;
}

nb::dict account_of(const SealedJournals &result) {
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

nb::dict seal_journals(const std::string &run_dir, const std::string &journal_dir) {
  SealedJournals result;
  std::vector<std::string> directories = journal_directories(run_dir, journal_dir);
  std::string fault;
  {
    nb::gil_scoped_release released;
    Sealing sealing(run_dir + "/trace", result);
    fault = seal_places(directories, run_dir, [&](const char *place) { return sealing.seal_dead(place); });
  }
  if (!fault.empty()) throw std::runtime_error(fault);
  return account_of(result);
}

// The node's sealer, in a thread of this process.
class SealerThread {
 public:
  SealerThread(const std::string &run_dir, const std::string &journal_dir)
      : run_dir_(run_dir),
        directories_(journal_directories(run_dir, journal_dir)),
        sealer_(directories_.front(), run_dir + "/trace") {
    if (sealer_.begin() < 0) return;
    // A signal for this process is its other threads' to take.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::promise<int> id;
    std::future<int> known = id.get_future();
    try {
      thread_ = std::thread([&id, this] {
        id.set_value(sys::gettid());
        sealer_.run();
      });
      id_ = known.get();
    } catch (const std::system_error &) {  // no more threads: processes seal for themselves
      sealer_.stop();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~SealerThread() { end(); }
  SealerThread(const SealerThread &) = delete;
  SealerThread &operator=(const SealerThread &) = delete;

  int id() const { return id_; }

  nb::dict finish() {
    std::string fault;
    {
      nb::gil_scoped_release released;
      end();
      fault = seal_places(directories_, run_dir_, [&](const char *place) { return sealer_.seal_dead(place); });
    }
    if (!fault.empty()) throw std::runtime_error(fault);
    nb::dict account = account_of(sealer_.result());
    account["processor_ns"] = sealer_.processor_ns();
    account["writing_ns"] = sealer_.result().writing_ns;
    return account;
  }

 private:
  void end() {
    sealer_.stop();
    if (thread_.joinable()) thread_.join();
    id_ = 0;
  }

  std::string run_dir_;
  std::vector<std::string> directories_;
  NodeSealer sealer_;
  std::thread thread_;
  int id_ = 0;
};

}  // namespace

void bind_core(nb::module_ &m) {
  m.def("tag_error", &tag_error, "tags"_a, "None for valid tags, else a sentence that names the key and the rule.");
  m.def("merge_tags", &merge, "base"_a, "over"_a,
        "The canonical form of `base` with the tags of `over` replaced or added; ValueError when a rule is broken.");
  m.def("clock_reference", &clock_reference,
        "The value of TAILRACE_CLOCK for processes that are started on this node.");
  m.def("settings", &settings, "(name, default, what it does) of every setting in the environment.");
  m.def("is_detail", &is_detail, "text"_a, "Whether the text is a value of TAILRACE_DETAIL.");
  m.def("hooks", &hooks, "(symbol, event name, category) of every hooked function.");
  m.def(
      "meanings", &meanings,
      "What the names and the categories of events mean for the dataflow: (event name -> bits, category -> bits), the\n"
      "bits of `bits`.");
  m.def("obstacle", &program_obstacle, "path"_a,
        "What keeps the core out of the program at `path`: a word of docs/trace-format.md, or \"\".");
  m.def("redact", &redact_command, "command"_a, "mode"_a,
        "The command line as it may be recorded; `mode` is the value of TAILRACE_REDACT.");
  m.def("journal_directory", &journal_directory, "run_dir"_a, "journal_dir"_a,
        "The directory of this user's journals of the run on this node. run_dir is a real, absolute path.");
  m.def(
      "journal_directories", &journal_directories, "run_dir"_a, "journal_dir"_a,
      "All directories that may have this user's journals of the run on this node; journal_directory() is the first.\n"
      "The others are used where that can't be, if journal_dir is the default.");
  m.def("journal_fault", &journal_fault, "journal_dir"_a,
        "Why no journal can be kept in the directory; \"\" when one can, or could with more space.");
  m.def("journal_trace_file", &journal_trace_file, "path"_a,
        "The trace file that the journal at `path` is sealed into; None when it is no journal of this user's.");
  m.def("seal_journals", &seal_journals, "run_dir"_a, "journal_dir"_a,
        "Seals the journals of the run's dead processes on this node into <run_dir>/trace. Returns counts:\n"
        "sealed_journals, alive, failed, failed_events, events, and unrecorded_lost (cause -> events that no block\n"
        "reports). RuntimeError when the directory can't be read.");
  nb::class_<SealerThread>(
      m, "Sealer",
      "Seals what the run's processes on this node hand over and leave, in a thread of its own, from\n"
      "its making until finish(). Arguments as of seal_journals().")
      .def(nb::init<const std::string &, const std::string &>(), "run_dir"_a, "journal_dir"_a)
      .def_prop_ro("thread_id", &SealerThread::id, "Its thread; 0: there can be no sealer here.")
      .def("finish", &SealerThread::finish,
           "Ends the thread and seals what is left, as seal_journals() does, with its counts of all that was sealed, "
           "and\n"
           "`processor_ns`, what the sealer took, and `writing_ns`, the part of it that was writing.");
  m.def(
      "build_info", [] { return std::string(build_info()); }, "What was compiled in: a JSON object.");
}

}  // namespace tailrace::native
