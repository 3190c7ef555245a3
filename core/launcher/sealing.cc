// See sealing.h.
#include "sealing.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/sys.h"
#include "core_here.h"
#include "fault.h"
#include "files.h"
#include "format/journal_place.h"

namespace tailrace::launcher {
namespace {

constexpr size_t kStatBytes = 4096;

// Seals what is in the directories by seal(directory), which returns 0 or -errno.
template <class Seal>
void seal_places(const std::vector<std::string> &directories, const std::string &run_dir, Seal seal) {
  std::string fault;
  for (const std::string &directory : directories) {
    const int status = seal(directory.c_str());
    // Where another user has taken our name the core has used another place, which is in the list.
    const bool foreign = status == -EPERM || status == -EACCES || status == -ENOTDIR || status == -ELOOP;
    if (status < 0 && !(foreign && directories.size() > 1)) fault = directory + ": " + std::strerror(-status);
    remove_empty_place(directory, run_dir);
  }
  if (!fault.empty()) throw Fault(Fault::Kind::kCore, fault);
}

// This process and its ancestors.
std::set<int> ancestry() {
  std::set<int> found;
  for (int pid = ::getpid(); pid > 0;) {
    found.insert(pid);
    std::string text;
    try {
      text = read_file("/proc/" + std::to_string(pid) + "/stat", kStatBytes);
    } catch (const Fault &) {
      break;  // hidepid (proc(5)) hides other users' processes
    }
    // The parent's pid is the second field after the name in parentheses; the name may contain any character.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 4 >= text.size()) break;
    pid = std::atoi(text.c_str() + name_end + 4);
  }
  return found;
}

// HOST-PID-START.N.tj, where neither has a "-"; 0 for any other name.
int process_of(std::string_view name) {
  if (!ends_with(name, ".tj")) return 0;
  const size_t first = name.find('-'), second = name.find('-', first + 1);
  const bool three = first != std::string_view::npos && first > 0 && second != std::string_view::npos &&
                     name.find('-', second + 1) == std::string_view::npos && second + 1 < name.size() - 3;
  if (!three) return 0;
  const std::string_view digits = name.substr(first + 1, second - first - 1);
  const bool is_number = !digits.empty() && digits.size() < 10 &&
                         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::atoi(std::string(digits).c_str()) : 0;
}

}  // namespace

SealAccount seal_journals(const std::string &run_dir, const std::string &journal_dir) {
  const OwnIo own;
  SealAccount account;
  Sealing sealing(run_dir + "/trace", account.journals);
  sealing.begin_account();
  seal_places(journal_directories(run_dir, journal_dir), run_dir,
              [&](const char *place) { return sealing.seal_dead(place); });
  return account;
}

SealerThread::SealerThread(const std::string &run_dir, const std::string &journal_dir)
    : run_dir_(run_dir),
      directories_(journal_directories(run_dir, journal_dir)),
      sealer_(directories_.front(), run_dir + "/trace") {
  if (sealer_.begin() < 0) return;
  // A signal for this process is its other threads' to take.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_barrier_init(&begun_, nullptr, 2);
  is_running_ = pthread_create(&thread_, nullptr, begin, this) == 0;
  if (is_running_) {
    pthread_barrier_wait(&begun_);
  } else {
    sealer_.stop();  // no more threads: processes seal for themselves
  }
  pthread_barrier_destroy(&begun_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void *SealerThread::begin(void *self) {
  auto *thread = static_cast<SealerThread *>(self);
  thread->id_ = sys::gettid();
  pthread_barrier_wait(&thread->begun_);
  thread->sealer_.run();
  return nullptr;
}

void SealerThread::end() {
  sealer_.stop();
  if (is_running_) pthread_join(thread_, nullptr);
  is_running_ = false;
  id_ = 0;
}

SealAccount SealerThread::finish() {
  end();
  seal_places(directories_, run_dir_, [&](const char *place) { return sealer_.seal_dead(place); });
  return {sealer_.result(), sealer_.processor_ns()};
}

std::string unsealed_message(uint64_t failed, uint64_t events, const std::string &run_dir) {
  return std::to_string(events) + " events of " + std::to_string(failed) +
         " journals are unsealed on this node, because " + run_dir +
         " is not writable: make room and run `tailrace seal " + run_dir + "`";
}

std::set<int> processes_of(const std::vector<std::string> &journals) {
  std::set<int> found;
  for (const std::string &name : journals) {
    if (const int pid = process_of(name)) found.insert(pid);
  }
  // Most runs leave none.
  if (found.empty()) return found;
  for (const int pid : ancestry()) found.erase(pid);
  return found;
}

std::set<int> unsealed_processes(const std::string &run_dir, const std::string &journal_dir) {
  std::vector<std::string> names;
  for (const std::string &directory : journal_directories(run_dir, journal_dir)) {
    try {
      for (std::string &name : names_in(directory)) names.push_back(std::move(name));
    } catch (const Fault &) {
      continue;  // there is none
    }
  }
  return processes_of(names);
}

}  // namespace tailrace::launcher
