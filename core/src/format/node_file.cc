// See format/node_file.h.
#include "format/node_file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/sys.h"
#include "format/checked_file.h"
#include "format/crc32.h"

namespace tailrace {
namespace {

constexpr string_view kSuffix = ".pfw.gz";

void write_host(Writer &out) {
  utsname u;
  string_view host = uname(&u) == 0 ? string_view(u.nodename) : string_view("localhost");
  write_file_host(out, host);
}

// The name of a file of a sealer, and of no other folder.
bool is_file_name(string_view name) {
  return name.size() > kSuffix.size() && name[0] != '.' && name.find('/') == string_view::npos &&
         name.find('-') == string_view::npos && slice(name, name.size() - kSuffix.size(), kSuffix.size()) == kSuffix;
}

bool is_of(const SegmentHeader &segment, string_view header) {
  uint64_t pid, seg, epoch;
  char text[48];
  Writer start(text, sizeof text);
  start << "\"start\":\"";
  start.short_hex(segment.start_realtime_ns) << '"';
  return header_number(header, "pid", pid) && header_number(header, "seg", seg) &&
         header_number(header, "epoch", epoch) && pid == static_cast<uint64_t>(segment.pid) && seg == segment.segment &&
         epoch == segment.epoch.load() && header.find(start.view()) != string_view::npos;
}

// A sealer that lives would be writing the block.
void cut_torn_block(int fd, uint64_t file_bytes, uint64_t offset) {
  if (offset >= file_bytes || sys::flock(fd, LOCK_EX | LOCK_NB) != 0) return;
  walk_blocks(fd, file_bytes, 0, [&](BlockWalk &walk) {
    BlockPlace place;
    // Whatever the journal says, no more is cut than what follows the last whole block.
    while (walk.next(place)) {
    }
    if (!walk.foreign() && walk.offset() == offset) sys::ftruncate(fd, static_cast<int64_t>(offset));
  });
}

}  // namespace

NodeFile::~NodeFile() {
  add_to_manifest();
  if (fd_ >= 0) sys::close(fd_);
  if (directory_ >= 0) sys::close(directory_);
}

void NodeFile::open_directory(const char *trace_directory) {
  directory_ = sys::open(trace_directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (directory_ < 0) return;
  int high = high_descriptor(directory_);
  if (high >= 0) sys::close(directory_);
  directory_ = high >= 0 ? high : directory_;
}

bool NodeFile::write_name(uint64_t n) {
  Writer name(name_, sizeof name_);
  write_host(name);
  name << '.';
  name.number(static_cast<int64_t>(n)) << kSuffix;
  return *name.c_str() != 0 && !name.overflowed();
}

// The first number that no file has; those below it are taken.
uint64_t NodeFile::find_free() {
  struct statx s;
  auto is_taken = [&](uint64_t n) {
    return write_name(n) && sys::statx(directory_, name_, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &s) == 0;
  };
  uint64_t taken = 0, free = 1;
  if (!is_taken(0)) return 0;
  for (; free < (1ULL << 40) && is_taken(free); free *= 2) taken = free;
  while (free - taken > 1) {
    uint64_t middle = taken + (free - taken) / 2;
    (is_taken(middle) ? taken : free) = middle;
  }
  return free;
}

// One line in one write(2): other sealers of the node may append at the same time, those of other nodes have files of
// their own.
void NodeFile::add_to_manifest() {
  if (fd_ < 0 || blocks_ == noted_blocks_) return;
  char path[sizeof name_ + 32], line[sizeof name_ + 128];
  Writer p(path, sizeof path), w(line, sizeof line);
  write_host(p << "../manifest/");
  p << ".jsonl";
  (w << "{\"file\":").json(name_);
  (w << ",\"blocks\":").number(static_cast<int64_t>(blocks_));
  uint32_t crc = crc32_of(line, w.size());
  (w << ",\"crc\":\"").hex(crc, 8) << "\"}\n";
  p.c_str();
  if (p.overflowed() || w.overflowed()) return;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND;
  int fd = open_regular(path, kFlags, directory_);
  if (fd == -ENOENT) {
    sys::call(SYS_mkdirat, directory_, sys::pointer("../manifest"), 0700);
    fd = open_regular(path, kFlags, directory_);
  }
  if (fd < 0) return;
  if (sys::write(fd, line, w.size()) == static_cast<long>(w.size())) noted_blocks_ = blocks_;
  sys::close(fd);
}

int NodeFile::open_next() {
  add_to_manifest();
  if (fd_ >= 0) sys::close(fd_);
  fd_ = -1;
  if (directory_ < 0) return directory_;
  for (uint64_t n = find_free(); fd_ < 0; ++n) {
    if (!write_name(n)) return -ENAMETOOLONG;
    int fd = open_regular(name_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, directory_);
    if (fd == -EEXIST) continue;
    if (fd < 0) return fd;
    // On a file system without locks no one cuts this file's torn end.
    sys::flock(fd, LOCK_EX | LOCK_NB);
    fd_ = fd;
    bytes_ = blocks_ = noted_blocks_ = 0;
  }
  return 0;
}

// NFS and quotas report a full disk only when a descriptor of the file is closed.
int NodeFile::flush() {
  auto copy = static_cast<int>(sys::call(SYS_fcntl, fd_, F_DUPFD_CLOEXEC, 0));
  return copy < 0 ? copy : sys::close(copy);
}

int NodeFile::write_block(string_view member) {
  if (bytes_ + member.size() > sys::file_size_limit()) return -EFBIG;
  size_t done = 0;
  while (done < member.size()) {
    long n = sys::write(fd_, member.data() + done, member.size() - done);
    if (n == -EINTR) continue;
    if (n <= 0) {
      sys::ftruncate(fd_, static_cast<int64_t>(bytes_));
      return n == 0 ? -ENOSPC : static_cast<int>(n);
    }
    done += static_cast<size_t>(n);
  }
  int status = flush();
  if (status < 0) {
    sys::ftruncate(fd_, static_cast<int64_t>(bytes_));
    return status;
  }
  bytes_ += member.size();
  return 0;
}

int NodeFile::append(int journal_fd, SegmentHeader &copy, string_view member, uint32_t next_slot) {
  bool is_next = fd_ < 0 || (bytes_ > 0 && bytes_ + member.size() > kNodeFileBytes) || is_unlinked(fd_);
  int status = is_next ? open_next() : 0;
  if (status < 0) return status;
  copy.plan = {};
  copy.plan.offset = bytes_;
  copy.plan.epoch = copy.epoch.load();
  memcpy(copy.plan.file, name_, strlen(name_) + 1);
  if (!write_back(journal_fd, copy, copy.plan)) return -EIO;
  status = write_block(member);
  if (status < 0) return status;
  ++blocks_;
  copy.blocks.fetch_add(1);
  write_back(journal_fd, copy, copy.blocks);
  copy.first_slot.store(next_slot);
  // Where this fails the plan still tells that the block is written.
  write_back(journal_fd, copy, copy.first_slot);
  return 0;
}

void apply_plan(SegmentHeader &segment, int trace_directory) {
  const BlockPlan &plan = segment.plan;
  string_view name(plan.file, strnlen(plan.file, sizeof plan.file));
  if (plan.epoch != segment.epoch.load() || name.size() == sizeof plan.file || !is_file_name(name)) return;
  int fd = trace_directory < 0 ? -1 : open_regular(plan.file, O_RDWR, trace_directory);
  if (fd < 0) return;
  auto bytes = static_cast<uint64_t>(sys::lseek(fd, 0, SEEK_END));
  walk_blocks(fd, bytes, plan.offset, [&](BlockWalk &walk) {
    BlockPlace place;
    if (!walk.next(place)) {
      cut_torn_block(fd, bytes, plan.offset);
    } else if (is_of(segment, place.header)) {
      go_on_behind(segment, place.header);
      take_reported_losses(segment, place.header);
    }
  });
  sys::close(fd);
}

}  // namespace tailrace
