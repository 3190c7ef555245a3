// See format/functions.h.
#include "format/functions.h"

namespace tailrace {
namespace {

struct ShapeOf {
  string_view name;
  Shape shape;
};
// The events whose args are not the plain ones, by event name.
constexpr ShapeOf kShapes[] = {
    {"open", Shape::kOpen},
    {"openat", Shape::kOpen},
    {"creat", Shape::kOpen},
    {"fopen", Shape::kOpen},
    {"fdopen", Shape::kOpen},
    {"freopen", Shape::kOpen},
    {"mkstemp", Shape::kOpen},
    {"mkostemp", Shape::kOpen},
    {"mkstemps", Shape::kOpen},
    {"mkostemps", Shape::kOpen},
    {"tmpfile", Shape::kOpen},
    {"lseek", Shape::kSeek},
    {"fseek", Shape::kSeek},
    {"rewind", Shape::kSeek},
    {"fread", Shape::kItems},
    {"fwrite", Shape::kItems},
    {"fgets", Shape::kPointer},
    {"fputs", Shape::kStatus},
    {"puts", Shape::kStatus},
    {"fscanf", Shape::kStatus},
    {"fgetws", Shape::kPointer},
    {"fputws", Shape::kStatus},
    {"putw", Shape::kStatus},
    {"getopt", Shape::kStatus},
    {"argp_parse", Shape::kStatus},
    {"psiginfo", Shape::kStatus},
    {"herror", Shape::kStatus},
    {"fmtmsg", Shape::kStatus},
    {"malloc_stats", Shape::kStatus},
    {"malloc_info", Shape::kStatus},
    {"putpwent", Shape::kStatus},
    {"putgrent", Shape::kStatus},
    {"putspent", Shape::kStatus},
    {"putsgent", Shape::kStatus},
    {"addmntent", Shape::kStatus},
    {"assert", Shape::kStatus},
    {"fgetpwent", Shape::kPointer},
    {"fgetgrent", Shape::kPointer},
    {"fgetspent", Shape::kPointer},
    {"fgetsgent", Shape::kPointer},
    {"getmntent", Shape::kPointer},
    {"fgetc", Shape::kChars},
    {"fputc", Shape::kChars},
    {"mmap", Shape::kMap},
    {"munmap", Shape::kMap},
    {"msync", Shape::kMap},
    {"mremap", Shape::kMap},
    {"mprotect", Shape::kMap},
    {"exit", Shape::kExit},
    {"shm_open", Shape::kOpen},
    {"open_by_handle_at", Shape::kOpen},
    {"sendmmsg", Shape::kMessages},
    {"recvmmsg", Shape::kMessages},
    {"eventfd_read", Shape::kDone},
    {"eventfd_write", Shape::kDone},
    {"mq_send", Shape::kDone},
    {"mq_timedsend", Shape::kDone},
    {"fallocate", Shape::kRange},
    {"posix_fallocate", Shape::kRange},
    {"sync_file_range", Shape::kRange},
    {"readahead", Shape::kRange},
    {"posix_fadvise", Shape::kRange},
    {"aio_read", Shape::kRange},
    {"aio_write", Shape::kRange},
    {"setmntent", Shape::kOpen},
    {"gets", Shape::kPointer},
    {"fsetpos", Shape::kSeek},
    {"fwscanf", Shape::kStatus},
    {"io_uring_cqe", Shape::kRing},
    {"execve", Shape::kExec},
    {"posix_spawn", Shape::kSpawn},
    {"vfork", Shape::kSpawn},
    {"prctl", Shape::kConfine},
    {"wait", Shape::kWait},
};

constexpr bool is_above(string_view category) { return category == "HDF5" || category == "MPIIO"; }

constexpr Shape shape_of(string_view name, string_view category, Direction direction) {
  if (category == "LIBC") return Shape::kLibc;
  if (is_above(category)) return Shape::kObject;
  for (const ShapeOf &row : kShapes) {
    if (row.name == name) return row.shape;
  }
  return direction == Direction::N ? Shape::kPlain : Shape::kTransfer;
}

constexpr bool is_uncounted(string_view name, string_view category) {
  constexpr string_view kNames[] = {"splice", "tee", "vmsplice", "ioctl", "io_submit", "io_getevents", "io_uring_cqe"};
  if (category == "SOCKET" || category == "QUEUE") return true;
  for (string_view one : kNames) {
    if (name == one) return true;
  }
  return false;
}

#define OPENING(name, category) "{\"name\":\"" name "\",\"cat\":\"" category "\",\"ph\":\"X\",\"pid\":"
#define ROW(symbol, name, category, direction, shape, uncounted) \
  { symbol, name, category, OPENING(name, category), Direction::direction, shape, uncounted, is_above(category) }
constexpr Function kFunctions[kFunctionCount] = {
    {"", "", "", "", Direction::N, Shape::kPlain, false, false},
#define HOOK(symbol, name, category, direction)                                             \
  ROW(#symbol, name, #category, direction, shape_of(name, #category, Direction::direction), \
      is_uncounted(name, #category)),
#define LAYER HOOK
#include "format/hooks.def"
#include "format/layers.def"
#undef LAYER
#undef HOOK
    ROW("", "start", "PROCESS", N, Shape::kStart, false),
    ROW("", "vmsplice", "POSIX", R, Shape::kTransfer, true),
    ROW("", "aio_return", "AIO", R, Shape::kTransfer, false),
    ROW("", "aio_return", "AIO", W, Shape::kTransfer, false),
    ROW("", "io_getevents", "AIO", R, Shape::kTransfer, true),
    ROW("", "io_getevents", "AIO", W, Shape::kTransfer, true),
    ROW("", "io_uring_cqe", "AIO", R, Shape::kRing, true),
    ROW("", "io_uring_cqe", "AIO", W, Shape::kRing, true),
    ROW("", "ficlone", "POSIX", RW, Shape::kDone, true),
    ROW("", "libc", "LIBC", R, Shape::kLibc, false),
    ROW("", "libc", "LIBC", W, Shape::kLibc, false),
    ROW("", "syslog", "POSIX", W, Shape::kTransfer, false),
    ROW("", "getpass", "STDIO", W, Shape::kStatus, false),
    ROW("", "getpass", "STDIO", R, Shape::kPointer, false),
    ROW("", "wordexp", "STDIO", W, Shape::kStatus, false),
    ROW("", "posix_fallocate", "POSIX", R, Shape::kTransfer, false),
    ROW("", "posix_fallocate", "POSIX", W, Shape::kTransfer, false),
};
#undef ROW
#undef OPENING

}  // namespace

const Function &function(Fn f) { return kFunctions[static_cast<size_t>(f)]; }

}  // namespace tailrace
