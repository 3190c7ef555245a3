// See session/segment_file.h.
#include "session/segment_file.h"

#include <errno.h>
#include <string.h>

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/checked_file.h"
#include "format/host_description.h"
#include "format/journal_place.h"
#include "session/container_start.h"
#include "session/ledger.h"
#include "session/own_descriptors.h"
#include "session/path_buffer.h"
#include "session/session.h"

namespace tailrace {
namespace {

const char *segment_path(uint32_t index, const PathBuffer &buffer) {
  Writer w(buffer.data(), kPathBytes);
  w << string_view(g_session.journal_stem) << '.';
  w.number(index) << ".tj";
  return w.c_str();
}

// Writes the directory of this user's journals in the present place. False: there is no such place here.
bool write_directory_of(Writer &w, unsigned uid) {
  const Session &g = g_session;
  int64_t bytes_read = 0;
  string_view run = g.environment[Setting::TAILRACE_RUN];
  if (!write_journal_place(w, g.journal_place, g.environment[Setting::TAILRACE_JOURNAL_DIR], uid, run, bytes_read)) {
    return false;
  }
  if (bytes_read) count_own(bytes_read, 0);
  write_journal_directory(w, uid, run);
  return !w.overflowed();
}

// <place>/tailrace-<uid>/<key>/<file>
bool directory_is_ours(const char *path) {
  PathBuffer copy;
  char *buffer = copy.data();
  size_t n = string_view(path).rfind('/');
  n = string_view(path, n).rfind('/');
  memcpy(buffer, path, n);
  buffer[n] = 0;
  return is_directory_of(buffer, sys::geteuid());
}

// Makes the run's journal directory, which only the user may enter, unless another process has. Returns 0, or -errno.
int make_directories(const char *path) {
  const Session &g = g_session;
  PathBuffer copy;
  char *buffer = copy.data();
  size_t n = strlen(path), last = string_view(path).rfind('/');
  memcpy(buffer, path, n + 1);
  // The place itself is there, the user's directory is two levels above the file.
  size_t user = string_view(path, last).rfind('/'), place = string_view(path, user).rfind('/');
  size_t from = existing_part(g.journal_place, string_view(path, place), g.environment[Setting::TAILRACE_RUN]);
  for (size_t i = from + 1; i <= last; ++i) {
    if (buffer[i] != '/') continue;
    if (i == last && !directory_is_ours(path)) return -EACCES;
    buffer[i] = 0;
    int status = sys::mkdir(buffer, 0700);
    if (status < 0 && status != -EEXIST) return status;
    buffer[i] = '/';
  }
  return 0;
}

int create_file(const char *path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = sys::open(path, kFlags, 0600);
  // A sealer removes the directories that it has emptied, and files of nobody, as this one is for a moment.
  for (int attempt = 0; attempt < 4 && (fd == -ENOENT || (fd >= 0 && is_unlinked(fd))); ++attempt) {
    if (fd >= 0) sys::close(fd);
    int status = make_directories(path);
    fd = status < 0 ? status : sys::open(path, kFlags, 0600);
    if (status < 0 && status != -ENOENT) break;
  }
  if (fd >= 0 && !directory_is_ours(path)) {
    sys::unlink(path);
    sys::close(fd);
    return -EACCES;
  }
  return fd;
}

// Allocates pages, so that a full file system is an error now and not a signal at the first write.
int allocate_file(int fd, size_t from, size_t to) {
  if (to > sys::file_size_limit()) return -EFBIG;
  int status = sys::fallocate(fd, static_cast<int64_t>(from), static_cast<int64_t>(to - from));
  if (status != -EOPNOTSUPP) return status;
  static const char zeros[4096] = {};
  for (size_t at = from; at < to; at += sizeof zeros) {
    long n = sys::call(SYS_pwrite64, fd, sys::pointer(zeros), sizeof zeros, static_cast<long>(at));
    count_own(0, n);
    if (n != sizeof zeros) return n < 0 ? static_cast<int>(n) : -ENOSPC;
  }
  return 0;
}

SegmentHeader *map_segment(int fd, Sharing sharing) {
  size_t bytes = segment_bytes(kSegmentSlots);
  auto *map = static_cast<SegmentHeader *>(own_memory::file(fd, bytes));
  if (!map || share_segment(map, sharing)) return map;
  own_memory::release(map, bytes);
  return nullptr;
}

// Arguments and result of a function that may have to run again, with another path or another table of descriptors.
struct FileJob {
  const char *path;
  uint32_t from, to;  // slots
  Sharing sharing;
  SegmentHeader *segment;
  int status;
};

// Of a node's processes the first one describes it: the one that can make the mark beside the journals. In a forked
// child it is done.
void describe_host_once(const char *journal) {
  Session &g = g_session;
  if (g.host_described) return;
  g.host_described = true;
  PathBuffer path;
  Writer w(path.data(), kPathBytes);
  write_host_mark(w, string_view(journal, string_view(journal).rfind('/')), g.host);
  if (w.overflowed() || !make_host_mark(w.c_str())) return;
  DescriptionBytes bytes = write_host_description(g.environment[Setting::TAILRACE_RUN], g.host, g.hasher, g.clock_kind);
  count_own(bytes.read, bytes.written);
}

uint64_t device_of(const struct statx &s) { return uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor; }

void note_file(SegmentHeader *segment, int fd) {
  struct statx s;
  if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_INO, &s) < 0) return;
  segment->file_device = device_of(s);
  segment->file_inode = s.stx_ino;
}

