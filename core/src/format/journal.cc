// See format/journal.h.
#include "format/journal.h"

#include "base/sys.h"

namespace tailrace {

const char *const kLossNames[static_cast<int>(Loss::kCount)] = {"no_journal", "not_written", "torn",
                                                                "unnamed",    "dropped",     "gave_way"};

const char *const kFileTypeNames[10] = {"none", "reg", "dir", "lnk", "chr", "blk", "fifo", "sock", "anon", "object"};

namespace {

// Multiply-and-fold over 8-byte words: a path costs a few nanoseconds, where FNV costs one a byte.
uint64_t fold(uint64_t a, uint64_t b) {
  unsigned __int128 r = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15ULL) * (b ^ 0xD6E8FEB86659FD93ULL);
  return static_cast<uint64_t>(r) ^ static_cast<uint64_t>(r >> 64);
}

}  // namespace

uint64_t file_hash(string_view path, const FileIdentity &identity) {
  uint64_t h = fold(path.size(), static_cast<uint64_t>(identity.type));
  const char *p = path.data();
  size_t n = path.size();
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = fold(h, word);
  }
  uint64_t tail = 0;
  if (n) memcpy(&tail, p, n);
  h = fold(h, tail);
  h = fold(h, identity.dev);
  h = fold(h, identity.ino);
  h = fold(h, static_cast<uint64_t>(identity.btime_ns));
  return h ? h : 1;
}

FileType type_of_mode(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FileType::kRegular;
    case S_IFDIR: return FileType::kDirectory;
    case S_IFLNK: return FileType::kLink;
    case S_IFCHR: return FileType::kCharacter;
    case S_IFBLK: return FileType::kBlock;
    case S_IFIFO: return FileType::kFifo;
    case S_IFSOCK: return FileType::kSocket;
    default: return FileType::kAnonymous;
  }
}

FileIdentity identity_of(const struct statx &s) {
  FileIdentity id;
  id.type = type_of_mode(s.stx_mode);
  id.dev = static_cast<uint64_t>(s.stx_dev_major) << 32 | s.stx_dev_minor;
  id.ino = s.stx_ino;
  if (id.type == FileType::kRegular) id.block_bytes = s.stx_blksize;
  if (s.stx_mask & STATX_BTIME) id.btime_ns = s.stx_btime.tv_sec * 1'000'000'000LL + s.stx_btime.tv_nsec;
  return id;
}

void write_text_record(Slot *slots, RecordKind kind, uint16_t epoch, const HeadSlot &head, string_view text) {
  const uint32_t parts = text_slots(text.size());
  for (uint32_t i = 0; i < parts; ++i) {
    auto *part = reinterpret_cast<TextSlot *>(slots + 1 + i);
    const size_t from = i * kTextBytesPerSlot;
    const size_t n = text.size() - from < kTextBytesPerSlot ? text.size() - from : kTextBytesPerSlot;
    memcpy(part->text, text.data() + from, n);
    part->mark.store(make_mark(kTextRecord, epoch), std::memory_order_release);
  }
  auto *h = reinterpret_cast<HeadSlot *>(slots);
  h->id = head.id;
  h->hash = head.hash;
  h->text_bytes = static_cast<uint32_t>(text.size());
  h->tid = head.tid;
  h->dev = head.dev;
  h->ino = head.ino;
  h->btime_ns = head.btime_ns;
  h->block_bytes = head.block_bytes;
  h->is_summed = head.is_summed;
  h->mark.store(make_mark(kind, epoch), std::memory_order_release);
}

void write_journal_directory(Writer &out, string_view journal_dir, unsigned uid, string_view run_dir) {
  write_journal_directory(out << journal_dir, uid, run_dir);
}

void write_journal_directory(Writer &out, unsigned uid, string_view run_dir) {
  out << "/tailrace-";
  out.number(uid) << '/';
  out.hex(fnv64(run_dir.data(), run_dir.size()), 16);
}

uint64_t pid_namespace() {
  struct statx s;
  return sys::statx(AT_FDCWD, "/proc/self/ns/pid", 0, STATX_INO, &s) == 0 ? s.stx_ino : 0;
}

void write_file_host(Writer &out, string_view host) {
  for (char c : host) {
    bool kept = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    out << (kept ? c : '_');
  }
}

void write_process_stem(Writer &out, string_view host, int pid, uint64_t start_ns) {
  write_file_host(out, host);
  out << '-';
  out.number(pid) << '-';
  out.short_hex(start_ns);
}

}  // namespace tailrace
