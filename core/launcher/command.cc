// See command.h.
#include "command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/processor_time.h"
#include "core_here.h"
#include "fault.h"
#include "files.h"
#include "format/host_facts.h"
#include "name_key.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

constexpr const char kShell[] = "/bin/sh";
// A binary has a zero byte in its head, a script has none.
constexpr size_t kHeadBytes = 256;
// Attempts to read two accounts while neither changes.
constexpr int kReadings = 100;

// Passed on to the command. Not SIGTSTP and SIGCONT: the terminal stops and continues the whole process group.
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

constexpr const char *kSignalNames[] = {
    nullptr,     "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
    "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
    "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
    "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS",
};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kForwarded) sigaddset(&set, number);
  sigaddset(&set, SIGCHLD);
  return set;
}

// The signals blocked while a command runs. At its end, those that arrived after it are dropped: sealing is still to
// come.
class Watched {
 public:
  Watched() : set_(watched_signals()) { pthread_sigmask(SIG_BLOCK, &set_, &before_); }
  ~Watched() {
    const struct timespec now = {};
    while (sigtimedwait(&set_, nullptr, &now) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Watched(const Watched &) = delete;
  Watched &operator=(const Watched &) = delete;
  const sigset_t &set() const { return set_; }
  const sigset_t &before() const { return before_; }

 private:
  sigset_t set_, before_;
};

std::vector<char *> pointers(const std::vector<std::string> &words) {
  std::vector<char *> out;
  for (const std::string &word : words) out.push_back(const_cast<char *>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

bool is_text(const std::string &path) {
  try {
    return read_file(path, kHeadBytes).find('\0') == std::string::npos;
  } catch (const Fault &) {
    return false;
  }
}

// Returns 0 or an errno.
int spawn(const Command &command, const sigset_t &mask, pid_t &pid) {
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : command.ignored_here) sigaddset(&defaults, number);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  posix_spawnattr_setsigmask(&how, &mask);
  posix_spawnattr_setsigdefault(&how, &defaults);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::vector<char *> variables = command.environment.pointers();
  const std::vector<std::string> &words = command.words;
  int error = posix_spawnp(&pid, words[0].c_str(), nullptr, &how, pointers(words).data(), variables.data());
  const auto script = error == ENOEXEC ? which(words[0]) : std::nullopt;
  if (script && is_text(*script)) {
    // The shell runs a text without "#!", as in execvp(3).
    std::vector<std::string> shell = {kShell, *script};
    shell.insert(shell.end(), words.begin() + 1, words.end());
    error = posix_spawn(&pid, kShell, nullptr, &how, pointers(shell).data(), variables.data());
  }
  posix_spawnattr_destroy(&how);
  return error;
}

struct Moved {
  int64_t read, written;
};

// What the kernel tells of a command that has ended.
struct Account {
  std::optional<Moved> moved;
  ProcessTime time;
};

// The account of this process as of now and without that of the sealer's thread (0: there is none), and the bytes that
// this reading adds to it. None where it can't be read, or further threads have a part in it.
std::optional<KernelAccount> account_beside(int thread) {
  struct stat tasks;
  // The threads, ".", "..".
  const unsigned links = 3 + (thread != 0);
  if (::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != links) return std::nullopt;
  if (thread == 0) return kernel_account("self");
  const std::string sealer = "self/task/" + std::to_string(thread);
  int64_t read = 0;
  for (int i = 0; i < kReadings; ++i) {
    const auto first = kernel_account(sealer), own = kernel_account("self"), last = kernel_account(sealer);
    if (!first || !own || !last) return std::nullopt;
    const int64_t at_begin = own->read - first->read - first->text_bytes - read;
    read += first->text_bytes + own->text_bytes + last->text_bytes;
    if (first->read == last->read && first->written == last->written)
      return KernelAccount{at_begin, own->written - first->written, read};
  }
  return std::nullopt;
}

// Reaps a dead child: its wait status, and its account.
int take(pid_t pid, const SealerThread *sealer, Account &account) {
  int status = 0;
  if (is_traced()) {  // the core records the account in the trace
    ::waitpid(pid, &status, 0);
    return status;
  }
  int64_t bytes_read = 0;
  account.time = ended_process_time(pid, bytes_read);
  // Only root may read what a zombie has moved. For others it is what the wait adds to our own, without other threads.
  const auto found = kernel_account(std::to_string(pid));
  const int thread = sealer != nullptr ? sealer->id() : 0;
  const auto before = found ? std::nullopt : account_beside(thread);
  ::waitpid(pid, &status, 0);
  const auto after = before ? account_beside(thread) : std::nullopt;
  if (found) account.moved = Moved{found->read, found->written};
  if (before && after)
    account.moved = Moved{after->read - before->read - before->text_bytes, after->written - before->written};
  return status;
}

// Whether a signal to us has not reached the command as well, which is in our group. A positive code is the kernel's: a
// Ctrl-C of the terminal is for the whole group, but a hang-up is for the leader of the session alone (tty_ioctl(4)).
bool is_for_us_alone(const siginfo_t &received) {
  return received.si_code <= 0 || (received.si_signo == SIGHUP && ::getsid(0) == ::getpid());
}

int wait_for(pid_t pid, const sigset_t &watched, const SealerThread *sealer, Account &account) {
  for (;;) {
    siginfo_t ended = {};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
      Account of_child;
      const int status = take(ended.si_pid, sealer, of_child);
      if (ended.si_pid != pid) continue;  // an orphan that was adopted (integrations/pool.py)
      account = of_child;
      return status;
    }
    siginfo_t received = {};
    const int number = sigwaitinfo(&watched, &received);
    if (number > 0 && number != SIGCHLD && is_for_us_alone(received)) ::kill(pid, number);
  }
}

CommandAccount account_of(pid_t pid, int status, const Moved &moved, const std::optional<ProgramObstacle> &obstacle) {
  CommandAccount out{pid, status, moved.read, moved.written, static_cast<int64_t>(realtime_ns()), "", ""};
  if (obstacle) {
    out.untraced = obstacle->word;
    out.program = recorded_path(name_hasher(), obstacle->program, is_machine_file(obstacle->program));
  }
  return out;
}

// On a failure the run has no account of the command.
void write_account(const std::string &run_dir, const CommandAccount &account, const ProcessTime &time) {
  const HostName host;
  std::string row = "{\"host\": ";
  append_json(row, host.view());
  row += ", \"pid\": " + std::to_string(account.pid) + ", \"status\": " + std::to_string(account.status) +
         ", \"rchar\": " + std::to_string(account.read) + ", \"wchar\": " + std::to_string(account.written) +
         ", \"ns\": " + std::to_string(account.ns);
  const std::pair<const char *, int64_t> times[] = {
      {"run_ns", time.run_ns}, {"ready_ns", time.ready_ns}, {"ready_of_ns", time.ready_of_ns}};
  for (const auto &[key, value] : times) {
    if (value >= 0) row += std::string(", \"") + key + "\": " + std::to_string(value);
  }
  if (!account.untraced.empty()) {
    append_json(row += ", \"untraced\": ", account.untraced);
    append_json(row += ", \"program\": ", account.program);
  }
  const std::string folder = run_dir + "/accounts";
  ::mkdir(folder.c_str(), 0700);
  try {
    write_new_file(folder + "/" + process_stem(static_cast<int>(account.pid), account.ns) + ".json", row + "}\n");
  } catch (const Fault &) {
    return;
  }
}

}  // namespace

int run_command(const Command &given, const AccountPlace &place) {
  Command command = given;
  const auto filters = seccomp_filters();
  if (filters && command.environment.get("TAILRACE_RUN") != nullptr) {
    // A traced process under more filters than these avoids system calls that a filter may forbid
    // (core/src/session/session.cc).
    command.environment.set("TAILRACE_PROCESS", std::to_string(*filters) + ":" + std::to_string(::geteuid()));
  }
  // The caller may ignore SIGCHLD; then the kernel keeps no exit status.
  ::signal(SIGCHLD, SIG_DFL);
  const Watched watched;
  pid_t pid = 0;
  if (command.is_about_to_start) command.is_about_to_start();
  int error = spawn(command, watched.before(), pid);
  const bool is_too_long = error == E2BIG && command.environment.get("TAILRACE_RUN") != nullptr;
  if (is_too_long) {
    say("not traced: " + command.words[0] + ": its arguments and the environment leave no room for the settings");
    command.environment = Environment::of_this_process();
    error = spawn(command, watched.before(), pid);
  }
  if (error) {
    say(command.words[0] + ": " + (error == ENOENT ? "command not found" : std::strerror(error)));
    return error == ENOENT ? kNotFound : kNotExecutable;
  }
  const ProgramObstacle too_long = {"too_long", command.words[0], "", false};
  Account ended;
  const int status = wait_for(pid, watched.set(), place.sealer, ended);
  if (ended.moved && !place.run_dir.empty() && place.is_there()) {
    const CommandAccount account =
        account_of(pid, status, *ended.moved, is_too_long ? too_long : find_program_obstacle(command.words[0]));
    write_account(place.run_dir, account, ended.time);
    if (place.account != nullptr) *place.account = account;
  }
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string end_words(int code) {
  if (code == 0) return "";
  const std::string words = "exit code " + std::to_string(code);
  const int number = code - kSignalled;
  const bool is_signal = (number > 0 && number < 32) || (number >= SIGRTMIN && number <= SIGRTMAX);
  if (!is_signal) return words + ", ";
  std::string name = number < 32 ? kSignalNames[number] : number == SIGRTMIN ? "SIGRTMIN" : "";
  if (number == SIGRTMAX) name = "SIGRTMAX";
  return words + " (signal " + std::to_string(number) + (name.empty() ? "" : " (" + name + ")") + "), ";
}

}  // namespace tailrace::launcher
