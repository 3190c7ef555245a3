// See seal_journals.h.
#include "seal_journals.h"

#include "format/seal.h"

extern "C" __attribute__((visibility("default"))) tailrace::flux::SealJournals tailrace_seal_journals;

int tailrace_seal_journals(const char *directory, const char *trace, tailrace::flux::JournalCounts *counts) {
  tailrace::SealedJournals sealed;
  int status = tailrace::seal_dead_journals(directory, sealed, trace);
  counts->failed = sealed.failed;
  counts->failed_events = sealed.failed_events;
  return status;
}
