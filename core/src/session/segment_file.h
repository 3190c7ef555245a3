// The files of segments: where they are, and how they are made, extended, mapped again and removed.
#pragma once

#include "format/journal.h"

namespace tailrace {

// Which part of a segment's memory forked children share. kHeaderWithChildren: the header's page, where a child counts
// what it can't record itself; kWithChildren: all of it (session/reserve.h).
enum class Sharing { kThisProcess, kHeaderWithChildren, kWithChildren };

// Makes and maps a segment of this process with memory for `slots` and an empty header. `index` becomes the first from
// there on that has no file yet: a thread that execve killed may have left a file that it had only begun. A process's
// first segment decides on the place of all. Null without space, permission or a descriptor in any place.
SegmentHeader *make_segment_file(uint32_t &index, uint32_t slots, Sharing sharing);
// Allocates memory for all slots of the segment. False when that fails.
bool extend_segment_file(SegmentHeader *segment);
// Maps a segment of this process's previous program image. Null when it is missing or another process's.
SegmentHeader *reopen_segment_file(uint32_t index, Sharing sharing);
// Whether a segment's file still has its name: where a cleaner has removed it, or another file system hides it, nobody
// but this process finds it. True where that can't be known.
bool is_named(const SegmentHeader *segment);
// Does nothing where this process may not.
void remove_segment_file(const SegmentHeader *segment);

// Restricts the sharing of the segment's memory from here on.
bool share_segment(SegmentHeader *segment, Sharing sharing);

// Names the process's journals for its present user. False when that is their name already.
bool name_journal();
// The same in another place (format/journal_place.h). False: there is no such place here.
bool use_journal_place(int place);
// Whether this process's next image can make a journal, or at least write to the run, after the process has changed its
// user. True where it has not, or where that can't be known.
bool has_place_for_journal();
// Announces that journals of this user belong to the run, so that they are sealed with ours (format/seal_dead.cc). To
// be called while the process still may.
void announce_user(unsigned uid);

}  // namespace tailrace
