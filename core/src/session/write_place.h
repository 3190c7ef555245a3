// Where in its file the bytes of a call lie that writes. The offset of a positioned call is its argument, and the table
// of files has the position of a descriptor that this process alone moves. Otherwise only the kernel knows:
//
//   appends (O_APPEND, RWF_APPEND)   at the end of the file, whatever position or offset says (pwrite(2), BUGS)
//   the open file is shared          where the processes that have it moved its position
//
// Then position and size after the call tell where it ended, unless another process or thread wrote in between. So they
// are asked before as well, and an offset is given only where both agree: an unknown one is better than a neighbour's.
//
// Invariant: a call on a descriptor whose position is this process's own asks the kernel nothing.
#pragma once

#include <sys/uio.h>

#include "session/record.h"

namespace tailrace {

class WritePlace {
 public:
  WritePlace() = default;
  // Before the call. `at`: kHere, kNowhere or its offset; `flags`: of pwritev2(2); `pending`: the call only submits a
  // request, and other calls may be made before its result.
  __attribute__((always_inline))
  WritePlace(const Call &call, int fd, int64_t at = kHere, int flags = 0, bool pending = false)
      : at_(at), pending_(pending) {
    if (!call && is_recorded(call)) look_beside(fd, flags);
    if (!call) return;
    const OpenFile *f = known_file_of(fd);
    const bool is_told = at == kHere ? f && position_is_own(f) : f && !f->append;
    if (__builtin_expect(!is_told || flags, 0)) look(fd, flags);
  }
  // After it: where its first byte lies, -1 if that is not known.
  int64_t after(OpenFile *f, int fd, int64_t moved) const;
  // The same of a task that records beside (session/memory_sharers.h): its descriptors are not those of the table.
  int64_t after_beside(int fd, int64_t moved) const;

 private:
  void look(int fd, int flags);
  void look_beside(int fd, int flags);
  void expect_at(int64_t end) { knows_end_ = end >= 0, end_before_ = end; }
  int64_t end_before() const { return knows_end_ ? end_before_ : -1; }

  // All zero without a call, so that tables of them are filled by nobody.
  int64_t at_ = 0;
  bool pending_ = false, appends_ = false, knows_end_ = false;
  int64_t end_before_ = 0;  // where the call should write
};

// Whether another process or thread may write through the same open file.
bool is_contended(const OpenFile *f);
// Where the next byte that is written through a descriptor goes, as things are; -1 where that is not known.
int64_t end_of_writing(const OpenFile *f, int fd, bool appends);
// The position now ends what `moved` bytes have been written. Returns where they begin, or -1 where another process or
// thread may have written in between: `before` is end_of_writing() before them, -1 if that was not asked; `at_once`:
// they were one call.
int64_t begin_of_written(OpenFile *f, int fd, int64_t moved, int64_t before, bool at_once);

}  // namespace tailrace
