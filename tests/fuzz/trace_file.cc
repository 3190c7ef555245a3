// The reader on a whole trace file: the scan over its blocks, then each of them inflated and parsed.
#include "trace_file.h"

#include "fuzz.h"
#include "parse.h"

using namespace tailrace::native;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tailrace::fuzz::MemoryFile memory(data, size);
  const Mounts mounts({});
  try {
    const TraceFile file(memory.path());
    const Scan scan = scan_blocks(file, 0);
    uint64_t in_blocks = 0;
    for (const FoundBlock &block : scan.blocks) in_blocks += block.member_bytes;
    tailrace::fuzz::require(in_blocks + scan.torn_bytes == size, "every byte is a block's or torn");
    std::vector<uint8_t> member;
    std::vector<char> raw;
    for (const FoundBlock &block : scan.blocks) {
      try {
        const BlockHeader header = header_at(file, block.offset);
        // The header's size is allocated before the contents are read.
        if (header.raw_bytes > (1U << 24) || header.events > (1U << 16)) continue;
        const size_t bytes = inflate_block(file, block.offset, header, &member, &raw);
        Parser parser(nullptr, header.events, mounts, false);
        parser.block({raw.data(), bytes}, header);
        tailrace::fuzz::require(parser.finish().rows == header.events, "rows are as many as the header's events");
      } catch (const JsonError &) {
      } catch (const TraceFault &) {
      }
    }
  } catch (const TraceFault &) {
  }
  return 0;
}
