// See parse.h.
#include "parse.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "implied.h"
#include "layout.h"
#include "line_keys.h"
#include "names.h"
#include "numbers.h"

namespace tailrace::native {

namespace {

// From this version of the format on, a line doesn't repeat what its other fields tell.
constexpr int64_t kLeanVersion = 2;

// Whether the line is likely to be metadata, so that it isn't tried as an event first.
bool looks_like_metadata(const char *p) {
  constexpr std::string_view kStart = "{\"name\":\"";
  constexpr std::string_view kInitials = "FHScp";
  if (!same_bytes(p, kStart.data(), 8) || p[8] != kStart[8]) return false;
  p += kStart.size();
  if (kInitials.find(*p) == std::string_view::npos) return false;
  return std::strncmp(p, "FH\"", 3) == 0 || std::strncmp(p, "HH\"", 3) == 0 || std::strncmp(p, "ST\"", 3) == 0 ||
         std::strncmp(p, "clock\"", 6) == 0 || std::strncmp(p, "process_name\"", 13) == 0;
}

// The list without its blanks, where it has nothing but whole numbers and such lists.
bool put_numbers_only(const Value &value, std::string *out) {
  out->clear();
  if (value.kind != Value::Kind::kArray) return false;
  for (const char c : value.text) {
    if (c == ' ' || c == '\t' || c == '\r') continue;
    if (std::strchr("0123456789-,[]", c) == nullptr || c == '\0') return false;
    out->push_back(c);
  }
  return true;
}

}  // namespace

class Parser::Impl {
 public:
  Impl(const std::vector<std::string> *columns, size_t capacity, const Mounts &mounts, bool ends)
      : capacity_(capacity),
        room_(capacity),
        names_(mounts),
        keys_(columns, capacity, ends),
        implied_(keys_.special()),
        to_(keys_.special()) {
    names_.use_columns(to_.host, to_.files, to_.block, to_.stack);
    if (ends && to_.dir == nullptr) throw std::invalid_argument("ends of copies need the column dir");
    ends_ = ends;
  }

  void block(std::string_view text, const BlockHeader &header) {
    names_.begin_block(header.host);
    completes_ = header.version >= kLeanVersion && implied_.wanted();
    follows_ = header.version >= kLeanVersion && to_.offset != nullptr;
    const size_t first_row = rows_, first_end = added_ends_;
    uint64_t lines = 0;
    const char *p = text.data();
    const char *end = p + text.size();
    try {
      while (p < end) {
        p = line(p);
        ++lines;
      }
    } catch (const JsonError &error) {
      throw JsonError("line " + std::to_string(lines + 1) + ": " + error.what());
    }
    if (lines != header.lines) count_fault("lines", header.lines, lines);
    const size_t events = rows_ - first_row - (added_ends_ - first_end);
    if (events != header.events) count_fault("events", header.events, events);
    if (to_.start != nullptr && rows_ > first_row) {
      to_.start->set_indices(first_row, rows_, to_.start->dictionary().index_of(header.start));
    }
  }

  Batch finish() {
    Batch batch;
    batch.rows = rows_;
    batch.events = rows_ - added_ends_;
    batch.columns = keys_.finish(rows_);
    return batch;
  }

 private:
  // ---- lines ----

  const char *line(const char *p) {
    if (looks_like_metadata(p)) {
      if (const char *next = metadata(p)) return next;
    }
    std::string fault;
    try {
      if (const char *next = event(p)) {
        commit();
        return next;
      }
    } catch (const JsonError &error) {
      fault = error.what();  // unless it is metadata, where the same keys may have other values
    }
    for (const auto &column : keys_.columns()) column->clear(rows_);
    if (const char *next = metadata(p)) return next;
    throw JsonError(fault.empty() ? "an event lacks one of name, cat, ts, pid, tid" : fault);
  }

