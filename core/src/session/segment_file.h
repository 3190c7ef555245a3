// The files behind segments: where they lie, how they are made, grown, mapped again and removed.
#pragma once

#include "format/journal.h"

namespace tailrace {

// Who else may have the segment's memory. kHeadForKin: a forked child keeps the header's page, where it counts what it
// can't record itself; kWithKin: all of it (session/reserve.h).
enum class Sharing { kAlone, kHeadForKin, kWithKin };

// Makes and maps segment `index` of this process with room for `slots`, its header still empty. Null when there is none
// to be had: no room, no right, no descriptor.
SegmentHeader *make_segment_file(uint32_t index, uint32_t slots, Sharing sharing);
// All of the segment's slots have memory from now on. False: they can't.
bool extend_segment_file(SegmentHeader *segment);
// A segment of this process's previous program image. Null when it isn't there or isn't ours.
SegmentHeader *reopen_segment_file(uint32_t index, Sharing sharing);
// As far as this process may.
void remove_segment_file(const SegmentHeader *segment);

// From here on the segment's memory is shared no further than this.
bool share_segment(SegmentHeader *segment, Sharing sharing);

// Names the process's journals for the user that it is now. False: that is what they are called already.
bool name_journal();
// Called by the process while it may: journals of this user's are sealed with ours (format/seal_dead.cc).
void announce_user(unsigned uid);

}  // namespace tailrace
