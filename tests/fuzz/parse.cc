// The reader's parser: the text of a block, any bytes at all. The first byte is the number of events in the header,
// whether every column is wanted, and the format's version.
#include "parse.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fuzz.h"

using namespace tailrace::native;

namespace {

// As inflate_block returns it: a newline at the end, kPadBytes after it.
std::string_view put_text(const uint8_t *data, size_t size, std::vector<char> &room) {
  room.assign(data, data + size);
  if (room.empty() || room.back() != '\n') room.push_back('\n');
  size_t bytes = room.size();
  room.resize(bytes + kPadBytes);
  room.shrink_to_fit();
  return {room.data(), bytes};
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  BlockHeader header;
  header.host = "host";
  header.events = data[0] & 63;
  header.version = data[0] & 128 ? 1 : 2;
  std::vector<char> room;
  std::string_view text = put_text(data + 1, size - 1, room);
  header.raw_bytes = text.size();
  header.lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
  const std::vector<std::string> some = {"ts", "path", "file", "ret", "dir", "tag.sample"};
  const Mounts mounts({{"host", "0:40", "/shared", "nfs"}});
  try {
    // Twice in the same parser: the second time on the paths that the first time learned.
    for (const bool ends : {false, true}) {
      Parser parser(data[0] & 64 ? &some : nullptr, 2 * header.events, mounts, ends);
      parser.block(text, header);
      parser.block(text, header);
      const size_t rows = parser.finish().rows;
      tailrace::fuzz::require(ends ? rows >= 2 * header.events : rows == 2 * header.events,
                              "a block gives the number of events of its header, and with ends those of copies");
    }
  } catch (const JsonError &) {
  } catch (const TraceFault &) {
  }
  return 0;
}
