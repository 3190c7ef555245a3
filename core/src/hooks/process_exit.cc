// Hooks: the end of a process, with every step that recording takes at it.
//
//   1  finish_interrupted_message        a call into libc that does not return (argp_parse exits after its help): its bytes
//   2  settle_all_streams    what inlined getc and putc moved in the buffers since the last call that was recorded;
//      flush_unplaced_streams   libc's own flush comes too late to be seen, and tells where the bytes of records lie
//   3  rings::settle         io_uring requests that were completed since the last call on their ring
//      settle_aio            POSIX requests whose results the program has not asked for
//   4  record_remaining_maps      shared writable mappings end with the process
//   5  record_process_exit   the exit event, with the ledger's account of the process
//   6  seal_for_exit         all records become blocks of the trace file
//
// Invariants:
// - Steps 1 to 4 record bytes that the account of step 5 has, so they come before it: a byte recorded later would be
//   missing in the coverage.
// - Sealing comes last. Events after it (exit handlers of others, libc's own flush) are sealed one by one.
// - Steps 1 and 2 are those of exit(3). The other ends bypass stdio, so that the buffers are never flushed.
#include "hooks/process_exit.h"

#include <stdlib.h>
#include <unistd.h>

#include "hooks/hook_records.h"
#include "hooks/messages.h"
#include "hooks/rings.h"
#include "hooks/stream.h"
#include "linker/real.h"
#include "session/record.h"
#include "session/segment.h"

using namespace tailrace;

namespace {

enum class Stdio { kInUse, kBypassed };

void end_process(int code, Stdio stdio) {
  if (!enter() || is_other_task()) return;
  if (stdio == Stdio::kInUse) {
    finish_interrupted_message();
    settle_all_streams();
    flush_unplaced_streams();
  }
  rings::settle();
  settle_aio();
  record_remaining_maps();
  record_process_exit(code);
  seal_for_exit();
}

// Runs after all other exit handlers and destructors; only libc's flush of the other streams comes later.
void handle_last(int code, void *) { end_process(code, Stdio::kInUse); }

}  // namespace

void tailrace::handle_exit() { on_exit(handle_last, nullptr); }

// The ends that run no destructors. quick_exit's handlers run after this and may do I/O.
#define EXIT_HOOK(symbol, ...)                      \
  TAILRACE_HOOK void symbol(int code) __VA_ARGS__ { \
    end_process(code, Stdio::kBypassed);            \
    REAL(symbol)(code);                             \
    __builtin_unreachable();                        \
  }
EXIT_HOOK(_exit)
EXIT_HOOK(_Exit)
EXIT_HOOK(quick_exit, noexcept)
