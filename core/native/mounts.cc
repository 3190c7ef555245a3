// See mounts.h.
#include "mounts.h"

#include <algorithm>

namespace tailrace::native {

Mounts::Mounts(std::vector<Mount> rows) : rows_(std::move(rows)) {
  auto names = std::stable_partition(rows_.begin(), rows_.end(), [](const Mount &row) { return !row.dev.empty(); });
  machines_.assign(names, rows_.end());
  rows_.erase(names, rows_.end());
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Mount &a, const Mount &b) { return a.point.size() > b.point.size(); });
}

std::string_view Mounts::file_system(std::string_view host, std::string_view dev, std::string_view path) const {
  bool known_host = false;
  for (const Mount &row : rows_) {
    if (row.host != host) continue;
    known_host = true;
    if (row.dev == dev) return row.file_system;
  }
  if (known_host || dev.substr(0, 2) != "0:") return {};
  for (const Mount &row : rows_) {
    const std::string_view point = row.point;
    const bool under = path.substr(0, point.size()) == point &&
                       (point == "/" || path.size() == point.size() || path[point.size()] == '/');
    if (under) return row.file_system;
  }
  return {};
}

std::string_view Mounts::machine(std::string_view host) const {
  for (const Mount &row : machines_) {
    if (row.host == host) return row.file_system;
  }
  return host;
}

}  // namespace tailrace::native
