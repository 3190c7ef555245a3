// See follower.h: the process that waits for requests.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core_here.h"
#include "environment.h"
#include "files.h"
#include "follower.h"
#include "format/host_facts.h"
#include "format/journal_place.h"
#include "format/tags.h"
#include "kernel_numbers.h"
#include "name_key.h"

namespace tailrace::launcher {
namespace {

// A traced process sends its request at once, and gives up after two seconds.
constexpr struct timeval kPatience = {2, 0};

bool make_address(const std::string &path, struct sockaddr_un &out) {
  out = {};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.sun_path) return false;
  std::memcpy(out.sun_path, path.c_str(), path.size());
  return true;
}

// The run's journal directory, which only the user may enter; empty where there can be none.
std::string make_directory(const std::string &directory) {
  for (const std::string &path : {directory.substr(0, directory.rfind('/')), directory}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return "";
    if (!is_directory_of(path.c_str(), ::geteuid())) return "";
  }
  return directory;
}

int listen_at(const std::string &path) {
  struct sockaddr_un address;
  if (!make_address(path, address)) return -1;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto *at = reinterpret_cast<const struct sockaddr *>(&address);
  if (fd < 0) return -1;
  if (::connect(fd, at, sizeof address) == 0) {  // another launcher of this run
    ::close(fd);
    return -1;
  }
  ::unlink(path.c_str());  // of a killed one
  if (::bind(fd, at, sizeof address) == 0 && ::listen(fd, 1024) == 0) return fd;
  ::close(fd);
  return -1;
}

bool receive(int fd, void *to, size_t n) { return ::recv(fd, to, n, MSG_WAITALL) == static_cast<ssize_t>(n); }

// Whether the request comes from the process that it names, by the kernel: not from another pid namespace.
bool is_of_its_sender(int fd, const FollowRequest &request) {
  struct ucred sender = {};
  socklen_t n = sizeof sender;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &sender, &n) == 0 && sender.pid == request.pid &&
         sender.uid == ::geteuid();
}

void serve_one(int connection, const JournalPlace &place) {
  FollowRequest request{};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  if (!receive(connection, &request, sizeof request) || request.magic != kFollowMagic) return;
  if (request.tag_bytes > kMaxTagsBytes || !is_of_its_sender(connection, request)) return;
  std::string tags(request.tag_bytes, '\0');
  if (request.tag_bytes != 0 && !receive(connection, tags.data(), tags.size())) return;
  follow(place, request, tags, connection);
}

// Whoever waits for the end of our output, or of a pipe that we hold, must not wait for this process.
void let_go_of_all(int listener, int lifeline) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2 && null >= 0; ++fd) ::dup2(null, fd);
  const int low = std::min(listener, lifeline), high = std::max(listener, lifeline);
  ::syscall(SYS_close_range, 3, low - 1, 0);
  ::syscall(SYS_close_range, low + 1, high - 1, 0);
  ::syscall(SYS_close_range, high + 1, ~0U, 0);
}

[[noreturn]] void serve(int listener, int lifeline, const JournalPlace &place) {
  ::setsid();
  ::prctl(PR_SET_NAME, kFollowerName.data());
  let_go_of_all(listener, lifeline);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2})
    ::signal(number, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // followers leave no zombies
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  struct pollfd wanted[] = {{listener, POLLIN, 0}, {lifeline, POLLIN, 0}};
  for (;;) {
    if (::poll(wanted, 2, -1) < 0) continue;
    if (wanted[1].revents != 0) ::_exit(0);
    const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    if (::fork() == 0) {
      ::signal(SIGCHLD, SIG_DFL);
      ::close(listener);
      ::close(lifeline);
      serve_one(connection, place);
      ::_exit(0);
    }
    ::close(connection);
  }
}

}  // namespace

Following::Following(const std::string &run_dir, const Environment &environment) {
  const std::string directory = make_directory(journal_directories(run_dir, journal_directory(&environment)).front());
  if (directory.empty()) return;
  const auto setting = [&](const char *name) {
    const char *value = environment.get(name);
    return std::string_view(value != nullptr ? value : "");
  };
  JournalPlace place{directory,
                     run_dir + "/trace",
                     std::string(HostName().view()),
                     parse_clock_reference(setting("TAILRACE_CLOCK")),
                     {},
                     parse_redaction(setting("TAILRACE_REDACT")),
                     name_hasher(),
                     std::string(setting("TAILRACE_INCLUDE")),
                     std::string(setting("TAILRACE_EXCLUDE")),
                     setting("TAILRACE_UNSEEN") == kFollowAll,
                     std::string(setting("TAILRACE_FOLLOW"))};
  if (!parse_detail(setting("TAILRACE_DETAIL"), place.detail)) place.detail = {};
  socket_ = directory + std::string(kFollowSocket);
  const int listener = listen_at(socket_);
  int ends[2];
  if (listener < 0 || ::pipe2(ends, O_CLOEXEC) != 0) {
    if (listener >= 0) ::close(listener);
    return;
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[1]);
    serve(listener, ends[0], place);
  }
  ::close(listener);
  ::close(ends[0]);
  lifeline_ = ends[1];
  if (pid_ < 0) {
    ::close(lifeline_);
    lifeline_ = -1;
  }
}

Following::~Following() {
  if (lifeline_ < 0) return;
  ::unlink(socket_.c_str());
  ::close(lifeline_);
  // It only waits for requests, so nothing is cut short.
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Following::ask(const std::string &tags) const {
  struct sockaddr_un address;
  const Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open() || !make_address(socket_, address)) return false;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  if (::connect(fd.get(), reinterpret_cast<const struct sockaddr *>(&address), sizeof address) != 0) return false;
  const FollowRequest request{kFollowMagic,
                              FollowKind::kChild,
                              ::getpid(),
                              static_cast<int32_t>(::syscall(SYS_gettid)),
                              static_cast<uint32_t>(tags.size()),
                              {}};
  FollowAnswer follower{};
  const auto send = [&](const void *data, size_t n) {
    return ::send(fd.get(), data, n, MSG_NOSIGNAL) == static_cast<ssize_t>(n);
  };
  if (!send(&request, sizeof request) || (!tags.empty() && !send(tags.data(), tags.size()))) return false;
  if (!receive(fd.get(), &follower, sizeof follower)) return false;
  ::prctl(PR_SET_PTRACER, follower.pid, 0, 0, 0);
  return send("", 1) && receive(fd.get(), &follower, sizeof follower) && follower.pid > 0;
}

}  // namespace tailrace::launcher
