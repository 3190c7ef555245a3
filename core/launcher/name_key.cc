// See name_key.h.
#include "name_key.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core_here.h"
#include "fault.h"
#include "files.h"
#include "format/redaction.h"
#include "format/tags.h"

namespace tailrace::launcher {
namespace {

constexpr const char kKey[] = "TAILRACE_NAME_KEY";
constexpr const char kKeyFile[] = "TAILRACE_REDACT_KEY";
constexpr const char kWhatToDo[] =
    ": give a file with 32 hex digits that only you can read (`umask 077; openssl rand -hex 16 > FILE`)";
constexpr size_t kMostFileBytes = 256;

std::string setting(const char *name) { return setting_by(std::getenv(name), name); }

std::string random_key() {
  unsigned char bytes[kNameKeyDigits / 2] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail_with(errno);
  char digits[kNameKeyDigits];
  for (size_t i = 0; i < sizeof bytes; ++i) put_hex(digits + 2 * i, bytes[i], 2);
  return {digits, sizeof digits};
}

[[noreturn]] void refuse(const std::string &path, const std::string &why) {
  throw Fault(Fault::Kind::kUsage, "the key file " + path + " " + why + kWhatToDo);
}

}  // namespace

std::string key_in_file(const std::string &path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) refuse(path, "can't be read");
  if (!S_ISREG(status.st_mode)) refuse(path, "is no regular file");
  if (status.st_uid != ::geteuid()) refuse(path, "belongs to another user");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse(path, "can be read or written by others");
  char text[kMostFileBytes];
  const ssize_t n = ::read(fd.get(), text, sizeof text);
  std::string key(text, n > 0 ? static_cast<size_t>(n) : 0);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
  NameHasher hasher;
  if (!hasher.set_key(key, {})) refuse(path, "has no key");
  return key;
}

const NameHasher &name_hasher() {
  static const NameHasher off;
  if (parse_redaction(setting("TAILRACE_REDACT")) != Redaction::kPaths) return off;
  static std::mutex mutex;
  // A hasher points to its patterns, and callers to it: none is ever removed.
  static std::map<std::pair<std::string, std::string>, NameHasher> known;
  const std::lock_guard lock(mutex);
  // A process that has begun without a file may be given one for its next run (a notebook).
  static std::string drawn;
  std::string key = setting(kKey);
  const std::string file = setting(kKeyFile);
  if (key.empty() || (key == drawn && !file.empty())) {
    key = file.empty() ? drawn = random_key() : key_in_file(file);
    ::setenv(kKey, key.c_str(), 1);
  }
  const auto [entry, is_new] = known.try_emplace({key, setting("TAILRACE_REDACT_KEEP")});
  if (is_new && !entry->second.set_key(entry->first.first, entry->first.second)) {
    known.erase(entry);
    throw Fault(Fault::Kind::kUsage, std::string(kKey) + " has no key of 32 hex digits: unset it");
  }
  return entry->second;
}

std::string fingerprint_of(const NameHasher &hasher) {
  if (!hasher.is_on()) return "";
  char digits[16];
  put_hex(digits, hasher.fingerprint(), sizeof digits);
  return {digits, sizeof digits};
}

bool is_machine_file(const std::string &path) {
  struct stat status;
  const size_t slash = path.rfind('/');
  if (!NameHasher::is_public(path) || ::lstat(path.c_str(), &status) != 0) return false;
  if (slash == 0) return true;
  const std::unique_ptr<char, void (*)(void *)> real(::realpath(path.substr(0, slash).c_str(), nullptr), ::free);
  return real != nullptr && NameHasher::is_public(real.get());
}

std::string recorded_path(const NameHasher &hasher, const std::string &path, bool exists) {
  if (!hasher.is_on()) return path;
  return hashed_text(path.size(), [&](Writer &w) { hasher.write_path(w, path, exists); });
}

std::string recorded_tags(const NameHasher &hasher, const std::string &tags) {
  if (!hasher.is_on()) return tags;
  std::vector<char> room(kMaxTagsBytes);
  Writer w(room.data(), room.size());
  hasher.write_tags(w, tags);
  return std::string(w.view());
}

}  // namespace tailrace::launcher
