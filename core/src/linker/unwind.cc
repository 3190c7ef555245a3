// See linker/unwind.h. The tables: DWARF 5, 6.4 (call frame information); Linux Standard Base Core 5.0, 10.6 (.eh_frame
// and .eh_frame_hdr).
#include "linker/unwind.h"

namespace tailrace {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFp = 6, kSp = 7, kReturn = 16;
#else
constexpr uint64_t kFp = 29, kSp = 31, kReturn = 30;
#endif
// Code addresses on aarch64 may carry a signature above them.
constexpr uintptr_t kCodeBits = (uintptr_t{1} << 48) - 1;

using Tables = MemoryWindow<512>;

// Reads values one after the other; after a fault all are 0.
class Reader {
 public:
  Reader(Tables &memory, uintptr_t at, uintptr_t end) : memory_(memory), at_(at), end_(end) {}
  bool ok() const { return ok_; }
  bool more() const { return ok_ && at_ < end_; }
  uintptr_t at() const { return at_; }
  void skip(uint64_t bytes) { at_ += bytes; }

  template <class T>
  T fixed() {
    T value{};
    ok_ = ok_ && at_ + sizeof value <= end_ && memory_.read(at_, value);
    at_ += sizeof value;
    return ok_ ? value : T{};
  }
  uint64_t unsigned_leb() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = fixed<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }
  int64_t signed_leb() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    do {
      byte = fixed<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      shift += 7;
    } while ((byte & 0x80) && shift < 64);
    if ((byte & 0x40) && shift < 64) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }
  // A pointer in one of the encodings of .eh_frame. `is_size`: only its width matters.
  uintptr_t encoded(uint8_t encoding, bool is_size = false) {
    const uintptr_t here = at_;
    int64_t value = 0;
    switch (encoding & 0x0F) {
      case 0x00:
      case 0x04:
      case 0x0C: value = fixed<int64_t>(); break;
      case 0x02: value = fixed<uint16_t>(); break;
      case 0x03: value = fixed<uint32_t>(); break;
      case 0x0A: value = fixed<int16_t>(); break;
      case 0x0B: value = fixed<int32_t>(); break;
      default: ok_ = false;
    }
    const uint8_t relative = encoding & 0x70;
    if (!is_size && relative == 0x10) return here + static_cast<uintptr_t>(value);
    ok_ = ok_ && (is_size || relative == 0);
    return static_cast<uintptr_t>(value);
  }

 private:
  Tables &memory_;
  uintptr_t at_, end_;
  bool ok_ = true;
};

// What is known of the three registers at a place.
struct Row {
  uint64_t cfa_register = ~uint64_t{0};
  int64_t cfa_offset = 0;
  bool cfa_in_memory = false;
  enum Saved : uint8_t { kSame, kAtOffset, kUndefined, kOther } fp = kSame, ret = kSame;
  int64_t fp_offset = 0, return_offset = 0;
};

struct Common {
  uint64_t code_factor = 0;
  int64_t data_factor = 0;
  uint8_t encoding = 0;
  bool has_augmentation = false;
  uintptr_t begin = 0, end = 0;  // of its instructions
};

bool read_common(Tables &memory, uintptr_t at, Common &out) {
  Reader r(memory, at, at + 4096);
  const auto length = r.fixed<uint32_t>();
  if (!r.ok() || length < 8 || length > 4000) return false;
  out.end = r.at() + length;
  if (r.fixed<uint32_t>() != 0) return false;  // the identifier of a CIE
  r.skip(1);
  char names[8] = {};
  for (size_t i = 0; i < sizeof names; ++i) {
    names[i] = r.fixed<char>();
    if (!names[i]) break;
  }
  if (names[sizeof names - 1]) return false;
  out.code_factor = r.unsigned_leb();
  out.data_factor = r.signed_leb();
  if (r.unsigned_leb() != kReturn) return false;
  if (!names[0]) {
    out.begin = r.at();
    return r.ok();
  }
  if (names[0] != 'z') return false;
  out.has_augmentation = true;
  const uint64_t bytes = r.unsigned_leb();
  out.begin = r.at() + bytes;
  for (const char *name = names + 1; *name; ++name) {
    if (*name == 'R') out.encoding = r.fixed<uint8_t>();
    if (*name == 'L') r.skip(1);
    if (*name == 'P') r.encoded(r.fixed<uint8_t>() & 0x0F, true);
    if (*name == 'S') return false;  // the frame of a signal handler
  }
  return r.ok();
}

