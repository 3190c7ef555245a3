// The names of the layers' files and objects (layers/layers.h). A library returns a file's name as it was opened, but
// by the next call the working directory or the file of that name may have changed. So the file of each name is kept
// from the time of the open.
#include "base/arena.h"
#include "base/own_memory.h"
#include "layers/layers.h"
#include "session/session.h"

namespace tailrace {
namespace {

struct FileRow {
  uint64_t key;  // the library's name or handle of the file; 0: free
  uint64_t hash;
  FileIdentity identity;
  uint32_t path_bytes;
  uint32_t ranks;
  char *path;
};

constexpr uint32_t kFileRows = 4096;
constexpr uint32_t kMaxProbes = 32;
FileRow *g_files;  // guarded by the table lock

// The row of that key, or a free one, or else the first that was probed.
FileRow *row_of(uint64_t key) {
  for (uint32_t i = 0; i < kMaxProbes; ++i) {
    FileRow &row = g_files[(key + i) % kFileRows];
    if (row.key == key || !row.key) return &row;
  }
  return &g_files[key % kFileRows];
}

}  // namespace

void keep_layer_file(uint64_t key, const char *path, NamedFile &out, uint32_t ranks) {
  name_file_as_opened(path, out);
  Locked lock(g_wiped.table);
  if (!g_files) g_files = static_cast<FileRow *>(own_memory::pages(kFileRows * sizeof(FileRow)));
  if (!g_files) return;
  FileRow *row = row_of(key);
  if (row->path) pool_give(row->path, row->path_bytes);
  row->path = static_cast<char *>(pool_take(out.path_bytes ? out.path_bytes : 1));
  row->path_bytes = out.path_bytes;
  row->key = row->path ? key : 0;
  row->hash = out.hash;
  row->ranks = ranks;
  row->identity = out.identity;
  if (row->path) memcpy(row->path, out.path, out.path_bytes);
}

bool layer_file_of(uint64_t key, NamedFile &out, uint32_t *ranks) {
  Locked lock(g_wiped.table);
  FileRow *row = g_files ? row_of(key) : nullptr;
  if (!row || row->key != key) return false;
  if (ranks) *ranks = row->ranks;
  out.hash = row->hash;
  out.identity = row->identity;
  out.path_bytes = row->path_bytes;
  memcpy(out.path, row->path, row->path_bytes);
  return true;
}

void name_object(string_view text, NamedFile &out) {
  size_t bytes = text.size() < kPathBytes ? text.size() : kPathBytes;
  memcpy(out.path, text.data(), bytes);
  out.path_bytes = static_cast<uint32_t>(bytes);
  out.identity = FileIdentity{};
  out.identity.type = FileType::kObject;
  out.hash = recorded_hash(out.name(), out.identity);
}

}  // namespace tailrace
