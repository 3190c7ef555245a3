// The C API for plugins of managers (tailrace/plugin.h): the launcher's parts behind functions that throw nothing.
#include <tailrace/plugin.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "environment.h"
#include "fault.h"
#include "files.h"
#include "format/tags.h"
#include "name_key.h"
#include "run_directory.h"
#include "sealing.h"

#define PUBLIC extern "C" __attribute__((visibility("default")))

using tailrace::launcher::Environment;
using tailrace::launcher::Fault;

struct tailrace_run {
  std::string directory;
  std::unique_ptr<tailrace::launcher::SealerThread> sealer;
  std::string declared;  // manager and open file of the last declaration
  int descriptor = -1;

  ~tailrace_run() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

namespace {

void put(const char *sentence, char *message, size_t size) {
  if (message == nullptr || size == 0) return;
  const size_t length = std::min(std::strlen(sentence), size - 1);
  std::memcpy(message, sentence, length);
  message[length] = '\0';
}

// What `work` returns; `failed` with a sentence where it throws.
template <typename Result, typename Work>
Result guarded(char *message, size_t size, Result failed, Work work) {
  put("", message, size);
  try {
    return work();
  } catch (const std::exception &error) {
    put(error.what(), message, size);
  } catch (...) {
    put("an unknown error", message, size);
  }
  return failed;
}

// libtailrace.so, beside this library.
std::string core_library() {
  Dl_info found;
  if (::dladdr(reinterpret_cast<void *>(&tailrace_run_open), &found) == 0 || found.dli_fname == nullptr) {
    throw Fault(Fault::Kind::kCore, "libtailrace-plugin.so does not know where it lies");
  }
  const std::string path = found.dli_fname;
  const size_t slash = path.rfind('/');
  return tailrace::launcher::library_path((slash == std::string::npos ? "." : path.substr(0, slash)) +
                                          "/libtailrace.so");
}

// The file of this process's declarations, whose name has its host, pid and time (docs/declared-dag.md).
int declared_file(const std::string &directory, const std::string &manager) {
  const std::string folder = directory + "/declared";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) tailrace::launcher::fail_with(errno);
  const std::string stem = tailrace::launcher::process_stem(::getpid(), static_cast<int64_t>(tailrace::realtime_ns()));
  const std::string path = folder + "/" + manager + "-" + stem + ".jsonl";
  const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (made < 0) tailrace::launcher::fail_with(errno);
  return made;
}

// Refuses what would be another file's name, or no line of its own.
void check_declaration(std::string_view manager, std::string_view line) {
  const auto in_a_word = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (manager.empty() || !std::all_of(manager.begin(), manager.end(), in_a_word)) {
    throw Fault(Fault::Kind::kUsage, "not declared: the manager's name is no word of letters and digits");
  }
  if (line.size() < 2 || line.front() != '{' || line.back() != '}' || line.find('\n') != std::string_view::npos) {
    throw Fault(Fault::Kind::kUsage, "not declared: the line is no JSON object without newlines");
  }
}

}  // namespace

PUBLIC int tailrace_encode_tags(const tailrace_tag *tags, size_t count, char *text, size_t size) {
  char pairs[2 * tailrace::kMaxTagsBytes];
  tailrace::Writer all(pairs, sizeof pairs);
  for (size_t i = 0; i < count; i++) {
    if (tags[i].key == nullptr) return -1;
    if (tags[i].value == nullptr) continue;
    char value[3 * tailrace::kMaxTagValueBytes + 1];
    tailrace::Writer encoded(value, sizeof value);
    tailrace::encode_tag_value(tags[i].value, encoded);
    if (encoded.size() == 0) continue;
    if (all.size() != 0) all << ',';
    all << tags[i].key << '=' << encoded.view();
  }
  tailrace::TagSet none, set;
  size_t at = 0;
  char reason[256];
  tailrace::Writer fault(reason, sizeof reason);
  if (all.overflowed() || !tailrace::parse_tags(all.view(), set, at, fault)) return -1;
  char canonical[tailrace::kMaxTagsBytes + 1];
  tailrace::Writer out(canonical, sizeof canonical);
  if (!tailrace::merge_tags(none, set, out) || out.size() >= size) return -1;
  std::memcpy(text, canonical, out.size());
  text[out.size()] = '\0';
  return static_cast<int>(out.size());
}

PUBLIC tailrace_run *tailrace_run_open(const char *directory, const char *tags, char *message, size_t size) {
  return guarded<tailrace_run *>(message, size, nullptr, [&] {
    // What the manager declares would have them.
    if (tailrace::launcher::name_hasher().is_on())
      throw Fault(Fault::Kind::kUsage, "not traced: this plugin can't hash names (TAILRACE_REDACT=paths)");
    auto run = std::make_unique<tailrace_run>();
    tailrace::launcher::Describing about;
    about.command = {program_invocation_name};
    about.tags = tags;
    run->directory = tailrace::launcher::open_run_directory(directory, about);
    core_library();
    run->sealer = std::make_unique<tailrace::launcher::SealerThread>(run->directory,
                                                                     tailrace::launcher::journal_directory(nullptr));
    return run.release();
  });
}

PUBLIC const char *tailrace_run_directory_of(const tailrace_run *run) { return run->directory.c_str(); }

PUBLIC int tailrace_run_environment(const tailrace_run *run, const char *tags, const char *const *base,
                                    void (*set)(void *data, const char *name, const char *value), void *data,
                                    char *message, size_t size) {
  return guarded(message, size, -1, [&] {
    std::vector<std::string> entries;
    for (const char *const *entry = base; *entry != nullptr; entry++) entries.emplace_back(*entry);
    const Environment before(entries);
    const Environment traced = tailrace::launcher::task_environment(before, core_library(), run->directory, tags);
    for (const std::string &entry : traced.entries()) {
      const size_t equals = entry.find('=');
      const std::string name = entry.substr(0, equals);
      const char *known = before.get(name.c_str());
      if (known == nullptr || entry.compare(equals + 1, std::string::npos, known) != 0) {
        set(data, name.c_str(), entry.c_str() + equals + 1);
      }
    }
    return 0;
  });
}

PUBLIC int tailrace_run_declare(tailrace_run *run, const char *manager, const char *line, char *message, size_t size) {
  return guarded(message, size, -1, [&] {
    check_declaration(manager, line);
    if (run->descriptor < 0 || run->declared != manager) {
      const int file = declared_file(run->directory, manager);
      if (run->descriptor >= 0) ::close(run->descriptor);
      run->descriptor = file;
      run->declared = manager;
    }
    const std::string whole = std::string(line) + "\n";
    const ssize_t written = ::write(run->descriptor, whole.data(), whole.size());
    if (written < 0) tailrace::launcher::fail_with(errno);
    if (static_cast<size_t>(written) != whole.size()) tailrace::launcher::fail_with(ENOSPC);
    return 0;
  });
}

PUBLIC int tailrace_run_finish(tailrace_run *run, char *message, size_t size) {
  const std::unique_ptr<tailrace_run> own(run);
  return guarded(message, size, -1, [&] {
    const auto account = own->sealer->finish();
    if (account.journals.failed != 0) {
      put(tailrace::launcher::unsealed_message(account.journals.failed, account.journals.failed_events, own->directory)
              .c_str(),
          message, size);
      return -1;
    }
    return 0;
  });
}
