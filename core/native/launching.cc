// Binds the launcher (core/launcher): run directories, environments, commands, sealing, summaries.
//
// Invariants: paths and words of commands are str with surrogates for bytes that are no UTF-8 (os.fsencode). A Fault is
// the error of tailrace.errors that it names, or OSError. The interpreter's lock is released while anything is waited
// for.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "command.h"
#include "core_here.h"
#include "description.h"
#include "environment.h"
#include "fault.h"
#include "format/host_description.h"
#include "manifest.h"
#include "name_key.h"
#include "program_environment.h"
#include "run.h"
#include "run_directory.h"
#include "sealing.h"
#include "setting_faults.h"
#include "summary.h"
#include "words.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace::native {
namespace {

using namespace launcher;

// Python ignores these two; a command gets the defaults.
const std::vector<int> kIgnoredByPython = {SIGPIPE, SIGXFSZ};

std::string encoded(nb::handle text) {
  PyObject *bytes = nullptr;
  if (PyUnicode_FSConverter(text.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::bytes owned = nb::steal<nb::bytes>(bytes);
  return {owned.c_str(), owned.size()};
}

nb::object decoded(const std::string &bytes) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

std::vector<std::string> encoded_words(nb::sequence words) {
  std::vector<std::string> out;
  for (nb::handle word : words) out.push_back(encoded(word));
  return out;
}

Environment encoded_environment(nb::mapping environment) {
  std::vector<std::string> entries;
  for (nb::handle item : environment.items()) {
    const nb::tuple pair = nb::cast<nb::tuple>(item);
    entries.push_back(encoded(pair[0]) + "=" + encoded(pair[1]));
  }
  return Environment(std::move(entries));
}

std::string python_version() {
  return nb::cast<std::string>(nb::module_::import_("platform").attr("python_version")());
}

Installation installation(const std::string &library) { return {library, python_version(), kIgnoredByPython}; }

Describing describing(nb::sequence command, const std::string &tags) {
  return {encoded_words(command), tags, python_version()};
}

void raise(const Fault &fault) {
  static constexpr const char *kNames[] = {"UsageError", "TagError", "RunError", "TraceError", "CoreError"};
  if (fault.kind == Fault::Kind::kSystem) {
    PyErr_SetString(PyExc_OSError, fault.what());
    return;
  }
  const nb::object text = decoded(fault.what());
  const nb::object type = nb::module_::import_("tailrace.errors").attr(kNames[static_cast<int>(fault.kind)]);
  PyErr_SetObject(type.ptr(), text.ptr());
}

nb::dict account_of(const SealAccount &account) {
  const SealedJournals &journals = account.journals;
  nb::dict out, unrecorded;
  out["sealed_journals"] = journals.sealed;
  out["alive"] = journals.alive;
  out["failed"] = journals.failed;
  out["failed_events"] = journals.failed_events;
  out["events"] = journals.totals.events;
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    if (journals.unrecorded_lost[i]) unrecorded[kLossNames[i]] = journals.unrecorded_lost[i];
  }
  out["unrecorded_lost"] = unrecorded;
  out["processor_ns"] = account.processor_ns;
  out["writing_ns"] = journals.writing_ns;
  return out;
}

nb::dict lost_of(const Summary &summary) {
  nb::dict out;
  for (const auto &[cause, count] : summary.lost.all()) out[cause.c_str()] = count;
  return out;
}

nb::object obstacle_of(nb::handle command) {
  const auto found = find_program_obstacle(encoded(command));
  if (!found) return nb::none();
  return nb::make_tuple(found->word, decoded(found->program), decoded(found->reason), found->breaks);
}

nb::list settings_of(const std::vector<std::pair<std::string, std::string>> &settings) {
  nb::list out;
  for (const auto &[name, value] : settings) out.append(nb::make_tuple(name, decoded(value)));
  return out;
}

void bind_directories(nb::module_ &m) {
  m.def(
      "open_run_directory",
      [](nb::handle path, nb::sequence command, const std::string &tags) {
        const Describing run = describing(command, tags);
        const std::string directory = encoded(path);
        std::string made;
        {
          nb::gil_scoped_release released;
          made = open_run_directory(directory, run);
        }
        return decoded(made);
      },
      "path"_a, "command"_a, "tags"_a, "Makes or opens a run directory and describes the run; its resolved path.");
  m.def(
      "describe_host",
      [](nb::handle directory, nb::sequence command, const std::string &tags) {
        describe_host(encoded(directory), describing(command, tags));
      },
      "directory"_a, "command"_a, "tags"_a, "Adds this host to run.json unless it is there.");
  m.def(
      "default_run_directory",
      [](nb::handle program, nb::handle parent) {
        return decoded(default_run_directory(encoded(program), encoded(parent)));
      },
      "program"_a, "parent"_a, "An unused path for a run of this program.");
  m.def(
      "mounts",
      [](nb::handle mountinfo) {
        nb::list out;
        for (const Mount &mount : mounts(encoded(mountinfo))) {
          out.append(nb::make_tuple(mount.dev, decoded(mount.source), decoded(mount.root), decoded(mount.point),
                                    mount.fstype));
        }
        return out;
      },
      "mountinfo"_a, "(dev, source, root, point, fstype) of each mount in a file like /proc/self/mountinfo.");
  m.def("clock_error_ns", &clock_error_ns, "The kernel's bound on the clock's error; None when it has none.");
  m.def("boot_id", &boot_id, "The id of the running kernel.");
  m.def(
      "write_host_description",
      [](nb::handle run_dir, const std::string &host) {
        write_host_description(encoded(run_dir), host, name_hasher(), clock_kind_here());
      },
      "run_dir"_a, "host"_a, "Writes hosts/HOST.json of this host into the run unless it is there.");
}

void bind_environments(nb::module_ &m) {
  m.def(
      "name_key",
      []() -> nb::object {
        if (!name_hasher().is_on()) return nb::none();
        return nb::str(setting_by(std::getenv("TAILRACE_NAME_KEY"), "TAILRACE_NAME_KEY").c_str());
      },
      "The key by which this process, and what it starts, hash names; None where they don't. UsageError.");
  m.def(
      "key_in_file", [](nb::handle path) { return key_in_file(encoded(path)); }, "path"_a,
      "The key in a file. UsageError.");
  m.def(
      "library_path", [](nb::handle installed) { return decoded(library_path(encoded(installed))); }, "installed"_a,
      "The core's library, by TAILRACE_CORE_LIBRARY or where it is installed. CoreError when it can't be preloaded.");
  m.def(
      "chosen_settings", [] { return settings_of(chosen_settings()); },
      "(name, value) of the settings that the user has chosen, which hold for any run and node.");
  m.def(
      "trace_settings",
      [](nb::handle run_dir, const std::string &tags) { return settings_of(trace_settings(encoded(run_dir), tags)); },
      "run_dir"_a, "tags"_a, "(name, value) of what traces a process of this node into the run.");
  m.def(
      "task_environment",
      [](nb::mapping base, nb::handle library, nb::handle run_dir, const std::string &tags) {
        const Environment made = task_environment(encoded_environment(base), encoded(library), encoded(run_dir), tags);
        nb::list out;
        for (const std::string &entry : made.entries()) {
          const size_t equals = entry.find('=');
          out.append(nb::make_tuple(decoded(entry.substr(0, equals)), decoded(entry.substr(equals + 1))));
        }
        return out;
      },
      "base"_a, "library"_a, "run_dir"_a, "tags"_a, "(name, value) of a traced task's environment. TagError.");
  m.def("bad_setting", &bad_setting, "What is wrong with a TAILRACE_... variable of this process; None: nothing is.");
  m.def("mistyped_settings", &mistyped_settings,
        "A sentence for each variable that is named like a setting, but is none.");
  m.def(
      "managed_tags",
      [](nb::mapping environment) {
        const ManagedTags found = managed_tags(encoded_environment(environment));
        return nb::make_tuple(found.tags, found.variables);
      },
      "environment"_a, "The tags that the managers' variables give, and (manager, name) of each of these that is set.");
  m.def("seccomp_filters", &seccomp_filters, "The number of this process's seccomp filters; None where it is unknown.");
  m.def("program_obstacle", &obstacle_of, "command"_a,
        "(word, program, reason, breaks) of a command, found by PATH, that can't be traced; else None.");
  m.def(
      "journal_directory",
      [](nb::handle run_dir, nb::handle journal_dir) {
        return decoded(journal_directories(encoded(run_dir), encoded(journal_dir)).front());
      },
      "run_dir"_a, "journal_dir"_a,
      "The directory of this user's journals of the run on this node. run_dir is a real, absolute path.");
  m.def(
      "journal_directories",
      [](nb::handle run_dir, nb::handle journal_dir) {
        nb::list out;
        for (const std::string &path : journal_directories(encoded(run_dir), encoded(journal_dir)))
          out.append(decoded(path));
        return out;
      },
      "run_dir"_a, "journal_dir"_a,
      "All directories that may have this user's journals of the run on this node; journal_directory() is the first.\n"
      "The others are used where that can't be, if journal_dir is the default.");
  m.def(
      "journal_fault", [](nb::handle journal_dir) { return journal_fault(encoded(journal_dir)); }, "journal_dir"_a,
      "Why no journal can be kept in the directory; \"\" when one can, or could with more space.");
}

void bind_sealing(nb::module_ &m) {
  m.def(
      "seal_journals",
      [](nb::handle run_dir, nb::handle journal_dir) {
        const std::string run = encoded(run_dir), place = encoded(journal_dir);
        SealAccount account;
        {
          nb::gil_scoped_release released;
          account = seal_journals(run, place);
        }
        return account_of(account);
      },
      "run_dir"_a, "journal_dir"_a,
      "Seals the journals of the run's dead processes on this node into <run_dir>/trace. Returns counts:\n"
      "sealed_journals, alive, failed, failed_events, events, and unrecorded_lost (cause -> events that no block\n"
      "reports), processor_ns, what a sealer's thread took, and writing_ns, the part of it that was writing. CoreError "
      "when the directory can't be read.");
  nb::class_<SealerThread>(
      m, "Sealer",
      "Seals what the run's processes on this node hand over and leave, in a thread of its own, from\n"
      "its making until finish(). Arguments as of seal_journals().")
      .def(
          "__init__",
          [](SealerThread *sealer, nb::handle run_dir, nb::handle journal_dir) {
            new (sealer) SealerThread(encoded(run_dir), encoded(journal_dir));
          },
          "run_dir"_a, "journal_dir"_a)
      .def(
          "finish",
          [](SealerThread &sealer) {
            SealAccount account;
            {
              nb::gil_scoped_release released;
              account = sealer.finish();
            }
            return account_of(account);
          },
          "Ends the thread and seals what is left, as seal_journals() does, with its counts of all that was sealed.");
  m.def(
      "unsealed_message",
      [](uint64_t failed, uint64_t events, nb::handle run_dir) {
        return decoded(unsealed_message(failed, events, encoded(run_dir)));
      },
      "failed"_a, "events"_a, "run_dir"_a, "A sentence on journals that could not be sealed.");
  m.def(
      "processes_of", [](nb::sequence journals) { return processes_of(encoded_words(journals)); }, "journals"_a,
      "The processes of journals with these file names, without this process and its ancestors.");
}

void bind_running(nb::module_ &m) {
  nb::class_<Summary>(
      m, "Summary",
      "What a run recorded. Bytes are those moved by calls, each byte once; lost: cause -> events; alive:\n"
      "processes that still run; fault: why tailrace could not do its part.")
      .def(nb::init<>())
      .def_ro("events", &Summary::events)
      .def_ro("processes", &Summary::processes)
      .def_ro("read_bytes", &Summary::read_bytes)
      .def_ro("written_bytes", &Summary::written_bytes)
      .def_ro("torn_bytes", &Summary::torn_bytes)
      .def_rw("alive", &Summary::alive)
      .def_prop_ro("fault", [](const Summary &summary) { return summary.fault ? decoded(*summary.fault) : nb::none(); })
      .def_prop_ro("lost", &lost_of)
      .def(
          "add_lost", [](Summary &summary, const std::string &cause, uint64_t n) { summary.lost.add(cause, n); },
          "cause"_a, "events"_a)
      .def(
          "describe", [](const Summary &summary) { return decoded(describe(summary)); }, "In one line.");
  m.def(
      "whole_sizes",
      [](nb::handle run_dir) {
        nb::dict out;
        for (const auto &[path, bytes] : whole_sizes(encoded(run_dir))) out[decoded(path)] = bytes;
        return out;
      },
      "run_dir"_a,
      "Path -> bytes of each trace file of a run, without the half of a block that a killed sealer of this node left.");
  m.def(
      "add_blocks",
      [](Summary &summary, nb::handle run_dir, nb::dict before) {
        Sizes sizes;
        for (const auto &[path, bytes] : before) sizes[encoded(path)] = nb::cast<uint64_t>(bytes);
        add_blocks(summary, encoded(run_dir), sizes);
      },
      "summary"_a, "run_dir"_a, "before"_a, "Adds the blocks appended since `before`, which whole_sizes() gave.");
  m.def(
      "add_to_manifest",
      [](nb::handle run_dir) {
        const std::string directory = encoded(run_dir);
        add_to_manifest(directory, trace_sizes(directory));
      },
      "run_dir"_a, "Adds the trace files of processes that sealed for themselves to the run's manifest.");
  m.def(
      "run_command",
      [](nb::sequence words, nb::mapping environment, nb::object run_dir) {
        const Command command = {encoded_words(words), encoded_environment(environment), kIgnoredByPython};
        const std::string place = run_dir.is_none() ? "" : encoded(run_dir);
        nb::gil_scoped_release released;
        return run_command(command, {place, [] { return true; }});
      },
      "command"_a, "environment"_a, "run_dir"_a = nb::none(),
      "Runs a command as a shell would, and forwards signals; its exit code. run_dir: gets its byte accounting.");
  m.def(
      "run_traced",
      [](nb::sequence command, nb::handle run_dir, const std::string &tags, nb::handle library) {
        const std::vector<std::string> words = encoded_words(command);
        const Installation here = installation(encoded(library));
        const std::string directory = encoded(run_dir);
        Traced traced;
        {
          nb::gil_scoped_release released;
          traced = run_traced(words, directory, tags, here);
        }
        return nb::make_tuple(traced.code, traced.summary);
      },
      "command"_a, "run_dir"_a, "tags"_a, "library"_a, "Runs a command traced; its exit code and a Summary.");
  m.def(
      "run",
      [](nb::object output, const std::string &tags, const std::string &detail, bool quiet, nb::sequence command,
         nb::handle library) {
        RunOptions options = {std::nullopt, tags, detail, quiet, encoded_words(command)};
        if (!output.is_none()) options.output = encoded(output);
        const Installation here = installation(encoded(library));
        Ended ended;
        {
          nb::gil_scoped_release released;
          ended = run(options, here);
        }
        return nb::make_tuple(ended.code, ended.run_dir ? decoded(*ended.run_dir) : nb::none());
      },
      "output"_a.none(), "tags"_a, "detail"_a, "quiet"_a, "command"_a, "library"_a,
      "What `tailrace run` does with checked options; its exit code, and the run where it was one of its own.");
}

}  // namespace

void bind_launching(nb::module_ &m) {
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Fault &fault) {
      raise(fault);
    }
  });
  bind_directories(m);
  bind_environments(m);
  bind_sealing(m);
  bind_running(m);
}

}  // namespace tailrace::native
