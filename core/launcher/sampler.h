// Samples of the node and of a run's processes, taken by the launcher in a thread of its own while the command runs:
// memory, processor time, context switches and pressure, as counter events in <run>/samples (docs/trace-format.md).
//
// Invariants: a sample is one write, so a killed launcher leaves whole lines but for the last one. What can't be read
// is left out of a line; what can't be written is missing by its number. Nothing of it reaches the command.
//
// Rejected: records in a journal, which would make the launcher a process of the run in every table; a sampler in the
// traced processes, which would delay their calls.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files.h"

namespace tailrace::launcher {

// The rate that TAILRACE_SAMPLE chooses, samples a second; 0: none.
double sample_rate(const char *setting);

class SamplerThread {
 public:
  // `journals`: the directories that have the journals of the run's processes on this node.
  SamplerThread(const std::string &run_dir, std::vector<std::string> journals, double rate);
  // Takes the last sample.
  ~SamplerThread();
  SamplerThread(const SamplerThread &) = delete;
  SamplerThread &operator=(const SamplerThread &) = delete;

 private:
  static void *begin(void *self);
  void run();
  void sample();
  void add_node(std::string &out, uint64_t now_ns);
  void add_processes(std::string &out);
  void add_process(std::string &out, int pid, const std::string &start);
  static std::optional<bool> is_of_this_namespace(const std::string &journal);

  std::vector<std::string> journals_;
  uint64_t period_ns_;
  uint64_t begun_monotonic_ns_, begun_realtime_ns_;
  uint64_t number_ = 0;
  bool torn_ = false;  // the last line is not whole
  std::string host_;
  Descriptor out_;
  std::map<std::string, bool> ours_;  // by the journal's name up to its number
  pthread_t thread_ = {};
  std::atomic<uint32_t> stopping_{0};
  bool is_running_ = false;
};

}  // namespace tailrace::launcher
