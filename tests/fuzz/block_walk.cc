// The core's walk over a trace file's headers: what `tailrace seal` does with the file of a dead process.
#include <memory>

#include "format/block.h"
#include "fuzz.h"

using namespace tailrace;
using fuzz::require;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file(data, size);
  auto walk = std::make_unique<BlockWalk>(file.fd(), size);
  BlockPlace place;
  uint64_t before = 0;
  while (walk->next(place)) {
    require(place.offset == before, "blocks follow each other");
    require(place.member_bytes > 0 && place.offset + place.member_bytes <= size, "a block lies in the file");
    before += place.member_bytes;
    require(walk->offset() == before, "the walk is after the block");
    for (string_view key : {"seg", "epoch", "slots", "lost", "t0"}) {
      uint64_t value;
      header_number(place.header, key, value);
    }
  }
  require(walk->offset() <= size && walk->torn_bytes() == size - walk->offset(), "what is torn is the rest");
  return 0;
}
