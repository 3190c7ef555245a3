// The tree of learned line layouts (see parse.h): which literal may follow which, and what is done with its value.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "json.h"

namespace tailrace::native {

class Column;
struct FileName;

// What is done with the value that follows a literal.
enum class Action : uint8_t {
  kSkip,
  kText,
  kInt,
  kList,
  kTs,
  kNs,
  kDur,
  kPhase,
  kFile,
  kFile2,
  kHost,
  kPath,
  kStack,
  kEnd
};

// What a line has; a bit each. First the keys that every event must have.
enum Seen : uint16_t {
  kHasName = 1,
  kHasCat = 2,
  kHasTs = 4,
  kHasPid = 8,
  kHasTid = 16,
  kHasPhase = 32,
  // Keys that may be left out since others imply them, whatever their value is (docs/trace-format.md).
  kHasRet = 64,
  kHasCount = 128,
  kHasDir = 256,
  // Keys that imply others; only with a whole number.
  kGivesSize = 512,
  kGivesErrno = 1024,
  kGivesCalls = 2048,
  kGivesOffset = 4096,
  kGivesFollows = 8192,
  kHasOffset = 16384,
};
constexpr uint16_t kNeedsAll = 63;

struct KeyUse {
  Action action = Action::kSkip;
  uint16_t seen = 0;         // when the key is there
  uint16_t gives = 0;        // when its value is a whole number
  Column *column = nullptr;  // kText, kInt, kList
};

// Where a literal begins: at the line's start, or after a value beside "args", or after one in it.
enum class Level : uint8_t { kStart, kTop, kArgs };

struct Node;
struct Edge;

// Values and literals that followed each other in an earlier line: context tags, pid and tid, a line's end. Where the
// same bytes occur again, one comparison reads all of them.
struct Stretch {
  struct Set {
    Column *column;
    bool is_text;
    int64_t value;  // an index in the column's dictionary when is_text
  };
  static constexpr size_t kMaxBytes = 1024;
  static constexpr uint32_t kMaxMisses = 8;

  std::string bytes;  // from the first value to the literal of `stop`, that included; 8 more for same_bytes
  size_t length = 0;
  std::vector<Set> sets;
  uint16_t seen = 0;
  Edge *stop = nullptr;
  uint32_t misses = 0;  // in a row; too many remove the stretch
};

// One literal. A string's opening quote belongs to it, so that the value starts right after it.
struct Edge {
  static constexpr size_t kMaxLiteral = 56;
  static constexpr size_t kMaxLast = 63;

  KeyUse use;
  bool is_string = false;
  bool steady = false;          // its value often stays the same from line to line
  Level level = Level::kStart;  // after the value
  size_t bytes = 0;             // of the literal
  Node *next = nullptr;
  char literal[kMaxLiteral + 8] = {};

  // The last plain string that followed, with its closing quote, and its value.
  size_t last_bytes = 0;
  int32_t last_index = -1;
  FileName *last_file = nullptr;
  std::shared_ptr<Stretch> stretch;  // that begins with this edge's value, or none
  bool kept = false;                 // false for the scratch edge; no pointer to that is kept

  uint64_t last_epoch = 0;  // the values of hashes are void once the block's names change
  char last[kMaxLast + 8] = {};
};

struct Node {
  static constexpr size_t kMaxEdges = 12;
  Level level = Level::kStart;
  bool learns = true;
  size_t edge_count = 0;
  std::array<Edge *, kMaxEdges> edges{};  // the one used last comes first, the rest in any order
};

// Whether `bytes` bytes are equal. Both sides have 8 readable bytes more.
inline bool same_bytes(const char *a, const char *b, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, a += 8, b += 8) {
    if (load8(a) != load8(b)) return false;
  }
  if (bytes == 0) return true;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return ((load8(a) ^ load8(b)) << (64 - 8 * bytes)) == 0;
#else
  return std::memcmp(a, b, bytes) == 0;
#endif
}

class Layouts {
 public:
  Node *start() { return &start_; }

  // The edge whose literal is at `p`, moved to the front; nullptr when none is known.
  static Edge *find(Node *node, const char *p) {
    for (size_t i = 0; i < node->edge_count; ++i) {
      Edge *edge = node->edges[i];
      if (!same_bytes(p, edge->literal, edge->bytes)) continue;
      if (i > 0) bring_forward(node, i);
      return edge;
    }
    return nullptr;
  }

  // Keeps `edge`, whose literal is at `p`; returns the kept one, which is the scratch edge when the tree is full.
  Edge *keep(Node *node, const Edge &edge, const char *p) {
    const bool learn = node->learns && edge.bytes <= Edge::kMaxLiteral && nodes_.size() < kMaxNodes;
    if (!learn) {
      scratch_ = edge;
      scratch_.next = edge.level == Level::kArgs ? &args_ : &top_;
      return &scratch_;
    }
    // A literal with a known prefix (`"a":` and `"a": `): find() returned the shorter one first.
    for (size_t i = 0; i < node->edge_count; ++i) {
      Edge *known = node->edges[i];
      if (known->bytes != edge.bytes || std::memcmp(known->literal, p, edge.bytes) != 0) continue;
      bring_forward(node, i);
      return known;
    }
    edges_.push_back(edge);
    Edge *kept = &edges_.back();
    std::memcpy(kept->literal, p, edge.bytes);
    kept->kept = true;
    nodes_.push_back(Node{edge.level, true, 0, {}});
    kept->next = &nodes_.back();
    // A node with too many keys replaces the last one.
    if (node->edge_count < Node::kMaxEdges) ++node->edge_count;
    node->edges[node->edge_count - 1] = kept;
    bring_forward(node, node->edge_count - 1);
    return kept;
  }

 private:
  static constexpr size_t kMaxNodes = 1 << 13;

  static void bring_forward(Node *node, size_t i) { std::swap(node->edges[0], node->edges[i]); }

  // top_ and args_ mean "somewhere at this level": where a line that is not learned continues.
  Node start_{Level::kStart, true, 0, {}}, top_{Level::kTop, false, 0, {}}, args_{Level::kArgs, false, 0, {}};
  std::deque<Node> nodes_;
  std::deque<Edge> edges_;
  Edge scratch_;
};

}  // namespace tailrace::native
