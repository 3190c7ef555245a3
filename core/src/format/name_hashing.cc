// See format/name_hashing.h.
#include "format/name_hashing.h"

#include "format/path_patterns.h"
#include "format/tags.h"

namespace tailrace {
namespace {

constexpr string_view kPublicRoots[] = {
#define PUBLIC_ROOT(name) name,
#define KNOWN_NAME(name)
#define KNOWN_END(name)
#include "format/known_names.def"
#undef PUBLIC_ROOT
#undef KNOWN_NAME
#undef KNOWN_END
};
constexpr string_view kKnownNames[] = {
#define PUBLIC_ROOT(name)
#define KNOWN_NAME(name) name,
#define KNOWN_END(name)
#include "format/known_names.def"
#undef PUBLIC_ROOT
#undef KNOWN_NAME
#undef KNOWN_END
};
constexpr string_view kKnownEnds[] = {
#define PUBLIC_ROOT(name)
#define KNOWN_NAME(name)
#define KNOWN_END(name) name,
#include "format/known_names.def"
#undef PUBLIC_ROOT
#undef KNOWN_NAME
#undef KNOWN_END
};
// Below the public roots, but a user's: software of his own, names of his services.
constexpr string_view kUsersOwn[] = {"/usr/local", "/sys/fs/cgroup"};
// In /proc, directories that lead elsewhere; under the second kind by a number.
constexpr string_view kLeadsElsewhere[] = {"cwd", "root"}, kLeadElsewhere[] = {"fd", "map_files"};
// Before a part's hash: POSIX semaphores, and the arenas of Python's multiprocessing (file_classes.py).
constexpr string_view kKnownBegins[] = {"sem.", "psm_", "pymp-"};
constexpr string_view kArena = "pym-";

constexpr size_t kHashBytes = 17;
// What a part needs at most: a hash, ends, and a hash of what is behind it.
constexpr size_t kPartRoom = 2 * kHashBytes + 64;

constexpr size_t kWordBytes = 8;

inline uint64_t rotated(uint64_t v, int n) { return v << n | v >> (64 - n); }

struct SipState {
  uint64_t a, b, c, d;

