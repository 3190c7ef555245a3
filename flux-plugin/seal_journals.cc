// See seal_journals.h.
#include "seal_journals.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <new>

#include "format/node_sealer.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED tailrace::flux::MakeSealer tailrace_make_sealer;
EXPORTED tailrace::flux::StartSealer tailrace_start_sealer;
EXPORTED tailrace::flux::StopSealer tailrace_stop_sealer;
EXPORTED tailrace::flux::SealJournals tailrace_seal_journals;
EXPORTED tailrace::flux::SumBlocks tailrace_sum_blocks;
EXPORTED tailrace::flux::FreeSealer tailrace_free_sealer;

namespace {

struct SealerThread {
  tailrace::NodeSealer sealer;
  tailrace::flux::BlocksBefore before;
  bool possible;
  pthread_t thread;
  bool runs;
};

void *run(void *sealer) {
  static_cast<tailrace::NodeSealer *>(sealer)->run();
  return nullptr;
}

// Whether a journal <host>-<pid>-<start>.<n>.tj in the directory is of a process that has ended.
bool has_dead_journal(const char *directory) {
  DIR *dir = opendir(directory);
  bool found = false;
  while (dirent *entry = dir && !found ? readdir(dir) : nullptr) {
    tailrace::string_view name(entry->d_name);
    size_t start = name.rfind('-');
    size_t pid = start == tailrace::string_view::npos ? start : tailrace::slice(name, 0, start).rfind('-');
    if (pid == tailrace::string_view::npos) continue;
    int number = atoi(entry->d_name + pid + 1);
    found = number > 0 && kill(number, 0) != 0 && errno == ESRCH;
  }
  if (dir) closedir(dir);
  return found;
}

}  // namespace

void *tailrace_make_sealer(const char *directory, const char *trace) {
  void *memory = malloc(sizeof(SealerThread));
  if (!memory) return nullptr;
  auto *s = new (memory) SealerThread{{directory, trace}, tailrace::flux::BlocksBefore(trace), false, {}, false};
  s->possible = s->sealer.begin() == 0;
  return s;
}

void tailrace_start_sealer(void *sealer) {
  auto *s = static_cast<SealerThread *>(sealer);
  if (!s->possible || s->runs) return;
  // The shell's own thread takes its signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  s->runs = pthread_create(&s->thread, nullptr, run, &s->sealer) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void tailrace_stop_sealer(void *sealer) {
  auto *s = static_cast<SealerThread *>(sealer);
  s->sealer.stop();
  if (s->runs) pthread_join(s->thread, nullptr);
  s->runs = false;
}

int tailrace_seal_journals(void *sealer, const char *directory, tailrace::flux::JournalCounts *counts) {
  auto *s = static_cast<SealerThread *>(sealer);
  int status = s->sealer.seal_dead(directory);
  // The node's sealer may be in another job's shell and have some of them in its hands.
  constexpr int kLooks = 500;
  constexpr timespec kPause = {0, 2'000'000};
  for (int i = 0; i < kLooks && status == 0 && s->sealer.result().failed == 0 && has_dead_journal(directory); ++i) {
    nanosleep(&kPause, nullptr);
    status = s->sealer.seal_dead(directory);
  }
  counts->failed = s->sealer.result().failed;
  counts->failed_events = s->sealer.result().failed_events;
  return status;
}

void tailrace_sum_blocks(void *sealer, const char *job, const char *node, tailrace::flux::JobSums *sums) {
  static_cast<SealerThread *>(sealer)->before.add_later(job, node, *sums);
}

void tailrace_free_sealer(void *sealer) {
  tailrace_stop_sealer(sealer);
  static_cast<SealerThread *>(sealer)->~SealerThread();
  free(sealer);
}
