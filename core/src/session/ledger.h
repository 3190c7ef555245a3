// The ledger: the kernel's byte accounting of this process (/proc/self/io), reduced to what the program itself read and
// wrote, so that the trace can be compared with it (docs/trace-format.md, "The ledger").
//
//   rchar at the end  -  base     before the image's first instruction: execve, the dynamic linker, earlier images
//                     -  own      the tracer's blocks and its reads of files
//                     -  reaped   what the kernel added when a child was waited for
//                     -  loaded   832 bytes of each library loaded later, or read and not loaded
//                     -  ahead    what stdio read ahead and no call ever consumed
//
// Invariants:
// - The ledger is in the journal, so it outlives the process and continues over execve.
// - Nothing here changes errno.
//
// Rejected: to read a reaped child's account from its zombie alone, which Linux shows to root only
// (session/child_account.h).
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

// Whether /proc is of this process's pid namespace. If it is of an outer one, its pids are other processes'.
bool is_proc_ours();

constexpr int kThisThread = -1;
// The kernel's totals of a process, which may be a zombie child, of this one (0), or of the calling thread
// (kThisThread). `bytes_read`: what this call itself read, which the next totals include. False where the kernel does
// not tell.
bool read_kernel_account(int pid, uint64_t (&totals)[2], int64_t *bytes_read = nullptr);
// The same of another thread of this process.
bool read_thread_account(int tid, uint64_t (&totals)[2]);

// At the begin of a program image. `continues`: the journal's ledger was adopted from the previous image.
void begin_ledger(bool continues);
// At the begin of a forked child, whose totals in the kernel begin at 0.
void begin_child_ledger();
// Moves the ledger into the segment.
void move_ledger_to(SegmentHeader *segment);

// Counts the tracer's own bytes; in a task that only shares the memory, for its end (session/memory_sharers.h); before
// the ledger begins, for it.
void count_own(int64_t read, int64_t written);
// Counts what the kernel added when a child was waited for. Null: unknown, and so this process's own account is from
// now on.
void count_reaped(const uint64_t *totals);
// Counts the libraries loaded so far. Called before and after one is loaded, for the account of a process that is
// killed.
void count_loaded();
// To be called before the calling thread loads a library.
void expect_library();
// To be called when that is over: by whatever the program calls next, and before any account is taken. Of what the
// thread read meanwhile, the bytes that belong to no record and no loaded library are those of files that the dynamic
// linker read and did not load.
void settle_library();
// Before execve, and kNoExecution after it failed.
void set_executing(Execution how);
// A result of a POSIX asynchronous request is lost.
void count_untaken();
// The process has an io_uring whose requests are not recorded.
void count_unseen_ring();
// Counts bytes that stdio read ahead and dropped; negative when a seek made it read the same bytes again.
void count_ahead(int64_t bytes);

// Before a thread's segment is emptied: adds up the bytes of its records while an account of the thread is open.
void take_captured(Thread *t);

// The bytes that the calling thread moved in a call that libc answers from files of its own by system calls without a
// hook. Excluded are the tracer's bytes, those of libraries (`loaded`), and those that hooks recorded meanwhile, in
// name service modules and signal handlers. Never too many.
class LibcCall {
 public:
  explicit LibcCall(Thread *t);
  // After the call. False where the kernel does not tell.
  bool finish(int64_t (&bytes)[2]);

 private:
  Thread *thread_;
  bool known_;
  int64_t before_[2];
};

// The present account of this image.
Account process_account();
// Before execve: if the image is replaced, this is its account.
void store_image_account(const Account &account);

}  // namespace tailrace
