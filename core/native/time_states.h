// What groups of threads (processes, tasks, stages) spent their time on: one state at a time.
//
// A thread that lives is in a call of some kind or in none; in none it is on a processor, ready and waiting for one, or
// blocked elsewhere (page faults, calls that no hook sees), in the shares that the kernel's account of it gives, or,
// where there is no account, in a state that is not known. A group is in the first state of its processes, in this
// order:
//
//     calls that move or look up data, computing, not known, ready, calls that wait, elsewhere,
//     calls that wait for what may be in the group
//
// A wait on a pipe or a socket whose other ends are in the group comes after all others but the last kind, a parent's
// wait for its children: what the group does is what is done at the other end. So is a process of its threads, but that
// elsewhere comes last, a thread that is parked for good holds up nobody, and that a pipe or a socket is one wherever
// its ends are. Invariants: the states of a group never hold more than the time, and where one of its threads lives all
// of it.
#pragma once

#include <cstdint>
#include <vector>

#include "intervals.h"

namespace tailrace::native {

// Shares of a thread's time, each 0 to 1.
struct ThreadShares {
  double known;            // 1: there is an account; 0: no other share holds
  double ready;            // of the time in no call: waiting for a processor
  double elsewhere;        // of the same: blocked
  double ready_in_call;    // of the time in calls that move or look up data: waiting for a processor
  double computed_beside;  // of the time in calls that wait for threads: others, which recorded nothing, computed
  double ready_beside;     // of the same: they were ready and waited for a processor
  double sockets_within;   // of the time in calls on sockets: all other ends are in the thread's group
  double pipes_within;     // the same of pipes
};

// The kinds of calls, by number: those below `data` move or look up data, those from `pipes` on wait for what may be in
// the group: `threads` for threads, the last one for processes.
struct CallKinds {
  int64_t count, data, sockets, pipes, threads;

  int64_t states() const { return count + 4; }
};

// Rows are groups of the states' number * group + state, in the order of the groups and, within each, of time; a weight
// is the time spent in the state.
//
// group, process: of each thread; group -1: in none. lives: by thread, calls: by thread * kinds.count + kind; both are
// unions in the order of their groups.
Intervals time_states(const std::vector<int64_t> &group, const std::vector<int64_t> &process,
                      const std::vector<ThreadShares> &shares, const IntervalView &lives, const IntervalView &calls,
                      const CallKinds &kinds);

}  // namespace tailrace::native