  void commit() {
    if (rows_ - added_ends_ >= capacity_) throw JsonError("the block has more events than its header promises");
    if (to_.ts != nullptr) to_.ts->set_int(rows_, plus(ts_ns_, rest_ns_));
    if (to_.dur != nullptr) to_.dur->set_int(rows_, dur_ns_);
    if (to_.host != nullptr && to_.host->is_null_text(rows_)) to_.host->set_index(rows_, names_.own_host());
    if (has_path_ && to_.files[0]->is_null_text(rows_)) {
      to_.files[0]->set_index(rows_, to_.files[0]->dictionary().index_of(text_of(path_, &scratch_)));
    }
    if (completes_) implied_.complete(rows_, seen_, size_);
    if (follows_ && file_ != nullptr && (seen_ & kGivesSize) != 0) follow();
    if (ends_ && is_copy()) divide();
    ++rows_;
    // For the two rows of the next line.
    if (added_ends_ > 0 && rows_ - added_ends_ < capacity_ && rows_ + 1 > room_) grow();
  }

  void grow() {
    room_ = rows_ + rows_ / 8 + 64;
    for (const auto &column : keys_.columns()) column->grow(room_);
    to_.name->grow(room_);  // may be of the keys alone
  }

  bool is_copy() const {
    const int32_t direction = to_.dir->index_at(rows_);
    return direction >= 0 && to_.dir->dictionary().at(direction) == "rw";
  }

  // Makes two rows of the copy that is row rows_.
  void divide() {
    const size_t read = rows_, written = ++rows_;
    for (const auto &column : keys_.columns()) column->copy(read, written);
    for (Column *column : {to_.files[0], to_.files[1], to_.files[2], to_.files[3], to_.files[4], to_.block}) {
      if (column != nullptr) column->clear(written);
    }
    names_.set_file(file2_ == nullptr ? file_ : file2_, false, written);
    names_.set_file(file_, true, written);
    if (to_.offset != nullptr && to_.offset2 != nullptr) {
      to_.offset2->copy(read, written);
      to_.offset->clear(written);
      if (!to_.offset2->is_null_int(read)) to_.offset->set_int(written, to_.offset2->int_at(read));
      to_.offset2->clear(written);
      if (!to_.offset->is_null_int(read)) to_.offset2->set_int(written, to_.offset->int_at(read));
    }
    to_.dir->set_index(read, to_.dir->dictionary().index_of("r"));
    to_.dir->set_index(written, to_.dir->dictionary().index_of("w"));
    if (to_.lines != nullptr) to_.lines->set_int(written, 0);
    ++added_ends_;
  }

  // Sets the offset of a line that begins where the one before on its file ended.
  void follow() {
    if ((seen_ & (kGivesFollows | kHasOffset)) == kGivesFollows && file_->has_end) {
      to_.offset->set_int(rows_, file_->end);
      offset_ = file_->end;
    } else if ((seen_ & kGivesOffset) == 0) {
      return;
    }
    file_->has_end = true;
    file_->end = plus(offset_, size_);
  }

  // Reads a line as an event into row rows_; nullptr when it turns out to be none.
  const char *event(const char *p) {
    ts_ns_ = dur_ns_ = rest_ns_ = 0;
    has_path_ = false;
    file_ = file2_ = nullptr;
    seen_ = 0;
    recorded_.first = nullptr;
    Edge *edge = next_edge(layouts_.start(), &p);
    for (;;) {
      if (edge->stretch != nullptr) {
        if (recorded_.first != nullptr) end_recording(edge, p);
        if (Edge *stop = repeat_stretch(edge, &p)) {
          edge = stop;
          continue;
        }
      }
      if (edge->use.action == Action::kEnd) {
        if (recorded_.first != nullptr) end_recording(edge, p);
        return (seen_ & kNeedsAll) == kNeedsAll ? p : nullptr;
      }
      const bool steady = edge->steady && edge->stretch == nullptr;
      if (!steady && recorded_.first != nullptr) end_recording(edge, p);
      seen_ |= edge->use.seen;
      const char *value = p;
      p = edge->is_string ? string_value(edge, p) : other_value(edge->use, p);
      if (p == nullptr) return nullptr;
      if (steady && edge->kept) record(edge, value);
      edge = next_edge(edge->next, &p);
    }
  }

  Edge *next_edge(Node *node, const char **p) {
    Edge *edge = Layouts::find(node, *p);
    if (edge == nullptr || !fits(*edge, (*p)[edge->bytes])) edge = learn(node, *p);
    *p += edge->bytes;
    return edge;
  }

  // ---- stretches ----

  // Values that often stay the same from line to line.
  static bool is_steady(const Edge &edge) {
    if (!edge.is_string) return (edge.use.seen & (kHasPid | kHasTid)) != 0;
    const Action action = edge.use.action;
    return action == Action::kText || action == Action::kSkip || action == Action::kPhase;
  }

