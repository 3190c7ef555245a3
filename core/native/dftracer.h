// DFTracer's traces as ours: JSON lines of version 0 (values as strings), 1 (ph "X") and 2 (ph 1; aggregated: 3).
//
// Two passes: DFTracerNames has the names of hashes, working directories and units of all files of a trace, since a
// process's file may use a name that its parent's defined; convert() writes a file's events.
//
// Invariants: a hash that has two names in a file (16 bits, version 1) has none: a missing name is better than a false
// one. What is left out is counted by its cause.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "foreign_writer.h"

namespace tailrace::native {

// What the metadata lines of one file say.
struct DFTracerFile {
  std::string path;
  std::unordered_map<std::string, std::string> names;  // kind and hash -> name
  std::unordered_map<std::string, bool> ambiguous;     // the hashes with two names
  std::unordered_map<int64_t, int64_t> unit_ns;        // of times, by process
  struct Start {
    std::string cwd, command, program;  // hashes
    int64_t ppid = -1, ts_ns = 0, end_ns = INT64_MAX;
  };
  std::unordered_map<int64_t, Start> starts;
  int64_t interval_ns = 1'000'000'000;  // of aggregated events
  size_t bytes = 0;
};

class DFTracerNames {
 public:
  explicit DFTracerNames(size_t most_bytes) : most_bytes_(most_bytes) {}
  // Reads the metadata of a file. May be called by several threads. Throws TraceFault.
  std::shared_ptr<DFTracerFile> scan(const std::string &path) const;
  // Adds a scanned file. Throws TraceFault where all names are more than there is memory for.
  void add(const std::shared_ptr<DFTracerFile> &file);
  // The name of a hash in a file: of its own, else of the others where these agree; nullptr: none.
  const std::string *find(const DFTracerFile &file, const std::string &key) const;
  void check_memory(const std::string &path, size_t bytes) const;

 private:
  size_t most_bytes_, bytes_ = 0;
  std::vector<std::shared_ptr<DFTracerFile>> files_;
  std::unordered_map<std::string, const std::string *> all_;  // nullptr: files differ
};

struct DFTracerResult {
  ForeignSums sums;
  std::map<std::string, uint64_t> losses;  // by cause
};

// Writes the events of a scanned file to `target`. Throws TraceFault.
DFTracerResult convert_dftracer(const DFTracerNames &names, const DFTracerFile &file, const std::string &target);

// Whether the file begins with lines of DFTracer's: objects with name, cat, pid and ph.
bool is_dftracer(const std::string &path);

}  // namespace tailrace::native
