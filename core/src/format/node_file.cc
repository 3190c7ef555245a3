// See format/node_file.h.
#include "format/node_file.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/sys.h"
#include "format/checked_file.h"
#include "format/host_facts.h"
#include "format/manifest_line.h"

namespace tailrace {
namespace {

constexpr string_view kSuffix = ".pfw.gz";

void write_host(Writer &out) { write_file_host(out, HostName().view()); }

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
void cut_torn_block(int fd, uint64_t offset) {
  if (sys::flock(fd, LOCK_EX | LOCK_NB) != 0) return;
  // With the lock: another sealer may have continued the file since.
  auto file_bytes = static_cast<uint64_t>(sys::lseek(fd, 0, SEEK_END));
  if (offset >= file_bytes) return;
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
  leave(bytes_);
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

// A file in the run's manifest/ with this suffix behind the host. -errno.
int NodeFile::open_in_manifest(string_view suffix, int flags) {
  char path[sizeof name_ + 96];
  Writer p(path, sizeof path);
  write_host(p << "../manifest/");
  p << suffix;
  if (!*p.c_str() || p.overflowed()) return -ENAMETOOLONG;
  int fd = open_regular(path, flags, directory_);
  if (fd != -ENOENT || !(flags & O_CREAT)) return fd;
  sys::call(SYS_mkdirat, directory_, sys::pointer("../manifest"), 0700);
  return open_regular(path, flags, directory_);
}

// One line in one write(2): other sealers of the node may append at the same time, those of other nodes have files of
// their own. `line` begins with a newline, for where the line before it has none.
bool NodeFile::append_to_manifest(string_view line) {
  int fd = directory_ < 0 ? directory_ : open_in_manifest(".jsonl", O_RDWR | O_CREAT | O_APPEND);
  if (fd < 0) return false;
  if (!ends_within_a_line(fd)) line.remove_prefix(1);
  bool is_written = sys::write(fd, line.data(), line.size()) == static_cast<long>(line.size());
  sys::close(fd);
  return is_written;
}

void NodeFile::add_to_manifest() {
  if (fd_ < 0 || blocks_ == noted_blocks_) return;
  char line[sizeof name_ + 128];
  Writer w(line, sizeof line);
  write_manifest_line(w << '\n', name_, blocks_);
  if (!w.overflowed() && append_to_manifest(w.view())) noted_blocks_ = blocks_;
}

void NodeFile::note_removed_journals() {
  char line[128];
  Writer w(line, sizeof line);
  write_removal_line(w << '\n', realtime_ns());
  append_to_manifest(w.view());
}

// -1: there can be none.
int NodeFile::open_list(int flags) {
  char suffix[64];
  Writer w(suffix, sizeof suffix);
  int64_t bytes_read = 0;
  w << '.';
  if (!write_boot_id(w, bytes_read)) return -1;
  w << ".files";
  int fd = open_in_manifest(w.view(), flags);
  if (fd < 0 || is_owned_by(fd, sys::geteuid())) return fd < 0 ? -1 : fd;
  sys::close(fd);
  return -1;
}

// Lets go of the file, which another sealer may then continue.
void NodeFile::leave(uint64_t bytes) {
  if (fd_ < 0) return;
  add_to_manifest();
  int list = entry_at_ >= 0 ? open_list() : -1;
  struct statx s;
  if (list >= 0 && sys::statx(fd_, "", AT_EMPTY_PATH, STATX_INO, &s) >= 0) {
    Entry entry{number_, s.stx_ino, bytes, blocks_};
    sys::call(SYS_pwrite64, list, sys::pointer(&entry), sizeof entry, static_cast<long>(entry_at_));
  }
  if (list >= 0) sys::close(list);
  sys::close(fd_);
  fd_ = -1;
  entry_at_ = -1;
}

// A file that is open and locked. False: it is not as the list says, and may not be ours to cut.
bool NodeFile::take_over(int fd, const Entry &entry) {
  struct statx s;
  if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE, &s) < 0 || s.stx_ino != entry.inode) return false;
  if (s.stx_size < entry.bytes) return false;
  uint64_t whole = entry.bytes, blocks = entry.blocks;
  if (s.stx_size > whole) {
    bool sound = false;
    walk_blocks(fd, s.stx_size, whole, [&](BlockWalk &walk) {
      BlockPlace place;
      while (walk.next(place)) ++blocks;
      whole = walk.offset();
      char head[4] = {'\x1f', '\x8b', '\x08', '\x04'}, found[4];
      long n = sys::pread(fd, found, sizeof found, static_cast<int64_t>(whole));
      sound = n >= 0 && memcmp(head, found, static_cast<size_t>(n)) == 0;
    });
    if (!sound || (whole < s.stx_size && sys::ftruncate(fd, static_cast<int64_t>(whole)) < 0)) return false;
  }
  bytes_ = whole;
  blocks_ = blocks;
  noted_blocks_ = entry.blocks;
  return whole < kNodeFileBytes;
}

bool NodeFile::continue_one() {
  int list = open_list();
  if (list < 0) return false;
  Entry entry;
  auto read_entry = [&](int64_t at) {
    return sys::pread(list, &entry, sizeof entry, at) == static_cast<long>(sizeof entry);
  };
  for (int64_t at = 0; fd_ < 0 && read_entry(at); at += sizeof entry) {
    if (entry.bytes >= kNodeFileBytes || !write_name(entry.number)) continue;
    int fd = open_regular(name_, O_RDWR | O_APPEND, directory_);
    if (fd < 0) continue;
    // Again with the lock: its last sealer may have ended in between.
    bool is = is_owned_by(fd, sys::geteuid()) && sys::flock(fd, LOCK_EX | LOCK_NB) == 0 && !is_unlinked(fd) &&
              read_entry(at) && take_over(fd, entry);
    if (is) {
      fd_ = fd;
      number_ = entry.number;
      entry_at_ = at;
    } else {
      sys::close(fd);
    }
  }
  sys::close(list);
  return fd_ >= 0;
}

// Without the lock: a sealer that wants to continue the file would begin another one meanwhile.
void NodeFile::each_unfinished(void (*take)(void *, const char *, uint64_t), void *to) {
  int list = directory_ < 0 ? -1 : open_list(O_RDONLY);
  if (list < 0) return;
  char ours[sizeof name_];
  memcpy(ours, name_, sizeof name_);
  Entry entry;
  struct statx s;
  for (int64_t at = 0; sys::pread(list, &entry, sizeof entry, at) == static_cast<long>(sizeof entry);
       at += sizeof entry) {
    if (entry.bytes >= kNodeFileBytes || !write_name(entry.number)) continue;
    int fd = open_regular(name_, O_RDONLY, directory_);
    if (fd < 0) continue;
    if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE, &s) >= 0 && s.stx_ino == entry.inode &&
        s.stx_size > entry.bytes) {
      walk_blocks(fd, s.stx_size, entry.bytes, [&](BlockWalk &walk) {
        BlockPlace place;
        while (walk.next(place)) {
        }
        take(to, name_, walk.offset());
      });
    }
    sys::close(fd);
  }
  memcpy(name_, ours, sizeof name_);
  sys::close(list);
}

