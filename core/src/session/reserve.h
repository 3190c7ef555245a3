// Segments made while this process still may, for when it has given up its rights (setuid) or its root (chroot).
//
//   provide()  before such a call: every thread's segment gets all of its slots, and a few more are made
//   take_reserve()  by a thread that needs a segment and can't make one, in this process or in one that it forked
//
// Who takes it is decided by one word of the segment's header, which all of them share. What nobody took is removed
// when nobody has it mapped any more (format/seal_dead.cc).
#pragma once

#include "session/segment_file.h"

namespace tailrace {

// A new segment of this process, its header written; null when there is none to be had. Table lock held, here and
// below.
SegmentHeader *make_segment(uint32_t slots, uint32_t tid);
SegmentHeader *take_reserve(uint32_t tid, size_t leaving = 0);

constexpr unsigned kNobody = UINT32_MAX;
// Before a call that may put the journal directory or the run directory out of reach. `uid`: whom the process will be
// to the file system, if that changes.
void provide(unsigned uid = kNobody);

}  // namespace tailrace
