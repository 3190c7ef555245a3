// The columns of one batch while it is filled: plain arrays in Arrow's own layout, so that the export copies nothing.
//
// Invariants: every column has room for `capacity` rows and one more (a line that turns out to be no event is written
// there and removed). Strings are kept once, in a dictionary, and rows contain indices. kColumns is the only list of
// columns, and analyzer/store/schema.py has the same names and types (a test compares them).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace tailrace::native {

// How a value is found in a line, and what the column stores.
enum class Source : uint8_t {
  kTopText,  // a string beside "args"
  kTopInt,   // an integer beside "args"
  kArgText,  // a string in "args"
  kArgInt,   // an integer in "args"
  kArgList,  // a list of whole numbers, or of such lists, in "args"; the column has it as text
  kDerived,  // made of several values (parse.cc)
};

enum class Type : uint8_t { kInt32, kInt64, kText };

struct ColumnSpec {
  const char *name;  // the JSON key too, unless kDerived
  Source source;
  Type type;
  bool nullable;
};

constexpr ColumnSpec kColumns[] = {
    {"name", Source::kTopText, Type::kText, false},      {"cat", Source::kTopText, Type::kText, false},
    {"ts", Source::kDerived, Type::kInt64, false},       {"dur", Source::kDerived, Type::kInt64, false},
    {"host", Source::kDerived, Type::kText, false},      {"pid", Source::kTopInt, Type::kInt32, false},
    {"start", Source::kDerived, Type::kText, true},      {"tid", Source::kTopInt, Type::kInt32, false},
    {"path", Source::kDerived, Type::kText, true},       {"file", Source::kDerived, Type::kText, true},
    {"ftype", Source::kDerived, Type::kText, true},      {"blksize", Source::kDerived, Type::kInt64, true},
    {"path2", Source::kDerived, Type::kText, true},      {"file2", Source::kDerived, Type::kText, true},
    {"object", Source::kArgText, Type::kText, true},     {"offset", Source::kArgInt, Type::kInt64, true},
    {"offset2", Source::kArgInt, Type::kInt64, true},    {"size", Source::kArgInt, Type::kInt64, true},
    {"count", Source::kArgInt, Type::kInt64, true},      {"ret", Source::kArgInt, Type::kInt64, true},
    {"errno", Source::kArgInt, Type::kInt32, true},      {"dir", Source::kArgText, Type::kText, true},
    {"flags", Source::kArgInt, Type::kInt32, true},      {"prot", Source::kArgInt, Type::kInt32, true},
    {"calls", Source::kArgInt, Type::kInt32, false},     {"workflow", Source::kArgText, Type::kText, true},
    {"stage", Source::kArgText, Type::kText, true},      {"task", Source::kArgText, Type::kText, true},
    {"job", Source::kArgText, Type::kText, true},        {"rank", Source::kArgText, Type::kText, true},
    {"region", Source::kArgText, Type::kText, true},     {"category", Source::kArgText, Type::kText, true},
    {"kind", Source::kArgText, Type::kText, true},       {"region_id", Source::kArgInt, Type::kInt64, true},
    {"parent_id", Source::kArgInt, Type::kInt64, true},  {"epoch", Source::kArgInt, Type::kInt64, true},
    {"step", Source::kArgInt, Type::kInt64, true},       {"keys", Source::kArgText, Type::kText, true},
    {"open", Source::kArgInt, Type::kInt32, true},       {"run_ns", Source::kArgInt, Type::kInt64, true},
    {"ready_ns", Source::kArgInt, Type::kInt64, true},   {"ready_of_ns", Source::kArgInt, Type::kInt64, true},
    {"timeout_ns", Source::kArgInt, Type::kInt64, true}, {"descriptors", Source::kArgInt, Type::kInt32, true},
    {"thread", Source::kArgInt, Type::kInt32, true},     {"at_once", Source::kArgInt, Type::kInt32, true},
    {"holder", Source::kArgInt, Type::kInt32, true},     {"ranks", Source::kArgInt, Type::kInt32, true},
    {"dims", Source::kArgList, Type::kText, true},       {"chunk", Source::kArgList, Type::kText, true},
    {"points", Source::kArgInt, Type::kInt64, true},     {"selection", Source::kArgText, Type::kText, true},
    {"blocks", Source::kArgInt, Type::kInt64, true},     {"slab", Source::kArgList, Type::kText, true},
    {"transfer", Source::kArgText, Type::kText, true},   {"lines", Source::kArgInt, Type::kInt32, false},
    {"span", Source::kArgInt, Type::kInt64, true},       {"last", Source::kArgInt, Type::kInt64, true},
    {"followed", Source::kArgInt, Type::kInt64, true},   {"placed", Source::kArgInt, Type::kInt64, true},
    {"unaligned", Source::kArgInt, Type::kInt64, true},  {"sizes", Source::kArgList, Type::kText, true},
    {"durs", Source::kArgList, Type::kText, true},       {"pieces", Source::kArgList, Type::kText, true},
    {"ahead", Source::kArgInt, Type::kInt64, true},      {"stack", Source::kDerived, Type::kText, true},
};
constexpr size_t kColumnCount = sizeof kColumns / sizeof kColumns[0];

