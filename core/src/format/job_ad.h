// A job's ClassAd as HTCondor writes it beside the job (_CONDOR_JOB_AD): a line `Name = value` for each attribute.
// HTCondor's variables have no number of the job; the ad is the only file that a manager's row may name.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

namespace tailrace {

// An attribute that is looked for. Its value is empty where the ad has none that is a string or a whole number.
struct JobAdAttribute {
  string_view name;
  char value[256] = "";  // the text of a string, without its quotes
};

// Fills the values of `count` attributes. Returns the bytes that were read; the rest of an ad that is larger than
// HTCondor makes them is not.
int64_t read_job_ad(const char *path, JobAdAttribute *attributes, size_t count);

}  // namespace tailrace
