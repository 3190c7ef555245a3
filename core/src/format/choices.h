// The values of settings that choose what is recorded: which of them are valid, and what they mean. A parser returns
// false for a text that is no value.
#pragma once

#include "base/text.h"

namespace tailrace {

// TAILRACE_DETAIL: whether each call becomes a line, or totals do (format/totals.h).
enum class DetailKind : uint32_t { kFull, kTotals, kAuto };
struct Detail {
  DetailKind kind = DetailKind::kFull;
  uint64_t budget_bytes = 0;  // kAuto: full until the trace files of the node have so many
};
constexpr uint64_t kDefaultBudgetBytes = 64 << 20;

// "full", "totals", "auto" or "auto:<bytes>", the bytes with K, M, G for the powers of 1024. False: none of these.
bool parse_detail(string_view text, Detail &out);

// TAILRACE_LAYERS: which layers' calls are recorded.
// Those of enum Layer (layers/layers.h) in its order; then GPU activity (layers/cupti.h), in builds that have it.
#ifdef TAILRACE_CUPTI
constexpr string_view kLayerNames[] = {"hdf5", "mpiio", "cupti"};
#else
constexpr string_view kLayerNames[] = {"hdf5", "mpiio"};
#endif
constexpr uint32_t kLayersOfAll = 3, kCuptiLayer = 4;

// "all", "none", or names separated by commas, as bits. GPU activity is only chosen by its name: a process can have one
// user of CUPTI, and that may be the program.
bool parse_layers(string_view text, uint32_t &out);

// TAILRACE_ANNOTATIONS: which annotation libraries' ranges are regions.
constexpr string_view kAnnotationNames[] = {"nvtx", "itt"};
// In the same order: the variable by which each finds a tool.
constexpr const char *kAnnotationVariables[] = {"NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"};
constexpr size_t kAnnotationCount = sizeof kAnnotationNames / sizeof kAnnotationNames[0];

// "all", "none", or names separated by commas, as bits.
bool parse_annotations(string_view text, uint32_t &out);

// TAILRACE_STACKS: which I/O calls are recorded with a call stack.
struct StackChoice {
  uint64_t slower_than_ns = 0;  // 0: no call for how long it took
  uint64_t each = 0;            // one of n calls of a thread, at random; 0: none

  bool is_on() const { return slower_than_ns || each; }
};

// "off", or parts separated by commas: a duration (2ms, 500us, 1s) or a number of calls (100).
bool parse_stacks(string_view text, StackChoice &out);

// TAILRACE_NATIVE_FUNCTIONS: which functions of compiled programs are regions: patterns, separated by single colons, of
// names as linker/plain_names.h writes them.
//
//   solver              the function, and all in the class or name space of that name
//   mesh::*:read_row    * is any text, ? one byte
//   libmesh.so*/read_*  those of an object, by the last name of its file
//   !solver::dot        not this one, whatever else says so
//
// False where one of the patterns is empty.
bool are_function_patterns(string_view patterns);
bool is_function_chosen(string_view name, string_view object, string_view patterns);

}  // namespace tailrace
