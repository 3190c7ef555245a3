// Segments that are made in advance, for a process that gives up its rights (setuid) or its root (chroot).
//
//   make_reserve()  before such a call: extends every thread's segment to its full size and makes a few more
//   take_reserve()  in a thread that needs a segment and can't make one, in this process or in one that it forked
//
// One atomic word of the segment's header, which all these processes share, decides which takes it. An unused reserve
// is removed when no process has it mapped any more (format/seal_dead.cc).
#pragma once

#include "session/segment_file.h"

namespace tailrace {

// A new segment of this process with its header written; null when none can be made. Call with the table lock held,
// here and below.
SegmentHeader *make_segment(uint32_t slots, uint32_t tid);
SegmentHeader *take_reserve(uint32_t tid, size_t leaving = 0);
// An empty segment of this process.
void write_segment_header(SegmentHeader *s, uint32_t index, uint32_t slots, uint32_t tid);

constexpr unsigned kSameUser = UINT32_MAX;
// To be called before a call that may put the journal directory or the run directory out of reach. `uid`: the user that
// the file system will see, if that changes.
void make_reserve(unsigned uid = kSameUser);

}  // namespace tailrace
