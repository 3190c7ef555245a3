// The io_uring rings that liburing made for this process, their pending requests, and the file of each request.
#pragma once

#include "session/record.h"

namespace tailrace::rings {

// The layouts of liburing 2.0 and later, as far as they are needed here.
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
  unsigned first, end;  // requests that are prepared and not submitted
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

// After a ring was made. Returns its descriptor, or -1 for a ring of unknown layout, which the ledger then reports.
int begin(const Ring *ring);
// Before a ring is destroyed; returns its descriptor.
int end(const Call &call, const Ring *ring);
// Before a call that submits.
void expect(const Call &call, const Ring *ring);
// After a call: records the results since the last one.
void collect(const Call &call, const Ring *ring);

// At the end of the process: records the results since the last call, of all rings.
void settle();

// The list of registered files, which requests name by index: a new list (without `files`, of empty places), or a part.
void set_files(const Ring *ring, const int *files, unsigned n);
void change_files(const Ring *ring, unsigned at, const int *files, unsigned n);

}  // namespace tailrace::rings
