// run.json: who ran what, where and when (schemas/run.schema.json). The Flux shell plugin writes the same file
// (flux-plugin/rundir.cc).
//
// Invariant: run.json is complete at every moment. It is published by link or rename, never written in place. A later
// run in the same directory, and a further host, only add an object to `restarts`; what is there stays as it is.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tailrace::launcher {

constexpr const char kDescription[] = "run.json";

struct Describing {
  std::vector<std::string> command;
  std::string tags;            // canonical
  std::string python_version;  // empty: no Python is there
};

struct Mount {
  std::string dev, source, root, point, fstype;
  bool operator==(const Mount &other) const {
    return std::tie(dev, source, root, point, fstype) ==
           std::tie(other.dev, other.source, other.root, other.point, other.fstype);
  }
};
// The mounts in a file of the form of /proc/self/mountinfo (proc(5)). Throws Fault when it can't be read.
std::vector<Mount> mounts(const std::string &mountinfo);
// The kernel's bound on the error of this host's clock in ns (adjtimex(2)); none when the clock is not synchronized.
std::optional<int64_t> clock_error_ns();
// The id of the running kernel, equal in all of its containers (random(4)).
std::optional<std::string> boot_id();

// Throws Fault where the run's names are hashed with another key than this process has, or are not and this one would
// hash them. A run that is not described yet is any's.
void check_name_key(const std::string &directory);

// Writes run.json, or adds this run to the `restarts` of an existing one. Throws Fault.
void describe_run(const std::string &directory, const Describing &run);
// Adds this host to run.json unless it is there. Throws Fault.
void describe_host(const std::string &directory, const Describing &run);

}  // namespace tailrace::launcher
