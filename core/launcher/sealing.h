// Sealing by a launcher: meanwhile, in a thread (format/node_sealer.h), and at the end.
#pragma once

#include <pthread.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "environment.h"
#include "format/node_sealer.h"

namespace tailrace::launcher {

// What sealing came to. Throws Fault (kCore) where a directory can't be read.
struct SealAccount {
  SealedJournals journals;
  uint64_t processor_ns = 0;  // what a sealer's thread took
};
SealAccount seal_journals(const std::string &run_dir, const std::string &journal_dir);

// The node's sealer of a run, in a thread of this process, from its making until finish(). A launcher that is traced
// itself has none: the thread's I/O would be missing in the outer trace's account.
class SealerThread {
 public:
  SealerThread(const std::string &run_dir, const std::string &journal_dir);
  ~SealerThread() { end(); }
  SealerThread(const SealerThread &) = delete;
  SealerThread &operator=(const SealerThread &) = delete;

  // The thread's id; 0: there can be no sealer here, or it has ended.
  int id() const { return id_; }
  // Ends the thread and seals what is left; the counts are of all that was sealed.
  SealAccount finish();

 private:
  static void *begin(void *self);
  void end();

  std::string run_dir_;
  std::vector<std::string> directories_;
  NodeSealer sealer_;
  pthread_t thread_ = {};
  pthread_barrier_t begun_;
  bool is_running_ = false;
  int id_ = 0;
};

// A sentence on the journals that could not be sealed, and what to do.
std::string unsealed_message(uint64_t failed, uint64_t events, const std::string &run_dir);

// The processes of journals with these file names, without this process and its ancestors.
std::set<int> processes_of(const std::vector<std::string> &journals);
// This node's processes with an unsealed journal of the run, without this process and its ancestors.
std::set<int> unsealed_processes(const std::string &run_dir, const std::string &journal_dir);

}  // namespace tailrace::launcher