// Executes the instructions of a CIE and then those of an FDE, up to a place.
class Program {
 public:
  Program(Tables &memory, const Common &common) : memory_(memory), common_(common) {}

  bool run(uintptr_t begin, uintptr_t end, uintptr_t location, uintptr_t until) {
    Reader r(memory_, begin, end);
    location_ = location;
    while (r.more() && location_ <= until) {
      if (!step(r)) return false;
    }
    return r.ok();
  }
  void keep_initial() { initial_ = row_; }
  const Row &row() const { return row_; }

 private:
  void advance(uint64_t by) { location_ += by * common_.code_factor; }
  void set(uint64_t reg, Row::Saved how, int64_t offset = 0) {
    if (reg == kFp) row_.fp = how, row_.fp_offset = offset;
    if (reg == kReturn) row_.ret = how, row_.return_offset = offset;
  }
  void restore(uint64_t reg) {
    if (reg == kFp) row_.fp = initial_.fp, row_.fp_offset = initial_.fp_offset;
    if (reg == kReturn) row_.ret = initial_.ret, row_.return_offset = initial_.return_offset;
  }
  void set_cfa(uint64_t reg, int64_t offset, bool in_memory = false) {
    row_.cfa_register = reg;
    row_.cfa_offset = offset;
    row_.cfa_in_memory = in_memory;
  }
  // Of expressions only *(register + offset), which functions that align their stack have.
  void read_cfa_expression(Reader &r) {
    const uint64_t bytes = r.unsigned_leb();
    const uintptr_t end = r.at() + bytes;
    const auto operation = r.fixed<uint8_t>();
    set_cfa(~uint64_t{0}, 0);
    if (operation >= 0x70 && operation <= 0x8F) {  // DW_OP_breg0 to breg31
      const int64_t offset = r.signed_leb();
      if (r.at() + 1 == end && r.fixed<uint8_t>() == 0x06) set_cfa(operation - 0x70U, offset, true);
    }
    if (r.at() < end) r.skip(end - r.at());
  }

  bool step(Reader &r);
  bool step_extended(Reader &r, uint8_t operation);

  Tables &memory_;
  const Common &common_;
  uintptr_t location_ = 0;
  Row row_, initial_, kept_[4];
  size_t kept_count_ = 0;
};

bool Program::step(Reader &r) {
  const auto operation = r.fixed<uint8_t>();
  const uint64_t low = operation & 0x3F;
  switch (operation >> 6) {
    case 1: advance(low); return true;  // advance_loc
    case 2:
      set(low, Row::kAtOffset, static_cast<int64_t>(r.unsigned_leb()) * common_.data_factor);
      return true;  // offset
    case 3: restore(low); return true;
    default: break;
  }
  return step_extended(r, operation);
}

bool Program::step_extended(Reader &r, uint8_t operation) {
  uint64_t reg;
  switch (operation) {
    case 0x00: return true;                                           // nop
    case 0x01: location_ = r.encoded(common_.encoding); return true;  // set_loc
    case 0x02: advance(r.fixed<uint8_t>()); return true;
    case 0x03: advance(r.fixed<uint16_t>()); return true;
    case 0x04: advance(r.fixed<uint32_t>()); return true;
    case 0x05:  // offset_extended
      reg = r.unsigned_leb();
      set(reg, Row::kAtOffset, static_cast<int64_t>(r.unsigned_leb()) * common_.data_factor);
      return true;
    case 0x06: restore(r.unsigned_leb()); return true;  // restore_extended
    case 0x07: set(r.unsigned_leb(), Row::kUndefined); return true;
    case 0x08: set(r.unsigned_leb(), Row::kSame); return true;
    case 0x09:  // register
      set(r.unsigned_leb(), Row::kOther);
      r.unsigned_leb();
      return true;
    case 0x0A:  // remember_state
      if (kept_count_ == 4) return false;
      kept_[kept_count_++] = row_;
      return true;
    case 0x0B:  // restore_state
      if (!kept_count_) return false;
      row_ = kept_[--kept_count_];
      return true;
    case 0x0C:  // def_cfa
      reg = r.unsigned_leb();
      set_cfa(reg, static_cast<int64_t>(r.unsigned_leb()));
      return true;
    case 0x0D: set_cfa(r.unsigned_leb(), row_.cfa_offset); return true;  // def_cfa_register
    case 0x0E: row_.cfa_offset = static_cast<int64_t>(r.unsigned_leb()); return true;
    case 0x0F: read_cfa_expression(r); return true;
    case 0x10:  // expression, val_expression
    case 0x16:
      set(r.unsigned_leb(), Row::kOther);
      r.skip(r.unsigned_leb());
      return true;
    case 0x11:  // offset_extended_sf
      reg = r.unsigned_leb();
      set(reg, Row::kAtOffset, r.signed_leb() * common_.data_factor);
      return true;
    case 0x12:  // def_cfa_sf
      reg = r.unsigned_leb();
      set_cfa(reg, r.signed_leb() * common_.data_factor);
      return true;
    case 0x13: row_.cfa_offset = r.signed_leb() * common_.data_factor; return true;
    case 0x2D: return true;                    // aarch64: the return address is signed
    case 0x2E: r.unsigned_leb(); return true;  // GNU_args_size
    default: return false;
  }
}

