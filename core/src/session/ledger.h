// The ledger: the kernel's own account of what this process read and wrote (/proc/self/io), brought to what the
// program itself did, so that the trace can be held against it (docs/trace-format.md, "The ledger").
//
//   rchar at the end  -  base     before the image's first instruction: execve, the dynamic linker, earlier images
//                     -  own      the tracer's blocks and looks at files
//                     -  reaped   what the kernel added when a child was waited for
//                     -  loaded   832 bytes of each library loaded later, or looked at and not loaded
//                     -  ahead    what stdio read ahead and no call ever consumed
//
// What holds: it lies in the journal, so it outlives the process and goes on over execve. Nothing here changes errno.
#pragma once

#include "session/session.h"

namespace tailrace {

enum { kRead = 0, kWritten = 1 };

struct Account {
  bool known = false;
  int64_t bytes[2] = {0, 0};
  int64_t buffered = 0;   // read ahead in the streams now; not in bytes
  int64_t unflushed = 0;  // in the streams' buffers now; in bytes, as its calls are in the trace
  int64_t loaded = 0;
};

// Whether /proc has this process's numbers: in a pid namespace it may be that of the one outside, where they are
// others'.
bool is_proc_ours();

constexpr int kThisThread = -1;
// The kernel's totals of a process, 0 for this one, or of the calling thread alone; `looked_at`: what the reading
// itself read, which is counted when it is over. False where the kernel does not say. A child may be a zombie.
bool read_kernel_account(int pid, uint64_t (&totals)[2], int64_t *looked_at = nullptr);
// Of another thread of this process.
bool read_thread_account(int tid, uint64_t (&totals)[2]);

// A program image begins. `goes_on`: the journal's ledger was adopted from the image before.
void begin_ledger(bool goes_on);
// A forked child begins: the kernel began to count with it.
void begin_child_ledger();
// From here on the ledger lies in the segment.
void house_ledger(SegmentHeader *segment);

// The tracer's own bytes. Nothing happens in a vfork child or a fork that was not noticed yet.
void count_own(int64_t read, int64_t written);
// What the kernel added when a child was waited for. Null: nobody knows, and so no more of this process's own account.
void count_reaped(const uint64_t *totals);
// Before a library is loaded, and after: those that were, for the account of a process that will be killed.
void count_loaded();
// The calling thread is about to load a library.
void expect_library();
// It has done so, or is done with reading: from what a program calls next, and before any account. What was read of
// files that the linker did not load is what the thread read meanwhile and nobody else has.
void settle_library();
// The process has an io_uring that is not looked into.
void count_unseen_ring();
// Read ahead by stdio and dropped; negative when a seek made the same bytes come again.
void count_ahead(int64_t bytes);

// Before a thread's segment is emptied: the bytes of its records, if anybody counts them.
void take_captured(Thread *t);

// What the calling thread read and wrote in a call that libc answers from files of its own, by ways that no hook sees.
// Not the tracer's bytes, nor libraries' (`loaded`), nor those that hooks recorded meanwhile: name service modules and
// signal handlers call them as any program does. Never more than the truth.
class LibcCall {
 public:
  explicit LibcCall(Thread *t);
  // After the call; false where the kernel does not say.
  bool finish(int64_t (&bytes)[2]);

 private:
  Thread *thread_;
  bool known_;
  int64_t before_[2];
};

// The account of this image as it stands.
Account take_account();
// The image is about to be replaced; if it is, this is its account.
void leave_image(const Account &account);

}  // namespace tailrace
