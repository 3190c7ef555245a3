// A block: one gzip member whose extra field describes its contents (docs/trace-format.md, "Block header").
// This file builds members, appends them to a trace file whole or not at all, and walks a file's headers.
//
// A header has the tags themselves, 100 bytes of a block of 1 MiB. Rejected: ids of a table in the run, a second file
// that can tear, needs a lock between nodes, and must exist before a block can be read. It is JSON: it grows without
// versions, and is parsed once a block.
#pragma once

#include <new>

#include "base/own_memory.h"
#include "format/journal.h"

namespace tailrace {

constexpr size_t kMaxHeaderBytes = 60 * 1024;
constexpr size_t kGzipFixedBytes = 10;  // magic, method, flags, mtime, xfl, os
constexpr size_t kGzipTrailerBytes = 8;
// The fixed part, XLEN, and the subfield's id and length.
constexpr size_t kFrameBytes = kGzipFixedBytes + 2 + 4;

// What a header's checksum adds to it: `,"crc":"01234567"`, before the closing brace.
constexpr size_t kHeaderCheckBytes = 17;

// Puts the gzip frame, `header` and its checksum in front of the deflate stream at `deflate` (there must be
// kFrameBytes + header.size() + kHeaderCheckBytes bytes of room before it) and the trailer behind it. Returns the whole
// member.
string_view frame_member(char *deflate, size_t deflate_bytes, string_view header, uint32_t crc, size_t raw_bytes);

// Appends `member` to the file, which is made when absent. After a short write the file is truncated to its old size.
// Returns 0 or -errno.
int append_member(const char *path, string_view member);

// One block, as the walk of a trace file returns it.
struct BlockPlace {
  uint64_t offset;
  uint64_t member_bytes;
  string_view header;  // valid until the next step
};

// Walks the headers of an open trace file with one pread a block.
class BlockWalk {
 public:
  BlockWalk(int fd, uint64_t file_bytes, uint64_t offset = 0) : fd_(fd), file_bytes_(file_bytes), offset_(offset) {}

  // The next whole block; false at the end of the file, or where no whole block follows.
  bool next(BlockPlace &place);
  uint64_t offset() const { return offset_; }
  uint64_t torn_bytes() const { return file_bytes_ - offset_; }
  // The bytes at offset() are a gzip member that is no block.
  bool foreign() const { return foreign_; }

 private:
  int fd_;
  uint64_t file_bytes_;
  uint64_t offset_;
  bool foreign_ = false;
  char buffer_[kFrameBytes + 65536];
};

// Calls use(walk) for a walk from `offset` on. It has memory of its own, since it is larger than some stacks; without
// memory nothing is called.
template <class Use>
void walk_blocks(int fd, uint64_t file_bytes, uint64_t offset, Use use) {
  void *memory = own_memory::pages(sizeof(BlockWalk));
  if (!memory) return;
  use(*new (memory) BlockWalk(fd, file_bytes, offset));
  own_memory::release(memory, sizeof(BlockWalk));
}

// Sets how far the segment is sealed to what the header of a block of its present epoch says. False: it is as far
// already, since a later block may be in another file.
bool go_on_behind(SegmentHeader &segment, string_view header);

// Of a segment whose process may have ended between writing a block of it and noting that: finds how far its present
// epoch is in the process's own trace file, and cuts a torn end off that. Nobody may be writing to the file. False: it
// is no trace file, and is left as it is.
bool reconcile_with_trace_file(SegmentHeader &segment);

// Takes the losses that a block of the segment reports off those that the segment still has.
void take_reported_losses(SegmentHeader &segment, string_view header);

// The number behind "key": in a header of this writer; false when there is none.
bool header_number(string_view header, string_view key, uint64_t &value);

}  // namespace tailrace