void make_job(void *raw) {
  auto *job = static_cast<FileJob *>(raw);
  int fd = create_file(job->path);
  job->status = fd;
  if (fd < 0) return;
  job->status = allocate_file(fd, 0, segment_bytes(job->to));
  if (job->status == 0) job->segment = map_segment(fd, job->sharing);
  if (job->segment) {
    note_file(job->segment, fd);
  } else {
    sys::unlink(job->path);
  }
  sys::close(fd);
  if (job->segment) describe_host_once(job->path);
}

void extend_job(void *raw) {
  auto *job = static_cast<FileJob *>(raw);
  int fd = sys::open(job->path, O_RDWR | O_NOFOLLOW);
  job->status = fd;
  if (fd < 0) return;
  job->status = allocate_file(fd, segment_bytes(job->from), segment_bytes(job->to));
  sys::close(fd);
}

}  // namespace

// In a user namespace the user has another number, possibly that of "nobody", but journals belong where the launcher,
// outside, looks for them. The owner of that directory appears as the user's number here, whatever it is.
static unsigned journal_user() {
  const Session &g = g_session;
  unsigned uid = sys::geteuid();
  if (uid == g.journal_uid) return uid;
  PathBuffer path;
  Writer w(path.data(), kPathBytes);
  bool is = write_directory_of(w, g.journal_uid);
  w << "/.";
  return is && directory_is_ours(w.c_str()) ? g.journal_uid : uid;
}

bool name_journal() {
  Session &g = g_session;
  char stem[sizeof g.journal_stem];
  Writer w(stem, sizeof stem - 16);
  g.journal_uid = journal_user();
  bool is = write_directory_of(w, g.journal_uid);
  w << '/';
  write_process_stem(w, g.host, g.pid, g.start_realtime_ns);
  if (!is || w.overflowed() || string_view(w.c_str()) == string_view(g.journal_stem)) return false;
  memcpy(g.journal_stem, stem, w.size() + 1);
  return true;
}

// Whether the mode of a directory keeps a user out. False where its group has the right: the user may be in it, and an
// access control list shows as the group's bits (acl(5)). access(2) would count capabilities that execve takes away.
static bool keeps_out(const char *directory, unsigned uid, unsigned others) {
  struct statx s;
  if (sys::statx(AT_FDCWD, directory, 0, STATX_MODE | STATX_UID, &s) < 0) return true;
  return s.stx_uid != uid && !(s.stx_mode & (others | others << 3));
}

// Whether the user can't enter `directory`, a path of `n` bytes in a buffer, or has no folder in it and can't make one.
static bool is_closed_to(char *directory, size_t n, unsigned uid) {
  constexpr unsigned kEnter = 1, kWrite = 2;
  for (size_t i = 1; i <= n; ++i) {
    if (i < n && directory[i] != '/') continue;
    const char kept = directory[i];
    directory[i] = 0;
    const bool is_closed = keeps_out(directory, uid, kEnter);
    directory[i] = kept;
    if (is_closed) return true;
  }
  directory[n] = 0;
  const bool may_make = !keeps_out(directory, uid, kWrite);
  Writer own(directory + n, kPathBytes - n);
  (own << "/tailrace-").number(uid);
  own.c_str();
  return !may_make && keeps_out(directory, uid, kWrite);
}

bool has_place_for_journal() {
  const Session &g = g_session;
  const unsigned uid = sys::geteuid();
  if (uid == 0 || uid == g.journal_uid || journal_user() != uid) return true;
  string_view run = g.environment[Setting::TAILRACE_RUN], chosen = g.environment[Setting::TAILRACE_JOURNAL_DIR];
  PathBuffer path;
  for (int place = 0; place < kJournalPlaces; ++place) {
    Writer w(path.data(), kPathBytes - 32);
    int64_t bytes_read = 0;
    if (!write_journal_place(w, place, chosen, uid, run, bytes_read)) continue;
    if (bytes_read) count_own(bytes_read, 0);
    if (!is_closed_to(path.data(), existing_part(place, w.view(), run), uid)) return true;
  }
  // Without a journal a process writes its start and its losses there.
  return !is_closed_to(path.data(), put(path.data(), run) - path.data(), uid);
}

bool use_journal_place(int place) {
  g_session.journal_place = place;
  return name_journal();
}

static void make_numbered(uint32_t index, FileJob &job, const PathBuffer &path) {
  job.path = segment_path(index, path);
  with_descriptor(make_job, &job, job.status);
  // Another user's directory is closed to a process that has changed its user.
  if (job.status == -EACCES && name_journal()) {
    g_session.has_renamed_journals = true;
    job.path = segment_path(index, path);
    with_descriptor(make_job, &job, job.status);
  }
}

