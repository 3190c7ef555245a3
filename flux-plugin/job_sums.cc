// See job_sums.h.
#include "job_sums.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/checked_file.h"
#include "format/host_facts.h"
#include "format/node_file.h"

namespace tailrace::flux {
namespace {

constexpr string_view kSuffix = ".pfw.gz";

// Calls use(directory, name, status) for each trace file.
template <class Use>
void each_file(const char *path, Use use) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fd >= 0 ? fdopendir(fd) : nullptr;
  if (!directory) {
    if (fd >= 0) close(fd);
    return;
  }
  while (dirent *entry = readdir(directory)) {
    string_view name(entry->d_name);
    struct stat status;
    bool is = name.size() > kSuffix.size() && slice(name, name.size() - kSuffix.size(), kSuffix.size()) == kSuffix &&
              fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
    if (is) use(fd, entry->d_name, status);
  }
  closedir(directory);
}

// Whether one of the header's contexts has both tags.
bool has_context(string_view header, string_view job, string_view node) {
  size_t at = header.find("\"contexts\":[");
  if (at == string_view::npos) return false;
  string_view rest = slice(header, at + 12, header.size() - at - 12);
  while (!rest.empty() && rest[0] != ']') {
    rest.remove_prefix(1);  // the quote; canonical tags need no escapes in JSON
    size_t end = rest.find('"');
    if (end == string_view::npos) return false;
    string_view tags = slice(rest, 0, end);
    bool found[2] = {false, false};
    while (!tags.empty()) {
      size_t comma = tags.find(',');
      string_view tag = slice(tags, 0, comma == string_view::npos ? tags.size() : comma);
      found[0] = found[0] || tag == job;
      found[1] = found[1] || tag == node;
      tags.remove_prefix(comma == string_view::npos ? tags.size() : comma + 1);
    }
    if (found[0] && found[1]) return true;
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest[0] == ',') rest.remove_prefix(1);
  }
  return false;
}

uint64_t number_in(string_view header, string_view key) {
  uint64_t value = 0;
  header_number(header, key, value);
  return value;
}

// All causes.
uint64_t lost_in(string_view header) {
  size_t at = header.find("\"lost\":{");
  if (at == string_view::npos) return 0;
  string_view lost = slice(header, at, header.size() - at);
  size_t end = lost.find('}');
  uint64_t sum = 0;
  for (const char *cause : kLossNames) sum += number_in(slice(lost, 0, end == string_view::npos ? 0 : end), cause);
  return sum;
}

// The events that there are under full detail: [lines of totals, the events that they stand for].
uint64_t events_in(string_view header) {
  uint64_t events = number_in(header, "events"), lines = 0, records = 0;
  size_t at = header.find("\"totals\":[");
  if (at == string_view::npos) return events;
  string_view rest = slice(header, at + 10, header.size() - at - 10);
  if (!take_decimal(rest, lines) || rest.empty()) return events;
  rest.remove_prefix(1);
  return take_decimal(rest, records) && lines <= events ? events - lines + records : events;
}

}  // namespace

BlocksBefore::BlocksBefore(const char *trace_directory) {
  Writer path(directory_, sizeof directory_);
  path << string_view(trace_directory);
  path.c_str();
  each_file(directory_, [&](int, const char *, const struct stat &status) {
    auto *more = static_cast<File *>(realloc(files_, (count_ + 1) * sizeof(File)));
    if (!more) return;
    files_ = more;
    files_[count_++] = {status.st_ino, static_cast<uint64_t>(status.st_size)};
  });
  qsort(files_, count_, sizeof(File), [](const void *a, const void *b) {
    uint64_t x = static_cast<const File *>(a)->inode, y = static_cast<const File *>(b)->inode;
    return x < y ? -1 : static_cast<int>(x > y);
  });
  NodeFile node;
  node.open_directory(directory_);
  // What a killed sealer left behind the last whole block is cut off, and written over.
  auto take = [](void *to, const char *name, uint64_t end) {
    auto &before = *static_cast<BlocksBefore *>(to);
    char file[sizeof before.directory_ + 300];
    Writer path(file, sizeof file);
    path << string_view(before.directory_) << '/' << string_view(name);
    struct stat status;
    if (lstat(path.c_str(), &status) != 0) return;
    File *known = before.find(status.st_ino);
    if (known && known->bytes > end) known->bytes = end;
  };
  node.each_unfinished(take, this);
}

BlocksBefore::~BlocksBefore() { free(files_); }

BlocksBefore::File *BlocksBefore::find(uint64_t inode) const {
  size_t from = 0, to = count_;
  while (from < to) {
    size_t middle = (from + to) / 2;
    if (files_[middle].inode == inode) return &files_[middle];
    (files_[middle].inode < inode ? from : to) = files_[middle].inode < inode ? middle + 1 : middle;
  }
  return nullptr;
}

void BlocksBefore::add_later(string_view job, string_view node, JobSums &sums) const {
  each_file(directory_, [&](int directory, const char *name, const struct stat &status) {
    auto bytes = static_cast<uint64_t>(status.st_size);
    const File *known = find(status.st_ino);
    uint64_t before = known ? known->bytes : 0;
    if (before >= bytes) return;
    int fd = open_regular(name, O_RDONLY, directory);
    if (fd < 0) return;
    walk_blocks(fd, bytes, before, [&](BlockWalk &walk) {
      BlockPlace place;
      while (walk.next(place)) {
        if (!has_context(place.header, job, node)) continue;
        sums.events += events_in(place.header);
        sums.read_bytes += number_in(place.header, "read");
        sums.written_bytes += number_in(place.header, "written");
        sums.lost += lost_in(place.header);
      }
    });
    close(fd);
  });
}

}  // namespace tailrace::flux