void NodeFile::add_to_list() {
  struct statx s;
  int list = open_list();
  if (list < 0) return;
  Entry entry{number_, 0, 0, 0}, found;
  if (sys::statx(fd_, "", AT_EMPTY_PATH, STATX_INO, &s) >= 0) {
    entry.inode = s.stx_ino;
    sys::call(SYS_fcntl, list, F_SETFL, O_APPEND);
    sys::write(list, reinterpret_cast<const char *>(&entry), sizeof entry);
  }
  // Others may have added theirs.
  for (int64_t at = 0; sys::pread(list, &found, sizeof found, at) == static_cast<long>(sizeof found);
       at += sizeof found) {
    if (found.number == number_ && found.inode == entry.inode) entry_at_ = at;
  }
  sys::close(list);
}

int NodeFile::make_next() {
  for (uint64_t n = find_free(); fd_ < 0; ++n) {
    if (!write_name(n)) return -ENAMETOOLONG;
    int fd = open_regular(name_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, directory_);
    if (fd == -EEXIST) continue;
    if (fd < 0) return fd;
    // On a file system without locks no one cuts this file's torn end, nor continues it.
    bool locked = sys::flock(fd, LOCK_EX | LOCK_NB) == 0;
    fd_ = fd;
    number_ = n;
    bytes_ = blocks_ = noted_blocks_ = 0;
    if (locked) add_to_list();
  }
  return 0;
}

int NodeFile::open_next() {
  bool is_full = fd_ >= 0 && !is_unlinked(fd_);
  leave(is_full ? kNodeFileBytes : 0);
  others_bytes_ = kUnknown;
  if (directory_ < 0) return directory_;
  return continue_one() ? 0 : make_next();
}

uint64_t NodeFile::bytes_in_all() {
  if (others_bytes_ == kUnknown && directory_ >= 0) {
    others_bytes_ = 0;
    char ours[sizeof name_];
    memcpy(ours, name_, sizeof name_);
    struct statx s;
    for (uint64_t n = 0; write_name(n) && sys::statx(directory_, name_, AT_SYMLINK_NOFOLLOW, STATX_SIZE, &s) >= 0;
         ++n) {
      if (fd_ < 0 || n != number_) others_bytes_ += s.stx_size;
    }
    memcpy(name_, ours, sizeof name_);
  }
  return directory_ < 0 ? 0 : others_bytes_ + (fd_ >= 0 ? bytes_ : 0);
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

int NodeFile::append(int journal_fd, bool dead, SegmentHeader &copy, string_view member, uint32_t next_slot) {
  bool is_next = fd_ < 0 || (bytes_ > 0 && bytes_ + member.size() > kNodeFileBytes) || is_unlinked(fd_);
  int status = is_next ? open_next() : 0;
  if (status < 0) return status;
  copy.plan = {};
  copy.plan.offset = bytes_;
  copy.plan.epoch = copy.epoch.load();
  memcpy(copy.plan.file, name_, strlen(name_) + 1);
  // The blocks before this one are no longer to be found by the plan.
  bool planned = dead ? write_back_progress(journal_fd, copy) : write_back(journal_fd, copy, copy.plan);
  if (!planned) return -EIO;
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
      cut_torn_block(fd, plan.offset);
    } else if (is_of(segment, place.header)) {
      go_on_behind(segment, place.header);
      take_reported_losses(segment, place.header);
    }
  });
  sys::close(fd);
}

}  // namespace tailrace