static SegmentHeader *make_in_place(uint32_t &index, uint32_t slots, Sharing sharing, int &status) {
  PathBuffer path;
  FileJob job{nullptr, 0, slots, sharing, nullptr, 0};
  // As many as there can be threads that execve has killed.
  const uint32_t end = index + 4096;
  make_numbered(index, job, path);
  while (job.status == -EEXIST && ++index < end) make_numbered(index, job, path);
  status = job.segment || job.status < 0 ? job.status : -ENOMEM;
  return job.segment;
}

// The default place is the memory of a container, and gone when that is killed. A process may have made the container
// itself, so each asks when it makes its first journal.
static bool is_in_a_containers_memory() {
  const StartEnvironment &chosen = g_session.environment;
  if (!is_default_place(chosen[Setting::TAILRACE_JOURNAL_DIR])) return false;
  int64_t bytes_read = 0;
  const bool is = is_containers_own(chosen[Setting::TAILRACE_JOURNAL_DEVICE], bytes_read);
  if (bytes_read) count_own(bytes_read, 0);
  return is;
}

SegmentHeader *make_segment_file(uint32_t &index, uint32_t slots, Sharing sharing) {
  Session &g = g_session;
  int status = 0;
  if (index == 0 && !g.first_segment && g.journal_place == 0 && is_in_a_containers_memory()) {
    use_journal_place(kJournalPlaces - 1);
  }
  SegmentHeader *made = make_in_place(index, slots, sharing, status);
  // All segments of a process are in one place.
  if (made || index > 0 || g.first_segment) return made;
  g.journal_error = -status;
  int first = g.journal_place;
  for (int place = 0; place < kJournalPlaces && !made; ++place) {
    if (place != first && use_journal_place(place)) made = make_in_place(index, slots, sharing, status);
  }
  if (!made) use_journal_place(first);
  return made;
}

bool extend_segment_file(SegmentHeader *segment) {
  uint32_t allocated = segment->allocated_slots.load(std::memory_order_relaxed);
  if (allocated >= kSegmentSlots) return true;
  PathBuffer path;
  FileJob job{segment_path(segment->segment, path), allocated, kSegmentSlots, Sharing::kThisProcess, nullptr, 0};
  with_descriptor(extend_job, &job, job.status);
  if (job.status < 0) return false;
  segment->allocated_slots.store(kSegmentSlots, std::memory_order_release);
  return true;
}

SegmentHeader *reopen_segment_file(uint32_t index, Sharing sharing) {
  PathBuffer path;
  int fd = sys::open(segment_path(index, path), O_RDWR | O_NOFOLLOW);
  if (fd < 0) return nullptr;
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  SegmentHeader *s = bytes >= static_cast<int64_t>(segment_bytes(kFirstSlots)) ? map_segment(fd, sharing) : nullptr;
  sys::close(fd);
  if (!s) return nullptr;
  bool ours = s->magic == kJournalMagic && s->version == kJournalVersion && s->slots == kSegmentSlots &&
              s->pid == g_session.pid && s->segment == index &&
              static_cast<int64_t>(segment_bytes(s->allocated_slots.load())) <= bytes;
  if (ours) return s;
  own_memory::release(s, segment_bytes(kSegmentSlots));
  return nullptr;
}

bool is_named(const SegmentHeader *segment) {
  // One in memory has no file; one of the reserve may have the name of another process.
  const bool is_known = segment->file_inode && !segment->from_reserve.load(std::memory_order_relaxed);
  if (!is_known || g_session.has_renamed_journals) return true;
  PathBuffer path;
  struct statx s;
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;
  int status = sys::statx(AT_FDCWD, segment_path(segment->segment, path), kFlags, STATX_INO, &s);
  if (status == 0) return s.stx_ino == segment->file_inode && device_of(s) == segment->file_device;
  return (status != -ENOENT && status != -ENOTDIR) || has_another_root();
}

void remove_segment_file(const SegmentHeader *segment) {
  PathBuffer path;
  sys::unlink(segment_path(segment->segment, path));
}

bool share_segment(SegmentHeader *segment, Sharing sharing) {
  if (sharing == Sharing::kWithChildren) return true;
  size_t kept = sharing == Sharing::kHeaderWithChildren ? kSegmentHeaderBytes : 0;
  return own_memory::keep_from_children(reinterpret_cast<char *>(segment) + kept, segment_bytes(kSegmentSlots) - kept);
}

void announce_user(unsigned uid) {
  // On the stack: a vfork child writes nowhere else.
  char path[2048];
  Writer w(path, sizeof path);
  if (!write_directory_of(w, g_session.journal_uid)) return;
  w << '/';
  w.number(uid) << kUserSuffix;
  if (w.overflowed()) return;
  int fd = sys::open(w.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
  if (fd >= 0) sys::close(fd);
}

}  // namespace tailrace
