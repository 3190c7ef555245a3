// The io_uring rings that liburing made for this process: their requests that are under way, and which file each is of.
#pragma once

#include "session/record.h"

namespace tailrace::rings {

// The library's, of version 2.0 and later, as far as they are needed here.
struct Request {  // an entry of the submission queue (io_uring_enter(2))
  uint8_t opcode;
  uint8_t flags;
  uint16_t priority;
  int32_t fd;
  uint64_t offset;
  uint64_t address;  // of a splice: the offset in the other file
  uint32_t bytes;
  uint32_t call_flags;
  uint64_t user_data;
  uint16_t buffer;
  uint16_t personality;
  int32_t other_fd;  // of a splice: where the bytes come from; of a close: a place in the list of files, from 1
  uint64_t spare[2];
};
static_assert(sizeof(Request) == 64, "the kernel's layout");

struct Result {  // an entry of the completion queue
  uint64_t user_data;
  int32_t result;
  uint32_t flags;
};

struct SubmissionQueue {
  unsigned *head, *tail, *mask, *entries, *flags, *dropped, *array;
  Request *requests;
  unsigned first, end;  // what was prepared and is not submitted
  size_t bytes;
  char *memory;
  unsigned spare[4];
};

struct CompletionQueue {
  unsigned *head, *tail, *mask, *entries, *flags, *overflow;
  Result *results;
  size_t bytes;
  char *memory;
  unsigned spare[4];
};

struct Ring {
  SubmissionQueue submission;
  CompletionQueue completion;
  unsigned flags;
  int fd;
};

// A ring was made. Returns its descriptor; -1 for one that is not understood, which the ledger then names.
int begin(const Ring *ring);
// Before a ring is taken apart; returns its descriptor.
int end(const Call &call, const Ring *ring);
// Before a call that submits.
void expect(const Call &call, const Ring *ring);
// After a call: the results that have come since the last one.
void collect(const Call &call, const Ring *ring);

// The process ends: what came since the last call.
void settle();

// The list of files that requests may name by their place: a new one (without `files` of empty places), or a part.
void set_files(const Ring *ring, const int *files, unsigned n);
void change_files(const Ring *ring, unsigned at, const int *files, unsigned n);

}  // namespace tailrace::rings
