// See core_here.h. The core is looked up at each use: a program may attach to it at any time.
#include "core_here.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tailrace::launcher {
namespace {

template <class Function>
Function *core_function(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

std::optional<std::string> text_of(const char *text) {
  return text != nullptr && *text != 0 ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<int64_t> field(const char *text, const char *name) {
  const char *found = std::strstr(text, name);
  return found != nullptr ? std::optional<int64_t>(std::atoll(found + std::strlen(name))) : std::nullopt;
}

}  // namespace

bool is_traced() {
  auto *active = core_function<int()>("tailrace_active");
  return active != nullptr && active() != 0;
}

std::optional<std::string> surrounding_run() {
  auto *directory = core_function<const char *()>("tailrace_run_directory");
  return directory != nullptr ? text_of(directory()) : std::nullopt;
}

std::optional<std::string> setting_here(const char *name) {
  auto *setting = core_function<const char *(const char *)>("tailrace_setting");
  return setting != nullptr ? text_of(setting(name)) : std::nullopt;
}

std::string setting_by(const char *chosen, const char *name) {
  return chosen != nullptr && *chosen != 0 ? chosen : setting_here(name).value_or("");
}

std::optional<KernelAccount> kernel_account(const std::string &whose) {
  const int fd = ::open(("/proc/" + whose + "/io").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[4096];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return std::nullopt;
  text[n] = 0;
  const auto read = field(text, "rchar: "), written = field(text, "wchar: ");
  if (!read || !written) return std::nullopt;
  return KernelAccount{*read, *written, n};
}

OwnIo::OwnIo() {
  if (is_traced()) before_ = kernel_account("thread-self");
}

OwnIo::~OwnIo() {
  if (!before_) return;
  const auto after = kernel_account("thread-self");
  auto *count = core_function<void(uint64_t, uint64_t)>("tailrace_count_own");
  if (!after || count == nullptr) return;
  // The second reading includes the bytes of the first one, which the trace contains as well.
  const int64_t read = after->read - before_->read - before_->text_bytes, written = after->written - before_->written;
  count(static_cast<uint64_t>(std::max<int64_t>(0, read)), static_cast<uint64_t>(std::max<int64_t>(0, written)));
}

}  // namespace tailrace::launcher
