// A line of DFTracer's trace, as far as it is needed (see dftracer.h), and its values as numbers and texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "json.h"

namespace tailrace::native::dftracer {

// What a line is, by `ph`.
enum class Phase { kCall, kMetadata, kAggregated, kCounter, kOther };

enum class Key : uint8_t {
  kNone,
  kHostHash,
  kHostName,
  kFileHash,
  kFileName,
  kNewPath,
  kRet,
  kCount,
  kSize,
  kOffset,
  kLength,
  kFlags,
  kProt,
  kMode,
  kPpid,
  kCwd,
  kCommand,
  kProgram,
  kName,
  kValue,
  kCalls,
  kDur,
  kDurSum,
  kRetSum,
  kCountSum,
  kSizeMin,
  kSizeMax,
  kWorkflow,
  kStage,
  kTask,
  kJob,
  kRank,
  kRegion,
  kKeys
};

struct Line {
  Phase phase = Phase::kOther;
  std::string name, cat;
  Value pid, tid, ts, dur;
  Value args[static_cast<size_t>(Key::kKeys)];
  bool has_args = false, complete = false;

  const Value &operator[](Key key) const { return args[static_cast<size_t>(key)]; }
  bool has(Key key) const { return (*this)[key].kind != Value::Kind::kNull; }
};

enum class Parsed { kObject, kEmpty, kBroken };

// Reads a line into `*line`, whose values point into `text`. A newline and kPadBytes readable bytes follow `text`.
Parsed parse(std::string_view text, Line *line);

std::string text_in(const Value &value);
// A whole number, clamped; of a fraction the whole part. Numbers may be strings (version 0).
std::optional<int64_t> integer_in(const Value &value);
// A time as ns; 0 for what is no number. A fraction keeps its decimals.
int64_t time_in(const Value &value, int64_t unit_ns);

// Whether a line of that name says which name a hash stands for.
inline bool is_hash_kind(std::string_view name) { return name == "FH" || name == "HH" || name == "SH"; }

}  // namespace tailrace::native::dftracer
