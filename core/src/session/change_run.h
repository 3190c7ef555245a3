// A process that is traced into one run goes on in another one: a notebook's second workflow (environment.change_run in
// Python). Only where the process was attached, so no launcher counts on it.
//
// For the run that it leaves the process ends there: it gets an exit event with the account up to now, and the records
// of this thread and of ended ones are sealed. In the other run it begins as a process of its own: same pid, a new start.
//
// Another thread can't be asked to stop, so its segment stays its own and it moves when it next seals or fills the segment
// (session/segment.cc, move_on): what it records until then is in the first run, whole. A thread that begins later and
// takes over such a segment moves at once. Each segment says which trace file it goes to; `earlier_journals` says where
// the segments of earlier runs lie.
//
// Rejected: a new process for the second workflow, which would need the notebook's objects; to divide the events by
// workflow afterwards, in trace files that a process still appends to.
#pragma once

#include "base/text.h"

namespace tailrace {

// Goes on in the run directory `run`, absolute. 0, or a negative errno: then nothing has changed.
int change_run(string_view run);

}  // namespace tailrace
