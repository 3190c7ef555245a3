// See session/write_place.h.
#include "session/write_place.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"

// glibc 2.32 and later: false once the process has had a second thread.
extern "C" char __libc_single_threaded __attribute__((weak));

namespace tailrace {
namespace {

// Flags of pwritev2(2), which older headers lack.
constexpr int kAppend = 0x10, kNoAppend = 0x20;

}  // namespace

bool is_contended(const OpenFile *f) {
  const bool has_one_thread = &__libc_single_threaded && __libc_single_threaded;
  return !is_exclusive(f) || !has_one_thread;
}

int64_t end_of_writing(const OpenFile *f, int fd, bool appends) {
  if (!is_seekable(f)) return -1;
  if (appends) return size_of_file(fd);
  const int64_t now = sys::lseek(fd, 0, SEEK_CUR);
  return now < 0 ? -1 : now;
}

int64_t begin_of_written(OpenFile *f, int fd, int64_t moved, int64_t before, bool at_once) {
  const int64_t now = sys::lseek(fd, 0, SEEK_CUR);
  if (now < 0) return -1;
  const int64_t last = f->position.exchange(now, std::memory_order_relaxed), begin = now - moved;
  const bool is_certain = moved == 0 || begin == before || begin == last || (at_once && !is_contended(f));
  return is_certain && begin >= 0 ? begin : -1;
}

void WritePlace::look(int fd, int flags) {
  const OpenFile *f = at_ == kNowhere ? nullptr : file_of(fd);
  if (!f || !is_seekable(f)) return;
  appends_ = (f->append && !(flags & kNoAppend)) || (flags & kAppend);
  if (at_ != kHere) {
    if (appends_) expect_at(size_of_file(fd));
  } else if (pending_ || is_contended(f)) {
    expect_at(end_of_writing(f, fd, appends_));
  }
}

int64_t WritePlace::after(OpenFile *f, int fd, int64_t moved) const {
  if (at_ == kNowhere || (at_ == kHere && !is_seekable(f))) return -1;
  if (at_ == kHere) {
    if (position_is_own(f) && !appends_) return f->position.fetch_add(moved, std::memory_order_relaxed);
    return begin_of_written(f, fd, moved, end_before(), !pending_);
  }
  if (!appends_ || moved == 0) return at_;
  // A positioned call leaves the position alone.
  return knows_end_ && size_of_file(fd) - moved == end_before_ ? end_before_ : -1;
}

void WritePlace::look_beside(int fd, int flags) {
  if (at_ == kNowhere) return;
  const long mode = sys::call(SYS_fcntl, fd, F_GETFL);
  if (mode < 0) return;
  appends_ = ((mode & O_APPEND) && !(flags & kNoAppend)) || (flags & kAppend);
  if (appends_) {
    expect_at(size_of_file(fd));
  } else if (at_ == kHere) {
    expect_at(sys::lseek(fd, 0, SEEK_CUR));
  }
}

int64_t WritePlace::after_beside(int fd, int64_t moved) const {
  if (at_ >= 0 && (!appends_ || moved == 0)) return at_;
  if (!knows_end_) return -1;
  const int64_t now = at_ == kHere ? sys::lseek(fd, 0, SEEK_CUR) : size_of_file(fd);
  return now >= 0 && now - moved == end_before_ ? end_before_ : -1;
}

}  // namespace tailrace