  void round() {
    a += b, b = rotated(b, 13) ^ a, a = rotated(a, 32);
    c += d, d = rotated(d, 16) ^ c;
    a += d, d = rotated(d, 21) ^ a;
    c += b, b = rotated(b, 17) ^ c, c = rotated(c, 32);
  }
  void take(uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

template <size_t N>
bool is_one_of(string_view text, const string_view (&list)[N]) {
  for (string_view one : list) {
    if (one == text) return true;
  }
  return false;
}

// Which sizes the words of a list have, by their first byte: most parts of paths are none of them, and need no
// comparison.
struct Sizes {
  uint64_t of[256] = {};

  template <size_t N>
  constexpr explicit Sizes(const string_view (&list)[N]) {
    for (string_view one : list) of[static_cast<unsigned char>(one[0])] |= uint64_t{1} << one.size();
  }
  bool has(string_view text) const {
    return !text.empty() && text.size() < 64 && (of[static_cast<unsigned char>(text[0])] >> text.size() & 1) != 0;
  }
};
constexpr Sizes kNameSizes(kKnownNames), kEndSizes(kKnownEnds);

bool is_known_name(string_view part) { return kNameSizes.has(part) && is_one_of(part, kKnownNames); }

bool are_digits(string_view text) {
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return !text.empty();
}

bool is_below(string_view path, string_view directory) {
  return starts_with(path, directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

// An address and its port, or the inodes of a socket's ends: digits, hex digits and what stands between them.
bool is_address(string_view text) {
  constexpr string_view kBetween = "[]:.@*?->";
  for (char c : text) {
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (!digit && kBetween.find(c) == string_view::npos) return false;
  }
  return true;
}

// `text` is `begin`, digits and `end`.
bool is_numbered(string_view text, string_view begin, string_view end) {
  if (!starts_with(text, begin) || text.size() <= begin.size() + end.size()) return false;
  string_view rest = slice(text, begin.size(), text.size() - begin.size());
  size_t digits = rest.size() - end.size();
  return slice(rest, digits, end.size()) == end && are_digits(slice(rest, 0, digits));
}

bool is_known_end(string_view end) {
  const bool is_listed = kEndSizes.has(end) && is_one_of(end, kKnownEnds);
  return is_listed || is_numbered(end, "cpython-", "") || is_numbered(end, "opt-", "");
}

// Where a part's known ends begin, of several: .tar.gz, .cpython-311.pyc. The dot of .bashrc begins none.
size_t find_ends(string_view part) {
  size_t at = part.size();
  for (;;) {
    size_t dot = at;
    while (dot > 0 && part[dot - 1] != '.') --dot;
    if (dot <= 1 || !is_known_end(slice(part, dot, at - dot))) return at;
    at = dot - 1;
  }
}

size_t known_begin(string_view part) {
  for (string_view begin : kKnownBegins) {
    if (starts_with(part, begin)) return begin.size();
  }
  size_t end = kArena.size();
  if (!starts_with(part, kArena)) return 0;
  while (end < part.size() && part[end] >= '0' && part[end] <= '9') ++end;
  return end > kArena.size() && end < part.size() && part[end] == '-' ? end + 1 : 0;
}

// Whether a path of /proc leads out of it.
bool leads_out(string_view path) {
  size_t behind = 0;  // how many parts may follow
  bool counts = false;
  return !each_part(path, '/', [&](string_view part) {
    if (counts && behind == 0) return false;
    if (counts) --behind;
    if (!counts && (is_one_of(part, kLeadsElsewhere) || is_one_of(part, kLeadElsewhere))) {
      counts = true;
      behind = is_one_of(part, kLeadElsewhere) ? 1 : 0;
    }
    return true;
  });
}

void put_encoded(Writer &out, string_view part) { quote_tag_text(part, out); }

bool parse_key(string_view text, SipKey &key) {
  if (text.size() != kNameKeyDigits) return false;
  uint64_t halves[2] = {0, 0};
  for (size_t i = 0; i < kNameKeyDigits; ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f', capital = c >= 'A' && c <= 'F';
    if (!digit && !letter && !capital) return false;
    const int value = digit ? c - '0' : letter ? c - 'a' + 10 : c - 'A' + 10;
    halves[i / 16] = halves[i / 16] << 4 | static_cast<uint64_t>(value);
  }
  key = {halves[0], halves[1]};
  return true;
}

}  // namespace

uint64_t siphash(const SipKey &key, string_view text) {
  SipState s{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
             key.high ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + kWordBytes <= text.size(); at += kWordBytes) {
    uint64_t word;
    memcpy(&word, text.data() + at, sizeof word);
    s.take(word);
  }
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  for (size_t i = 0; at + i < text.size(); ++i)
    last |= static_cast<uint64_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  s.take(last);
  s.c ^= 0xFF;
  for (int i = 0; i < 4; ++i) s.round();
  return s.a ^ s.b ^ s.c ^ s.d;
}

// A key of its own for each use, so that no hash of one kind tells anything of another.
bool NameHasher::set_key(string_view key, string_view kept) {
  SipKey given;
  is_on_ = parse_key(key, given);
  names_ = {siphash(given, "tailrace names 1"), siphash(given, "tailrace names 2")};
  files_ = {siphash(given, "tailrace files 1"), siphash(given, "tailrace files 2")};
  fingerprint_ = siphash(given, "tailrace fingerprint");
  kept_ = kept;
  return is_on_;
}

uint64_t NameHasher::file_hash(uint64_t open_hash) const {
  const uint64_t hash = siphash(files_, {reinterpret_cast<const char *>(&open_hash), sizeof open_hash});
  return hash ? hash : 1;
}

bool NameHasher::is_public(string_view path) {
  if (path.empty() || path[0] != '/') return false;
  for (string_view own : kUsersOwn) {
    if (is_below(path, own)) return false;
  }
  size_t number = 0;
  bool root = false;
  const bool plain = each_part(path, '/', [&](string_view part) {
    if (number++ == 1) root = is_one_of(part, kPublicRoots);
    return part != ".." && part != ".";
  });
  return plain && root && !(is_below(path, "/proc") && leads_out(path));
}

void NameHasher::write_hash(Writer &out, string_view text, Put put) const {
  char digits[kHashBytes] = {'@'};
  put_hex(digits + 1, siphash(names_, text), 16);
  put(out, {digits, sizeof digits});
}

void NameHasher::write_part(Writer &out, string_view part, Put put) const {
  const bool plain = part.empty() || part == "." || part == ".." || is_known_name(part);
  if (plain || (!kept_.empty() && matches_any_pattern(part, kept_))) return put(out, part);
  const size_t begin = known_begin(part), end = find_ends(part);
  if (begin >= end) return write_hash(out, part, put);
  put(out, slice(part, 0, begin));
  write_hash(out, slice(part, begin, end - begin), put);
  put(out, slice(part, end, part.size() - end));
}

void NameHasher::write_parts(Writer &out, string_view text, Put put) const {
  for (size_t at = 0;;) {
    size_t end = at;
    while (end < text.size() && text[end] != '/') ++end;
    const bool is_last = end == text.size();
    // An escape takes up to six bytes for one.
    if (out.room() < kPartRoom + 6 * (end - at) && !is_last) {
      return write_hash(out, slice(text, at, text.size() - at), put);
    }
    write_part(out, slice(text, at, end - at), put);
    if (is_last) return;
    put(out, "/");
    at = end + 1;
  }
}

void NameHasher::write_path(Writer &out, string_view path, bool exists, Put put) const {
  if (!is_on_ || (exists && is_public(path))) return put(out, path);
  write_parts(out, path, put);
}

void NameHasher::write_mount(Writer &out, string_view path, bool is_of_this_host, Put put) const {
  constexpr string_view kWithoutDevice[] = {"cgroup", "cgroup2",    "devpts", "devtmpfs", "mqueue", "none", "overlay",
                                            "proc",   "securityfs", "shm",    "sysfs",    "tmpfs",  "udev"};
  if (is_one_of(path, kWithoutDevice)) return put(out, path);
  write_path(out, path, is_of_this_host, put);
}

void NameHasher::write_socket_end(Writer &out, string_view end, Put put) const {
  if (end == "*") return put(out, end);
  if (!end.empty() && end[0] == '@') {
    put(out, "@");
    return write_hash(out, end, put);
  }
  write_parts(out, end, put);
}

// The forms are those of format/sockets.cc.
void NameHasher::write_socket(Writer &out, string_view name, Put put) const {
  constexpr string_view kDatagrams = "unix-dgram:", kStream = "unix:", kTo = "->";
  if (starts_with(name, kDatagrams)) {
    size_t to = kDatagrams.size();
    while (to + kTo.size() <= name.size() && slice(name, to, kTo.size()) != kTo) ++to;
    if (to + kTo.size() > name.size()) to = name.size();
    put(out, kDatagrams);
    write_socket_end(out, slice(name, kDatagrams.size(), to - kDatagrams.size()), put);
    if (to == name.size()) return;
    put(out, kTo);
    return write_socket_end(out, slice(name, to + kTo.size(), name.size() - to - kTo.size()), put);
  }
  size_t begin = 0, blank = 0;
  for (string_view protocol : {kStream, string_view("tcp"), string_view("udp"), string_view("sctp")}) {
    if (starts_with(name, protocol)) begin = protocol.size();
  }
  while (blank < name.size() && name[blank] != ' ') ++blank;
  if (begin == 0 || blank < begin || !is_address(slice(name, begin, blank - begin))) return write_parts(out, name, put);
  put(out, slice(name, 0, blank));
  if (blank == name.size()) return;
  put(out, " ");
  write_socket_end(out, slice(name, blank + 1, name.size() - blank - 1), put);
}

void NameHasher::write_file(Writer &out, string_view name, FileType type, Put put) const {
  constexpr string_view kBegins[] = {"mqueue:/", "/memfd:"};
  const bool is_kernels = starts_with(name, "anon_inode:") && type == FileType::kAnonymous;
  if (is_kernels || is_numbered(name, "pipe:[", "]") || is_numbered(name, "socket:[", "]")) return put(out, name);
  if (type == FileType::kSocket && (name.empty() || name[0] != '/')) return write_socket(out, name, put);
  for (string_view begin : kBegins) {
    if (!starts_with(name, begin)) continue;
    put(out, begin);
    return write_parts(out, slice(name, begin.size(), name.size() - begin.size()), put);
  }
  if (type != FileType::kObject) return write_path(out, name, type != FileType::kNone, put);
  // A region's name and category.
  const size_t zero = name.find('\0');
  write_parts(out, slice(name, 0, zero == string_view::npos ? name.size() : zero), put);
  if (zero == string_view::npos) return;
  put(out, {"\0", 1});
  write_parts(out, slice(name, zero + 1, name.size() - zero - 1), put);
}

void NameHasher::write_argument(Writer &out, string_view argument, Put put) const {
  constexpr size_t kLetter = 2;
  if (argument.empty() || argument[0] != '-') return write_parts(out, argument, put);
  const bool is_end = argument == "-" || argument == "--";
  if (is_end || argument.size() == kLetter) return put(out, argument);
  put(out, "-");
  write_hash(out, argument, put);
}

void NameHasher::write_tag_value(Writer &out, string_view key, string_view value, Put put) const {
  constexpr string_view kNumbers[] = {"job", "rank", "try"};
  if (is_one_of(key, kNumbers) && are_digits(value)) return put(out, value);
  const size_t before = out.size();
  write_parts(out, value, put);
  if (out.overflowed() || out.size() - before <= kMaxTagValueBytes) return;
  out.truncate(before);
  write_hash(out, value, put);
}

// False where there is no room.
bool NameHasher::write_each_tag(Writer &out, string_view tags, bool in_parts) const {
  const size_t before = out.size();
  each_part(tags, ',', [&](string_view tag) {
    const size_t equals = tag.find('=');
    if (equals == string_view::npos) return true;
    const string_view key = slice(tag, 0, equals), encoded = slice(tag, equals + 1, tag.size() - equals - 1);
    if (out.size() > before) out << ',';
    out << key << '=';
    char raw[kMaxTagValueBytes];
    Writer value(raw, sizeof raw);
    decode_tag_value(encoded, value);
    if (in_parts && !value.overflowed()) {
      write_tag_value(out, key, value.view(), put_encoded);
    } else {
      write_hash(out, value.overflowed() ? encoded : value.view(), put_encoded);
    }
    return true;
  });
  return !out.overflowed();
}

void NameHasher::write_tags(Writer &out, string_view tags) const {
  if (tags.empty()) return;
  const size_t before = out.size();
  if (write_each_tag(out, tags, true)) return;
  // Each part of a value takes more room than it had. As one hash a value does not.
  out.truncate(before);
  if (!write_each_tag(out, tags, false)) out.truncate(before);
}

}  // namespace tailrace
