// See spawn/follow.h.
#include "spawn/follow.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/sys.h"

namespace tailrace {
namespace {

constexpr int kPatienceMs = 2000;

// A connection that never blocks: a follower that is stopped or slow must not stop the program.
class Connection {
 public:
  Connection() : fd_(static_cast<int>(sys::call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))) {}
  ~Connection() {
    if (fd_ >= 0) sys::close(fd_);
  }
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  bool open(const struct sockaddr_un &to) {
    return fd_ >= 0 && repeat([&] { return sys::call(SYS_connect, fd_, sys::pointer(&to), sizeof to); }) == 0;
  }
  bool send(const void *data, size_t n) {
    auto bytes = static_cast<long>(n);
    return repeat([&] { return sys::call(SYS_sendto, fd_, sys::pointer(data), bytes, MSG_NOSIGNAL, 0, 0); }) == bytes;
  }
  bool receive(FollowAnswer &answer) {
    constexpr auto kBytes = static_cast<long>(sizeof(FollowAnswer));
    return repeat([&] { return sys::call(SYS_recvfrom, fd_, sys::pointer(&answer), kBytes, 0, 0, 0); }) == kBytes;
  }

 private:
  template <class Call>
  long repeat(Call call) {
    constexpr long kPauseNs = 50'000;
    for (;;) {
      long status = call();
      if (status != -EAGAIN && status != -EINTR) return status;
      if (waited_ns_ > kPatienceMs * 1'000'000L) return status;
      timespec pause{0, kPauseNs};
      if (status == -EAGAIN) sys::call(SYS_nanosleep, sys::pointer(&pause), 0);
      waited_ns_ += kPauseNs;
    }
  }

  int fd_;
  long waited_ns_ = 0;
};

// A vfork child is none of its own yet.
EarlierImage this_image() {
  const Session &g = g_session;
  if (is_vfork_child() || !t_thread || !g.first_segment) return {};
  const SegmentHeader *mine = t_thread->segment ? t_thread->segment : g.first_segment;
  return {g.start_realtime_ns, g.start.monotonic_ns, g.segment_count.load(std::memory_order_relaxed), mine->segment};
}

bool find_socket(struct sockaddr_un &to) {
  to.sun_family = AF_UNIX;
  string_view stem(g_session.journal_stem);
  size_t slash = stem.rfind('/');
  Writer w(to.sun_path, sizeof to.sun_path);
  if (slash != string_view::npos) w << slice(stem, 0, slash) << kFollowSocket;
  return slash != string_view::npos && *w.c_str() != 0;
}

}  // namespace

void ask_to_follow(FollowKind kind, const Program &program, string_view tags) {
  if (!program.is_to_be_followed()) return;
  // A filter of the program's may end it for one of these calls, which examine_filter() does not look at.
  if (g_session.filters.load(std::memory_order_relaxed) > 0) return;
  struct sockaddr_un to {};
  Connection connection;
  FollowAnswer follower{};
  const FollowRequest request{kFollowMagic,
                              kind,
                              sys::getpid(),
                              sys::gettid(),
                              static_cast<uint32_t>(tags.size()),
                              kind == FollowKind::kCaller ? this_image() : EarlierImage{}};
  if (!find_socket(to) || !connection.open(to) || !connection.send(&request, sizeof request)) return;
  if (!tags.empty() && !connection.send(tags.data(), tags.size())) return;
  if (!connection.receive(follower) || follower.pid <= 0) return;
  // Yama lets nobody but an ancestor trace otherwise; without Yama this is an error that does not matter.
  sys::call(SYS_prctl, PR_SET_PTRACER, follower.pid, 0, 0, 0);
  const char go = 1;
  if (connection.send(&go, sizeof go)) connection.receive(follower);
}

}  // namespace tailrace
