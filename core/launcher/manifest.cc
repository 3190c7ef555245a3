// See manifest.h.
#include "manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "fault.h"
#include "files.h"
#include "format/checked_file.h"
#include "format/manifest_line.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

constexpr const char kFolder[] = "/manifest";
constexpr std::string_view kSuffix = ".jsonl";
constexpr std::string_view kLineBegin = "{\"file\":\"";
constexpr size_t kMostBytes = 64 << 20;

// Removes the names that a manifest has; one with an escape is not a process's file.
void drop_known(std::set<std::string> &names, const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.substr(0, kLineBegin.size()) == kLineBegin) {
      const std::string_view name = line.substr(kLineBegin.size());
      names.erase(std::string(name.substr(0, name.find('"'))));
    }
    at = end + 1;
  }
}

std::string line_of(const std::string &name) {
  std::string room(6 * name.size() + 64, '\0');
  Writer line(room.data(), room.size());
  write_manifest_line(line, name);
  return std::string(line.view());
}

void add(const std::string &folder, std::set<std::string> names) {
  ::mkdir(folder.c_str(), 0700);
  const std::string inside = folder + "/";
  for (const std::string &file : names_in(folder)) {
    if (ends_with(file, kSuffix)) drop_known(names, read_regular(inside + file, kMostBytes));
  }
  if (names.empty()) return;
  const std::string path = inside + file_host() + std::string(kSuffix);
  const Descriptor fd(open_regular(path.c_str(), O_RDWR | O_CREAT | O_APPEND));
  if (!fd.is_open()) return;
  std::string lines = ends_within_a_line(fd.get()) ? "\n" : "";
  for (const std::string &name : names) lines += line_of(name);
  if (::write(fd.get(), lines.data(), lines.size()) < 0) return;
}

}  // namespace

void add_to_manifest(const std::string &run_dir, const Sizes &trace_files) {
  std::set<std::string> names;
  for (const auto &[path, bytes] : trace_files) {
    const std::string name = last_part(path);
    // A process's file has two "-" in its name, a node's none. An empty one was begun on a full disk, or by a process
    // that was killed at it: what it would have had is in a journal.
    if (bytes != 0 && std::count(name.begin(), name.end(), '-') == 2) names.insert(name);
  }
  if (names.empty()) return;
  try {
    add(run_dir + kFolder, std::move(names));
  } catch (const Fault &) {
    return;
  }
}

void remove_manifest(const std::string &run_dir) {
  const std::string folder = run_dir + kFolder;
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  try {
    const std::string inside = folder + "/";
    for (const std::string &name : names_in(folder)) ::unlink((inside + name).c_str());
  } catch (const Fault &) {
    return;
  }
  ::rmdir(folder.c_str());
}

}  // namespace tailrace::launcher
