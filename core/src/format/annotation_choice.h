// The setting TAILRACE_ANNOTATIONS: which annotation libraries' ranges are regions.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr string_view kAnnotationNames[] = {"nvtx", "itt"};
// In the same order: the variable by which each finds a tool.
constexpr const char *kAnnotationVariables[] = {"NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"};
constexpr size_t kAnnotationCount = sizeof kAnnotationNames / sizeof kAnnotationNames[0];

// "all", "none", or names separated by commas, as bits. False, and none, where a name is unknown.
bool parse_annotations(string_view text, uint32_t &out);

}  // namespace tailrace