// A free tag's column is named like its key in "args".
constexpr std::string_view kTagPrefix = "tag.";

struct FreeDeleter {
  void operator()(void *p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, FreeDeleter>;

// Distinct strings in the order of their first use, in Arrow's utf8 layout.
class Dictionary {
 public:
  Dictionary() : offsets_{0}, slots_(16, -1) {}

  // The index of `text`, which must be valid UTF-8. Throws std::length_error past 2 GiB of text.
  int32_t index_of(std::string_view text);

  size_t size() const { return offsets_.size() - 1; }
  std::string_view at(int32_t i) const;
  const std::vector<int32_t> &offsets() const { return offsets_; }
  const std::string &data() const { return data_; }

 private:
  void grow();

  std::string data_;
  std::vector<int32_t> offsets_;
  std::vector<int32_t> slots_;
};

// One column. Text rows hold dictionary indices, -1 where null; integers have a validity bit a row.
class Column {
 public:
  Column(std::string name, Type type, bool nullable, size_t capacity);

  void set_int(size_t row, int64_t value) {
    if (type_ == Type::kInt64) {
      static_cast<int64_t *>(values_.get())[row] = value;
    } else {
      static_cast<int32_t *>(values_.get())[row] = clamp32(value);
    }
    if (valid_ != nullptr) valid()[row >> 3] |= static_cast<uint8_t>(1U << (row & 7));
  }
  void set_index(size_t row, int32_t index) { indices()[row] = index; }
  void set_indices(size_t begin, size_t end, int32_t index) { std::fill(indices() + begin, indices() + end, index); }
  // What an absent integer reads as where it is not null.
  static int32_t fallback(const std::string &name) { return name == "calls" || name == "lines" ? 1 : 0; }
  int32_t index_at(size_t row) const { return static_cast<const int32_t *>(values_.get())[row]; }
  int64_t int_at(size_t row) const {
    return type_ == Type::kInt64 ? static_cast<const int64_t *>(values_.get())[row]
                                 : static_cast<const int32_t *>(values_.get())[row];
  }
  // Of an integer.
  bool is_null_int(size_t row) const {
    return valid_ != nullptr && (static_cast<const uint8_t *>(valid_.get())[row >> 3] & (1U << (row & 7))) == 0;
  }
  bool is_null_text(size_t row) const { return static_cast<int32_t *>(values_.get())[row] < 0; }

  // Removes the value of `row`.
  void clear(size_t row);
  // Gives a row the value of another one, or null, what an absent integer reads as.
  void copy(size_t from, size_t to);
  // Makes room for so many rows and one more.
  void grow(size_t capacity);

  // Counts nulls and, for text that has some, makes the validity bits. No value may be set after it.
  void finish(size_t rows);

  const std::string &name() const { return name_; }
  Type type() const { return type_; }
  bool nullable() const { return nullable_; }
  int64_t null_count() const { return null_count_; }
  const void *values() const { return values_.get(); }
  const void *validity() const { return null_count_ > 0 ? valid_.get() : nullptr; }
  Dictionary &dictionary() { return dictionary_; }
  const Dictionary &dictionary() const { return dictionary_; }

 private:
  static int32_t clamp32(int64_t v) {
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : static_cast<int32_t>(v);
  }
  int32_t *indices() { return static_cast<int32_t *>(values_.get()); }
  uint8_t *valid() { return static_cast<uint8_t *>(valid_.get()); }

  std::string name_;
  Type type_;
  bool nullable_;
  size_t rows_;  // that there is room for
  Buffer values_;
  Buffer valid_;
  Dictionary dictionary_;
  int64_t null_count_ = 0;
};

// A finished batch, of which Arrow gets views.
struct Batch {
  size_t rows = 0;
  size_t events = 0;  // fewer than rows where copies are two (Parser)
  std::vector<std::unique_ptr<Column>> columns;
};

}  // namespace tailrace::native
