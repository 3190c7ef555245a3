// See spawn/library_access.h.
#include "spawn/library_access.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include "base/sys.h"
#include "session/session.h"

namespace tailrace {
namespace {

// Whether all descriptors below the limit are in use and stay open in the program that is executed.
bool keeps_all_descriptors() {
  constexpr long kFiles = 7;  // RLIMIT_NOFILE
  uint64_t limit[2];
  if (sys::call(SYS_prlimit64, 0, kFiles, 0, sys::pointer(limit)) < 0) return false;
  for (uint64_t fd = 0; fd < limit[0]; ++fd) {
    const long flags = sys::call(SYS_fcntl, static_cast<long>(fd), F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC)) return false;
  }
  return true;
}

Obstacle obstacle_of_opening(const char *path) {
  int fd = sys::open_within_limit(path, O_RDONLY, 0);
  if (fd == -EMFILE && keeps_all_descriptors()) return Obstacle::kNoDescriptor;
  if (fd == -EMFILE) fd = sys::open(path, O_RDONLY);
  if (fd >= 0) sys::close(fd);
  if (fd == -EACCES || fd == -EPERM) return Obstacle::kUnreadable;
  return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? Obstacle::kUnreachable : Obstacle::kNone;
}

// The calling thread's capabilities (capabilities(7)). A process that changes its user may keep them, and read by them
// what its next program can't: execve(2) leaves a user who is not root none but the ambient ones.
class Capabilities {
 public:
  bool read() { return sys::call(SYS_capget, sys::pointer(&header_), sys::pointer(data_)) == 0; }
  bool are_lost_by_execve() const { return (data_[0].effective | data_[1].effective) != 0; }
  bool put_aside() {
    struct __user_cap_data_struct left[_LINUX_CAPABILITY_U32S_3];
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) left[i] = {0, data_[i].permitted, data_[i].inheritable};
    for (const int reads : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
      if (sys::call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, reads, 0, 0) == 1)
        left[0].effective |= 1U << reads;
    }
    return sys::call(SYS_capset, sys::pointer(&header_), sys::pointer(left)) == 0;
  }
  void take_back() { sys::call(SYS_capset, sys::pointer(&header_), sys::pointer(data_)); }

 private:
  struct __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data_[_LINUX_CAPABILITY_U32S_3] = {};
};

}  // namespace

Obstacle library_obstacle() {
  const string_view path = g_session.environment.preload;
  // The dynamic linker searches for a bare name. Copies of settings are terminated.
  if (path.find('/') == string_view::npos) return Obstacle::kNone;
  Capabilities own;
  // A filter of the program's may end it for the calls that the others are examined without (hooks/seccomp.h).
  const bool may_ask = sys::geteuid() != 0 && g_session.filters.load(std::memory_order_relaxed) == 0;
  if (!may_ask || !own.read() || !own.are_lost_by_execve()) return obstacle_of_opening(path.data());
  sys::SignalsBlocked signals;  // no handler of the program's runs without them
  const bool are_aside = own.put_aside();
  const Obstacle found = obstacle_of_opening(path.data());
  if (are_aside) own.take_back();
  return found;
}

}  // namespace tailrace
