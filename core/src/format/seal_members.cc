// The args of events that records keep as JSON members: of a process's start and exit, and of calls of layers.
#include "format/sealer.h"

namespace tailrace {

// Text that a program has overwritten would make the block's header unreadable, and with it the block.
static bool are_members(string_view text) {
  char closing[8];
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (static_cast<unsigned char>(c) < ' ') return false;
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '[')) {
      if (depth == sizeof closing) return false;
      closing[depth++] = c == '{' ? '}' : ']';
    } else if (!quoted && (c == '}' || c == ']')) {
      if (depth == 0 || closing[--depth] != c) return false;
    }
  }
  return !quoted && depth == 0;
}

string_view Sealer::take_members() {
  string_view members = process_slot_ == UINT32_MAX ? string_view() : text_of(process_slot_);
  process_slot_ = UINT32_MAX;
  return are_members(members) ? members : string_view();
}

char *Sealer::put_start_args(char *p) {
  string_view members = take_members();
  if (members.empty()) return p;
  summary_.set_process(members);
  return put(put(p, ","), members);
}

char *Sealer::put_exit_args(char *p, const Slot &slot) {
  return put(put(p, ","), summary_.set_exit(slot.ret, take_members()));
}

// Whether the members that were read last are the record's. Others are those of a record that was never completed, or
// of one that comes after the groups which it ends.
bool Sealer::keep_members_of(const Slot &slot) const {
  return members_slot_ != UINT32_MAX && reinterpret_cast<HeadSlot *>(segment_.slot(members_slot_))->hash == slot.t0;
}

char *Sealer::put_layer_args(char *p, const Slot &slot) {
  if (!keep_members_of(slot)) return p;
  string_view members = text_of(members_slot_);
  members_slot_ = UINT32_MAX;
  return members.empty() || !are_members(members) ? p : put(put(p, ","), members);
}

// The processor time of the child whose wait the record is; null: it is not known.
const TimeSlot *Sealer::time_of(const Slot &slot) {
  const uint32_t at = time_slot_;
  time_slot_ = UINT32_MAX;
  if (at == UINT32_MAX) return nullptr;
  const auto *time = reinterpret_cast<const TimeSlot *>(segment_.slot(at));
  return time->t0 == slot.t0 ? time : nullptr;
}

}  // namespace tailrace
