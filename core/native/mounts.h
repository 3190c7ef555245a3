// The file system of a file, by the mount tables of the hosts in run.json (analyzer/store/mounts.py makes the rows).
//
// Invariant: in doubt a file is local, since a missed match is better than a false one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::native {

// One row of the mount table of a host. `file_system` names a network file system, "" a local one. In a row without
// `dev` it is another name of the same machine (containers), whose device numbers apply to this host as well.
struct Mount {
  std::string host;
  std::string dev;  // "major:minor"
  std::string point;
  std::string file_system;
};

// The file system with which a file's identity starts. Device numbers have a meaning on their own host only. On a host
// with unknown mounts, the file system of a file without a block device (major 0) is that of the mount point above its
// path.
class Mounts {
 public:
  explicit Mounts(std::vector<Mount> rows);
  // The network file system's name, or "" when `host` and `dev` identify the file.
  std::string_view file_system(std::string_view host, std::string_view dev, std::string_view path) const;
  // The name of the machine under which its device numbers are known; `host` where it has only one name.
  std::string_view machine(std::string_view host) const;

 private:
  std::vector<Mount> rows_;  // longest mount point first
  std::vector<Mount> machines_;
};

}  // namespace tailrace::native
