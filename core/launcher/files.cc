// See files.h.
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "fault.h"
#include "format/host_facts.h"
#include "format/journal.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

std::string read_all(int fd, size_t most) {
  std::string text;
  size_t room = std::min<size_t>(most, 16 * 1024);
  for (;;) {
    const size_t had = text.size();
    text.resize(std::min(had + room, most));
    const ssize_t n = text.size() > had ? ::read(fd, text.data() + had, text.size() - had) : 0;
    const int error = errno;
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error == EINTR) continue;
    if (n < 0) fail_with(error);
    if (n == 0) return text;
    room = 2 * text.size();
  }
}

}  // namespace

void fail_with(int error) { throw Fault(Fault::Kind::kSystem, std::strerror(error)); }

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string read_file(const std::string &path, size_t most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) fail_with(errno);
  return read_all(fd.get(), most);
}

std::string read_regular(const std::string &path, size_t most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) fail_with(errno);
  if (!S_ISREG(status.st_mode)) throw Fault(Fault::Kind::kSystem, "it is not a regular file");
  if (static_cast<uint64_t>(status.st_size) > most) {
    throw Fault(Fault::Kind::kSystem, "it has " + count_text(static_cast<uint64_t>(status.st_size), "byte") +
                                          ", more than the " + std::to_string(most) + " that are read");
  }
  return read_all(fd.get(), most);
}

void write_new_file(const std::string &path, std::string_view content) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.is_open()) fail_with(errno);
  while (!content.empty()) {
    const ssize_t n = ::write(fd.get(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      ::unlink(path.c_str());
      fail_with(error);
    }
    content.remove_prefix(static_cast<size_t>(n));
  }
}

std::vector<std::string> names_in(const std::string &directory) {
  const std::unique_ptr<DIR, int (*)(DIR *)> open(::opendir(directory.c_str()), ::closedir);
  if (open == nullptr) fail_with(errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent *entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) fail_with(errno);
  std::sort(names.begin(), names.end());
  return names;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string absolute(const std::string &path) {
  std::string from;
  if (path.empty() || path[0] != '/') {
    const std::unique_ptr<char, void (*)(void *)> here(::getcwd(nullptr, 0), ::free);
    if (here == nullptr) fail_with(errno);
    from = here.get();
  }
  std::string out;
  const std::string whole = from + "/" + path;
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.find('/', at), whole.size());
    const std::string_view part = std::string_view(whole).substr(at, end - at);
    if (!part.empty() && part != ".") (out += '/') += part;
    at = end + 1;
  }
  return out.empty() ? "/" : out;
}

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string file_host() {
  char name[256];
  Writer w(name, sizeof name);
  write_file_host(w, HostName().view());
  return std::string(w.view());
}

std::string process_stem(int pid, int64_t ns) {
  char stem[512];
  Writer w(stem, sizeof stem);
  write_process_stem(w, HostName().view(), pid, static_cast<uint64_t>(ns));
  return std::string(w.view());
}

std::string file_word(std::string_view text, size_t most) {
  std::string word(text.substr(0, most));
  for (char &c : word) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  }
  return word;
}

}  // namespace tailrace::launcher
