// Which file system a file lies on, told by the mount tables of the hosts that run.json knows (analyzer/mounts.py makes
// the rows). What always holds: a doubt is decided for "local", since a missed match is better than a false one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::native {

// One row of the mount table of a host. `file_system` names a network file system, "" a local one. Without `dev` it is
// the host whose device numbers hold on this one too, since both names are one machine's (containers).
struct Mount {
  std::string host;
  std::string dev;  // "major:minor"
  std::string point;
  std::string file_system;
};

// Which file system a file's identity starts with. Device numbers mean something only on their own host; on a host
// whose mounts are not known, a file without a block device (major 0) is placed by the mount point that its path lies
// under.
class Mounts {
 public:
  explicit Mounts(std::vector<Mount> rows);
  // The network file system's name, or "" when `host` and `dev` identify the file.
  std::string_view file_system(std::string_view host, std::string_view dev, std::string_view path) const;
  // Under which of its names the machine's device numbers are known; `host` where it has but one.
  std::string_view machine(std::string_view host) const;

 private:
  std::vector<Mount> rows_;  // longest mount point first
  std::vector<Mount> machines_;
};

}  // namespace tailrace::native
