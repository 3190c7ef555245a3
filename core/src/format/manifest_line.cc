// See format/manifest_line.h.
#include "format/manifest_line.h"

#include "format/crc32.h"

namespace tailrace {

void write_manifest_line(Writer &out, string_view name, uint64_t blocks) {
  const size_t begin = out.size();
  (out << "{\"file\":").json(name);
  if (blocks != kBlocksUnknown) (out << ",\"blocks\":").number(static_cast<int64_t>(blocks));
  const string_view line = slice(out.view(), begin, out.size() - begin);
  const uint32_t crc = crc32_of(line.data(), line.size());
  (out << ",\"crc\":\"").hex(crc, 8) << "\"}\n";
}

}  // namespace tailrace
