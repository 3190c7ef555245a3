// The hand-over: a thread whose segment is full leaves it to the node's sealer (format/node_sealer.h) and goes on in a spare
// one, so that neither lines nor compression are the program's to wait for.
//
// The thread's way from call to record, and the hand-over. What is left of the bar is the process's, what is right of it
// the sealer's; both see the segment's header and slots, the process mapped, the sealer by pread and pwrite.
//
//   hook: the real call returned                                |
//     take_slots      next += 1, one instruction [a]            |
//     fields of the slot, plain stores                          |
//     mark            release [b]                               |
//   segment full: exchange_segment, signals blocked, table lock |
//     until, a sample of the clock, plain stores                |
//     holding         kHeld -> kHanded, release [c]  ---------->|  bells: pread of the board, then of the header
//     board's bell    += 1, release [d]                         |  claimed = 1, fence, then the copy [e]
//     spare: holding == kSpare, acquire [g] <-------------------|  lines, block, plan, append, first_slot
//     epoch + 1 or more, release [h]                            |  holding  kHanded -> kSpare [f]
//   next record in the spare                                    |  claimed = 0
//   the process ends                                            |
//     sealer present: left = 1, bells                [i] ------>|  dead? seal what is left, remove the file
//     sealer absent: taken_back = 1, then claimed == 0? [e]     |  holding == kHanded, and taken_back == 0?
//
//   [a] A signal handler that records in between gets slots of its own; only this thread moves `next`, so relaxed.
//   [b] Who reads the mark with acquire sees the fields. After a kill there is no later store to see: what is in memory is
//       what the mark promises.
//   [c] The marks and the time are before it. It is the last store to what the sealer reads: who sees kHanded sees a
//       segment that no one writes to. (A call that a signal handler interrupted may still write to slots that it took
//       before and has not marked. So a spare goes back to its own thread, which resumes that call before it can fill the
//       spare again. The call finds another epoch and records itself anew.)
//   [d] After [c]: the sealer that sees the bell finds kHanded. A bell that is missed costs a second.
//   [e] Store, full fence, load on both sides: of a process that takes its segment back and a sealer that claims it, at
//       least one sees the other and leaves it. If both do, the sealer of dead processes finds it. A claim of a sealer
//       that was killed is never taken back: half a block may be in the file, which is to be seen by the plan alone.
//   [f] A system call writes it after those that wrote first_slot; each has the inode's lock, so its release and acquire
//       are between them. A kill leaves any prefix: the plan and first_slot tell how far the block has come.
//   [g] Pairs with [f]. No compare-and-swap: only this process takes its spares, under the table lock. A forked child has
//       none of its parent's segments mapped.
//   [h] As in every epoch. A kill between [g] and [h] leaves a segment that is sealed up to first_slot.
//   [i] A hint like [d]. That the process is dead is asked of the kernel, as for every journal.
//
// In the steady rotation the thread makes no system calls but those that block signals. Bounds: a process has at most
// kMostSpares segments that no thread has, new ones only while the board says that the place has room. Beyond that, without
// a sealer, or with one whose heart stopped, the thread seals for itself.
#pragma once

#include "session/session.h"

namespace tailrace {

// Hands the thread's segment over and returns another one, which is empty and not yet the thread's. Null: the thread has to
// seal for itself. Table lock held.
SegmentHeader *exchange_segment(Thread *t);

// Whether the sealer takes what this process has, now that it ends; told so, then. Table lock held.
bool leave_to_sealer();
// After that was refused: claims a segment that was handed over, or that the sealer has given back, for this process. False:
// a sealer may be working at it. Table lock held.
bool take_back(SegmentHeader *segment);
// Forgets what was handed over.
void drop_spares();

// A segment of this process's previous program image that no thread has.
void keep_for_exchange(SegmentHeader *segment);
// Finds the board while the process may. Without it the process never hands over after it has given up its rights.
void find_sealer();
// In a forked child: nothing that was its parent's is its own.
void forget_sealer();

}  // namespace tailrace