  // Sets the values of the stretch at `edge` when its bytes are at `*p`, and moves past them; else nullptr.
  Edge *repeat_stretch(Edge *edge, const char **p) {
    Stretch *stretch = edge->stretch.get();
    if (!same_bytes(*p, stretch->bytes.data(), stretch->length)) {
      if (++stretch->misses > Stretch::kMaxMisses) edge->stretch.reset();
      return nullptr;
    }
    stretch->misses = 0;
    for (const Stretch::Set &set : stretch->sets) {
      if (set.is_text) {
        set.column->set_index(rows_, static_cast<int32_t>(set.value));
      } else {
        set.column->set_int(rows_, set.value);
      }
    }
    seen_ |= stretch->seen;
    *p += stretch->length;
    return stretch->stop;
  }

  void record(Edge *edge, const char *value) {
    if (recorded_.first == nullptr) {
      recorded_.first = edge;
      recorded_.start = value;
      recorded_.values = 0;
      recorded_.seen = 0;
      recorded_.sets.clear();
    }
    ++recorded_.values;
    recorded_.seen |= edge->use.seen;
    const KeyUse &use = edge->use;
    if (use.action == Action::kText && edge->is_string) recorded_.sets.push_back({use.column, true, edge->last_index});
    if (use.action == Action::kInt) recorded_.sets.push_back({use.column, false, use.column->int_at(rows_)});
  }

  // Makes a stretch of the recorded values, up to the value of `stop` at `p`; a single value needs none.
  void end_recording(Edge *stop, const char *p) {
    Edge *first = recorded_.first;
    recorded_.first = nullptr;
    const auto length = static_cast<size_t>(p - recorded_.start);
    if (recorded_.values < 2 || !stop->kept || length > Stretch::kMaxBytes) return;
    auto stretch = std::make_shared<Stretch>();
    stretch->bytes.assign(recorded_.start, length);
    stretch->bytes.append(8, '\0');
    stretch->length = length;
    stretch->sets = recorded_.sets;
    stretch->seen = recorded_.seen;
    stretch->stop = stop;
    first->stretch = std::move(stretch);
  }

  // The literal of a number is also a prefix of a string's, and of the one with blanks after it.
  static bool fits(const Edge &edge, char first) {
    return edge.is_string || edge.use.action == Action::kEnd ||
           (static_cast<unsigned char>(first) > ' ' && first != '"');
  }

  // Tokenizes the literal between two values, and keeps it.
  Edge *learn(Node *node, const char *p) {
    Edge edge;
    Level level = node->level;
    const char *q = skip_blanks(p);
    bool first = level == Level::kStart;
    if (first) {
      if (*q++ != '{') throw JsonError("a line must be an object");
      level = Level::kTop;
    }
    for (;;) {
      q = skip_blanks(q);
      if (*q == '}') {
        ++q;
        if (level == Level::kTop) {
          q = skip_blanks(q);
          if (*q != '\n') throw JsonError("text follows the object");
          edge.use.action = Action::kEnd;
          ++q;
          break;
        }
        level = Level::kTop;
        first = false;
        continue;
      }
      if (!first) {
        if (*q != ',') throw JsonError("a comma or } is missing after a value");
        q = skip_blanks(q + 1);
      }
      q = learn_key(q, level, &edge);
      if (edge.level != level) {
        level = edge.level;
        first = true;
        continue;
      }
      break;
    }
    edge.level = level;
    edge.bytes = static_cast<size_t>(q - p);
    edge.steady = is_steady(edge);
    return layouts_.keep(node, edge, p);
  }

  // Reads a key, its colon, and a string's opening quote. The { of "args" is read too: then edge->level is kArgs.
  const char *learn_key(const char *q, Level level, Edge *edge) {
    if (*q != '"') throw JsonError("a key must start with a quote");
    Value key;
    q = skip_blanks(read_value(q, &key));
    if (*q != ':') throw JsonError("a colon is missing after a key");
    q = skip_blanks(q + 1);
    const std::string name(text_of(key, &scratch_));
    edge->level = level;
    if (level == Level::kTop && name == "args" && *q == '{') {
      edge->level = Level::kArgs;
      return q + 1;
    }
    edge->use = keys_.use_of(level, name);
    edge->is_string = *q == '"';
    return edge->is_string ? q + 1 : q;
  }

