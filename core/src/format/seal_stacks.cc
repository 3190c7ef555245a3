// Call stacks in lines: a definition once a block, its hash in the line of each call that has it.
#include "format/sealer.h"

namespace tailrace {

// The stack of the call in this slot; null: it has none. Its line is written where it was not in this block.
const NameEntry *Sealer::stack_of(uint32_t index) {
  if (stack_slot_ + 1 != index) return nullptr;
  NameEntry *name = find_name(reinterpret_cast<HeadSlot *>(segment_.slot(stack_slot_))->hash);
  if (!name->hash) return nullptr;
  if (name->emitted_in == s_.block_number) return name;
  name->emitted_in = s_.block_number;
  char *p = put_metadata(s_.lines.line(), "ST");
  Writer w(p, kLineSlackBytes - 4096);
  w << "\"name\":";
  w.json(text_of(name->slot)) << ",\"value\":\"";
  w.hex(name->hash, 16) << "\"}}\n";
  s_.lines.add_text(p + w.size());
  return name;
}

char *Sealer::put_stack(char *p, const NameEntry &stack) {
  summary_.add_stack();
  return put(put_hex(put(p, ",\"stack\":\""), stack.hash, 16), "\"");
}

}  // namespace tailrace