// The FDE of an address by the sorted table of .eh_frame_hdr; 0: there is none.
uintptr_t find_fde(Tables &memory, uintptr_t header, uintptr_t address) {
  Reader r(memory, header, header + 64);
  const auto version = r.fixed<uint8_t>(), frame = r.fixed<uint8_t>(), count = r.fixed<uint8_t>(),
             table = r.fixed<uint8_t>();
  if (version != 1 || count != 0x03 || table != 0x3B) return 0;  // udata4; sdata4 from the header on
  r.encoded(frame, true);
  uint32_t low = 0, high = r.fixed<uint32_t>();
  const uintptr_t rows = r.at();
  if (!r.ok()) return 0;
  struct {
    int32_t location, fde;
  } row{};
  uintptr_t found = 0;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (!memory.read(rows + middle * sizeof row, row)) return 0;
    if (header + static_cast<uintptr_t>(static_cast<intptr_t>(row.location)) <= address) {
      found = header + static_cast<uintptr_t>(static_cast<intptr_t>(row.fde));
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return found;
}

bool read_row(Tables &memory, uintptr_t fde, uintptr_t address, bool &covered, Row &out) {
  Reader r(memory, fde, fde + (1U << 20));
  const auto length = r.fixed<uint32_t>();
  if (!r.ok() || length < 8 || length > (1U << 20)) return false;
  const uintptr_t end = r.at() + length, here = r.at();
  const uintptr_t cie = here - r.fixed<uint32_t>();
  Common common;
  if (!r.ok() || !read_common(memory, cie, common)) return false;
  const uintptr_t begin = r.encoded(common.encoding), bytes = r.encoded(common.encoding, true);
  if (common.has_augmentation) r.skip(r.unsigned_leb());
  if (!r.ok() || address < begin || address - begin >= bytes) return false;
  covered = true;
  Program program(memory, common);
  if (!program.run(common.begin, common.end, begin, ~uintptr_t{0})) return false;
  program.keep_initial();
  if (!program.run(r.at(), end, begin, address)) return false;
  out = program.row();
  return true;
}

UnwindRule make_rule(Tables &memory, const Module &module, uintptr_t address) {
  UnwindRule rule{address, module.begin, module.frame_header, 0, 0, 0, UnwindRule::kNoTable, false};
  const uintptr_t fde = module.frame_header ? find_fde(memory, module.frame_header, address) : 0;
  if (!fde) return rule;
  Row row;
  bool covered = false;
  const bool read = read_row(memory, fde, address, covered, row);
  // The nearest function in the table may end before the address. A frame of an unknown kind is no guess at a frame
  // pointer.
  if (!read && !covered) return rule;
  rule.base = UnwindRule::kEnd;
  const bool is_known = row.cfa_register == kSp || row.cfa_register == kFp;
  if (!read || row.ret != Row::kAtOffset || row.fp > Row::kAtOffset || !is_known) return rule;
  if (row.cfa_in_memory && row.cfa_register != kFp) return rule;
  rule.cfa_offset = row.cfa_offset;
  rule.return_offset = static_cast<int32_t>(row.return_offset);
  rule.fp_offset = static_cast<int32_t>(row.fp_offset);
  rule.fp_saved = row.fp == Row::kAtOffset;
  rule.base = row.cfa_in_memory         ? UnwindRule::kMemoryAtFramePointer
              : row.cfa_register == kSp ? UnwindRule::kStackPointer
                                        : UnwindRule::kFramePointer;
  return rule;
}

const UnwindRule &rule_of(UnwindRoom &room, const Module &module, uintptr_t address) {
  UnwindRule *places = room.rules + (address * 0x9E3779B97F4A7C15ULL >> 32) % (kUnwindRules / kRuleWays) * kRuleWays;
  for (size_t i = 0; i < kRuleWays; ++i) {
    const UnwindRule &kept = places[i];
    const bool is_it = kept.address == address && kept.module_begin == module.begin;
    if (is_it && kept.frame_header == module.frame_header) return kept;
  }
  UnwindRule &kept = places[room.replaced++ % kRuleWays];
  kept = make_rule(room.tables, module, address);
  return kept;
}

// Whether the instruction before the address is a call.
bool is_behind_call(Tables &memory, uintptr_t address) {
#if defined(__x86_64__)
  constexpr size_t kLongest = 7;
  unsigned char b[kLongest];
  if (!memory.read(address - kLongest, b)) return false;
  if (b[2] == 0xE8) return true;  // five bytes: relative
  for (size_t at : {0, 1, 3, 4, 5}) {
    if (b[at] == 0xFF && (b[at + 1] >> 3 & 7) == 2) return true;  // by a register or memory
  }
  return false;
#else
  uint32_t instruction;
  if (!memory.read(address - sizeof instruction, instruction)) return false;
  return (instruction & 0xFC000000) == 0x94000000 || (instruction & 0xFFFFFC1F) == 0xD63F0000;
#endif
}

// The caller's registers, by a frame pointer: it and the return address lie side by side above the callee's frame.
bool step_by_frame_pointer(UnwindRoom &room, Registers &r) {
  uintptr_t both[2];
  constexpr uintptr_t kLargestFrame = 1U << 20;
  if (r.fp < r.sp || r.fp - r.sp > kLargestFrame || r.fp % sizeof(uintptr_t) != 0) return false;
  if (!room.stack.read(r.fp, both)) return false;
  r = {both[1] & kCodeBits, r.fp + sizeof both, both[0]};
  return find_module(r.pc - 1).begin != 0 && is_behind_call(room.tables, r.pc);
}

bool step_by_rule(UnwindRoom &room, const UnwindRule &rule, Registers &r) {
  uintptr_t cfa = (rule.base == UnwindRule::kStackPointer ? r.sp : r.fp) + static_cast<uintptr_t>(rule.cfa_offset);
  if (rule.base == UnwindRule::kMemoryAtFramePointer && !room.stack.read(cfa, cfa)) return false;
  uintptr_t fp = r.fp, pc = 0;
  if (cfa <= r.sp) return false;
  const bool saved = !rule.fp_saved || room.stack.read(cfa + static_cast<uintptr_t>(int64_t{rule.fp_offset}), fp);
  if (!saved || !room.stack.read(cfa + static_cast<uintptr_t>(int64_t{rule.return_offset}), pc)) return false;
  r = {pc & kCodeBits, cfa, fp};
  return pc != 0;
}

}  // namespace

size_t unwind(const Registers &from, uintptr_t without, int pid, size_t most, UnwindRoom &room) {
  room.stack.open(pid);
  room.tables.open(pid);
  // What lies above is looked at next.
  room.stack.at(from.sp, sizeof(uintptr_t));
  Registers r = from;
  size_t count = 0;
  for (size_t walked = 0; count < most && walked < 2 * kMostNativeFrames; ++walked) {
    // A return address may be behind the end of a function that never returns.
    const uintptr_t address = r.pc - 1;
    const Module module = find_module(address);
    if (walked && module.begin && (count || module.begin != without)) {
      room.frames[count++] = {r.pc, module.begin, module.frame_header};
    }
    if (module.begin) {
      const UnwindRule &rule = rule_of(room, module, address);
      if (rule.base == UnwindRule::kEnd) break;
      if (rule.base != UnwindRule::kNoTable) {
        if (!step_by_rule(room, rule, r)) break;
        continue;
      }
    }
    if (!step_by_frame_pointer(room, r)) break;
  }
  return count;
}

}  // namespace tailrace