  // ---- values ----

  // `p` is after the opening quote; returns the position after the closing one, or nullptr when the line is no event.
  const char *string_value(Edge *edge, const char *p) {
    const Action action = edge->use.action;
    if (edge->last_bytes > 0 && same_bytes(p, edge->last, edge->last_bytes)) {
      if (action == Action::kText) {
        edge->use.column->set_index(rows_, edge->last_index);
        return p + edge->last_bytes;
      }
      if (action == Action::kSkip || action == Action::kPhase) return p + edge->last_bytes;
      if (edge->last_epoch == names_.epoch()) {
        if (action == Action::kHost) {
          to_.host->set_index(rows_, edge->last_index);
        } else if (action == Action::kStack) {
          to_.stack->set_index(rows_, edge->last_index);
        } else {
          set_file(edge);
        }
        return p + edge->last_bytes;
      }
    }
    return new_string_value(edge, p);
  }

  const char *new_string_value(Edge *edge, const char *p) {
    Value value;
    value.kind = Value::Kind::kString;
    const char *end = string_end(p, &value.escaped);
    value.text = {p, static_cast<size_t>(end - p)};
    bool repeats = !value.escaped;
    switch (edge->use.action) {
      case Action::kText:
        edge->last_index = edge->use.column->dictionary().index_of(text_of(value, &scratch_));
        edge->use.column->set_index(rows_, edge->last_index);
        break;
      case Action::kPhase:
        if (text_of(value, &scratch_) != "X") return nullptr;
        break;
      case Action::kFile:
      case Action::kFile2:
        edge->last_file = names_.file(HashKey::of(text_of(value, &scratch_)));
        set_file(edge);
        break;
      case Action::kHost:
        edge->last_index = names_.host_of(HashKey::of(text_of(value, &scratch_)));
        to_.host->set_index(rows_, edge->last_index);
        break;
      case Action::kStack:
        edge->last_index = names_.stack_of(HashKey::of(text_of(value, &scratch_)));
        to_.stack->set_index(rows_, edge->last_index);
        break;
      case Action::kPath:
        path_ = value;
        has_path_ = true;
        repeats = false;
        break;
      case Action::kSkip: break;
      default: throw JsonError("a number is expected, not a string");
    }
    remember(edge, p, repeats ? value.text.size() + 1 : 0);
    return end + 1;
  }

  void set_file(const Edge *edge) {
    const bool second = edge->use.action == Action::kFile2;
    (second ? file2_ : file_) = edge->last_file;
    names_.set_file(edge->last_file, second, rows_);
  }

  void remember(Edge *edge, const char *p, size_t bytes) {
    edge->last_bytes = bytes <= Edge::kMaxLast ? bytes : 0;
    edge->last_epoch = names_.epoch();
    std::memcpy(edge->last, p, edge->last_bytes);
  }

  const char *other_value(const KeyUse &use, const char *p) {
    if (use.action == Action::kInt || use.action == Action::kSkip) {
      const bool negative = *p == '-';
      const char *q = p + (negative ? 1 : 0);
      uint64_t digits;
      if (read_digits(&q, &digits) && ends_number(*q)) {
        if (use.column != nullptr)
          use.column->set_int(rows_, negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits));
        if (use.gives != 0) give(use, negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits));
        return q;
      }
    } else if (use.action == Action::kTs || use.action == Action::kDur || use.action == Action::kNs) {
      if (const char *q = plain_time(use.action, p)) return q;
    }
    Value value;
    const char *end = read_value(p, &value);
    return odd_value(use, value) ? end : nullptr;
  }

  // The usual forms of times: digits, and for a duration three decimals. nullptr for any other form.
  const char *plain_time(Action action, const char *p) {
    uint64_t whole;
    if (!read_digits(&p, &whole) || whole > 9'000'000'000'000'000) return nullptr;
    auto ns = static_cast<int64_t>(whole);
    if (action == Action::kNs) {
      if (!ends_number(*p)) return nullptr;
      rest_ns_ = ns;
      return p;
    }
    ns *= 1000;
    if (*p == '.') {
      const char *q = p + 1;
      uint64_t decimals;
      if (!read_digits(&q, &decimals) || q - p != 4) return nullptr;
      ns += static_cast<int64_t>(decimals);
      p = q;
    }
    if (!ends_number(*p)) return nullptr;
    (action == Action::kTs ? ts_ns_ : dur_ns_) = ns;
    return p;
  }

  void give(const KeyUse &use, int64_t value) {
    seen_ |= use.gives;
    if (use.gives == kGivesSize) size_ = value;
    if (use.gives == kGivesOffset) offset_ = value;
  }

  static bool is_whole(std::string_view number) { return number.find_first_of(".eE") == std::string_view::npos; }

  // A value that is no string and no number in the usual form. False when the line is no event.
  bool odd_value(const KeyUse &use, const Value &value) {
    if (use.gives != 0 && value.kind == Value::Kind::kNumber && is_whole(value.text)) give(use, integer_of(value.text));
    if (use.action == Action::kSkip) return true;
    if (use.action == Action::kPhase) return false;
    if (value.kind == Value::Kind::kNull && (use.seen & kNeedsAll) == 0) return true;
    if (use.action == Action::kList) {
      if (!put_numbers_only(value, &scratch_)) throw JsonError("a list of whole numbers is expected");
      use.column->set_index(rows_, use.column->dictionary().index_of(scratch_));
      return true;
    }
    if (value.kind != Value::Kind::kNumber) throw JsonError("a string or a number is expected");
    switch (use.action) {
      case Action::kInt: use.column->set_int(rows_, integer_of(value.text)); return true;
      case Action::kTs: ts_ns_ = decimal_us_to_ns(value.text); return true;
      case Action::kDur: dur_ns_ = decimal_us_to_ns(value.text); return true;
      case Action::kNs: rest_ns_ = integer_of(value.text); return true;
      case Action::kText:
        integer_of(value.text);  // only a whole number has one spelling as text
        use.column->set_index(rows_, use.column->dictionary().index_of(value.text));
        return true;
      default: throw JsonError("a string is expected, not a number");
    }
  }

  // ---- names ----

  // Reads a metadata line (anything that is no event); nullptr when it is an event.
  const char *metadata(const char *p) {
    std::string name, phase;
    Value args;
    p = skip_blanks(each_member(p, [&](std::string_view key, const Value &value) {
      if (key == "args") args = value;
      if (value.kind != Value::Kind::kString) return;
      if (key == "name") name = text_of(value, &scratch_);
      if (key == "ph") phase = text_of(value, &scratch_);
    }));
    if (*p != '\n') throw JsonError("text follows the object");
    if (phase == "X") return nullptr;
    if (phase == "M" && args.kind == Value::Kind::kObject && (name == "FH" || name == "HH" || name == "ST"))
      names_.put(name, args);
    return p + 1;
  }

  [[noreturn]] static void count_fault(const char *what, uint64_t promised, uint64_t found) {
    throw JsonError("the header promises " + std::to_string(promised) + " " + what + ", the block has " +
                    std::to_string(found));
  }

  size_t capacity_;  // events
  size_t room_;      // rows
  BlockNames names_;
  LineKeys keys_;
  Implied implied_;
  const LineKeys::Special to_;  // columns
  bool completes_ = false;      // the block's lines leave out what others tell
  bool follows_ = false;        // its lines may leave out an offset

  Layouts layouts_;
  size_t rows_ = 0;
  bool ends_ = false;
  size_t added_ends_ = 0;  // of the rows
  std::string scratch_;

  // The line being read.
  int64_t ts_ns_ = 0, rest_ns_ = 0, dur_ns_ = 0, size_ = 0, offset_ = 0;
  FileName *file_ = nullptr, *file2_ = nullptr;
  bool has_path_ = false;
  Value path_;
  uint16_t seen_ = 0;  // Seen
  struct {
    Edge *first;
    const char *start;
    size_t values;
    uint16_t seen;
    std::vector<Stretch::Set> sets;
  } recorded_ = {};
};

Parser::Parser(const std::vector<std::string> *columns, size_t capacity, const Mounts &mounts, bool ends)
    : impl_(std::make_unique<Impl>(columns, capacity, mounts, ends)) {}
Parser::~Parser() = default;
void Parser::block(std::string_view text, const BlockHeader &header) { impl_->block(text, header); }
Batch Parser::finish() { return impl_->finish(); }

}  // namespace tailrace::native
