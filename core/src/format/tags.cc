// See format/tags.h.
#include "format/tags.h"

namespace tailrace {

constexpr string_view kFirstClassTagNames[kFirstClassTagCount] = {"workflow", "stage", "task", "job", "rank"};

namespace {

bool is_plain(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '/' || c == '@' || c == '+' || c == '-';
}

bool is_key_char(char c, bool first) {
  if (c >= 'a' && c <= 'z') return true;
  return !first && ((c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-');
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The rule that `key` breaks, or null.
const char *key_fault(string_view key, TagsOf of) {
  if (key.empty()) return "is empty: write key=value";
  if (key.size() > kMaxTagKeyBytes) return "is longer than 64 bytes";
  for (size_t i = 0; i < key.size(); ++i) {
    if (!is_key_char(key[i], i == 0)) return "is not [a-z][a-z0-9_.-]*";
  }
  return of == TagsOf::kUser && key == kRegionTag ? "is set by the application's own annotations" : nullptr;
}

// The rule that the encoded `value` breaks, or null.
const char *value_fault(string_view value) {
  if (value.empty()) return "is empty";
  char raw[kMaxTagValueBytes];
  size_t n = 0;
  for (size_t i = 0; i < value.size();) {
    if (n == sizeof raw) return "is longer than 1024 bytes";
    if (value[i] == '%') {
      if (i + 2 >= value.size() || hex_digit(value[i + 1]) < 0 || hex_digit(value[i + 2]) < 0) {
        return "has a % that is not followed by two hex digits";
      }
      raw[n++] = static_cast<char>(hex_digit(value[i + 1]) * 16 + hex_digit(value[i + 2]));
      i += 3;
    } else {
      if (!is_plain(value[i])) return "has a character that must be percent-encoded";
      raw[n++] = value[i++];
    }
  }
  string_view text(raw, n);
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "has a control character";
  }
  return is_utf8(text) ? nullptr : "is not UTF-8";
}

int first_class_index(string_view key) {
  for (int i = 0; i < kFirstClassTagCount; ++i) {
    if (kFirstClassTagNames[i] == key) return i;
  }
  return -1;
}

bool comes_before(string_view a, string_view b) {
  int ia = first_class_index(a), ib = first_class_index(b);
  if (ia >= 0 || ib >= 0) return ib < 0 || (ia >= 0 && ia < ib);
  return a < b;
}

void write_canonical_value(string_view encoded, Writer &out) {
  if (encoded.find('%') == string_view::npos) {
    out << encoded;
    return;
  }
  char raw[kMaxTagValueBytes];
  Writer value(raw, sizeof raw);
  decode_tag_value(encoded, value);
  quote_tag_text(value.view(), out);
}

bool same_value(string_view a, string_view b) {
  size_t i = 0, k = 0;
  const auto next = [](string_view text, size_t &at) {
    char c = text[at];
    if (c == '%') c = static_cast<char>(hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]));
    at += text[at] == '%' ? 3 : 1;
    return c;
  };
  while (i < a.size() && k < b.size()) {
    if (next(a, i) != next(b, k)) return false;
  }
  return i == a.size() && k == b.size();
}

// Whether `over` names a task that isn't that of `base`.
bool names_another_task(const TagSet &base, const TagSet &over) {
  const Tag *own = over.find("task"), *before = base.find("task");
  return own && !(before && same_value(own->value, before->value));
}

}  // namespace

const Tag *TagSet::find(string_view key) const {
  for (size_t i = 0; i < count; ++i) {
    if (tags[i].key == key) return &tags[i];
  }
  return nullptr;
}

bool parse_tags(string_view text, TagSet &out, size_t &fault_at, Writer &message, TagsOf of) {
  out.count = 0;
  fault_at = 0;
  if (text.empty()) return true;
  if (text.size() > kMaxTagsBytes) {
    message << "the tags are longer than 8192 bytes";
    return false;
  }
  for (size_t i = 0; i <= text.size();) {
    size_t end = i;
    while (end < text.size() && text[end] != ',') ++end;
    string_view pair = slice(text, i, end - i);
    size_t eq = pair.find('=');
    string_view key = slice(pair, 0, eq == string_view::npos ? pair.size() : eq);
    fault_at = i;
    const char *fault = eq == string_view::npos ? "has no '=': write key=value" : key_fault(key, of);
    const char *part = "key";
    if (!fault) {
      string_view value = slice(pair, eq + 1, pair.size() - eq - 1);
      fault = value.empty() && of == TagsOf::kCore ? nullptr : value_fault(value);
      part = "value";
      if (!fault && out.find(key)) fault = "is given twice", part = "key";
      if (!fault && out.count == kMaxTagCount) fault = "is one too many: at most 64 tags", part = "key";
      if (!fault) out.tags[out.count++] = {key, value};
    }
    if (fault) {
      message << "tag ";
      message.json(key) << ": the " << part << ' ' << fault;
      return false;
    }
    i = end + 1;
  }
  return true;
}

bool merge_tags(const TagSet &base, const TagSet &over, Writer &out) {
  Tag all[2 * kMaxTagCount];
  size_t n = 0;
  const bool other_task = names_another_task(base, over);
  for (size_t i = 0; i < base.count; ++i) {
    const string_view key = base.tags[i].key;
    if (!over.find(key) && !(other_task && key == "try")) all[n++] = base.tags[i];
  }
  for (size_t i = 0; i < over.count; ++i) all[n++] = over.tags[i];
  for (size_t i = 1; i < n; ++i) {
    for (size_t k = i; k > 0 && comes_before(all[k].key, all[k - 1].key); --k) {
      Tag t = all[k];
      all[k] = all[k - 1];
      all[k - 1] = t;
    }
  }
  size_t start = out.size();
  for (size_t i = 0; i < n; ++i) {
    if (i) out << ',';
    out << all[i].key << '=';
    write_canonical_value(all[i].value, out);
  }
  return n <= kMaxTagCount && !out.overflowed() && out.size() - start <= kMaxTagsBytes;
}

static bool ends_empty(string_view tags, size_t end) { return end > 0 && tags[end - 1] == '='; }

bool has_empty_tags(string_view tags) {
  for (size_t i = 0; i < tags.size(); ++i) {
    if (tags[i] == ',' && ends_empty(tags, i)) return true;
  }
  return ends_empty(tags, tags.size());
}

void write_without_empty_tags(string_view tags, Writer &out) {
  const size_t start = out.size();
  for (size_t i = 0; i < tags.size();) {
    size_t end = i;
    while (end < tags.size() && tags[end] != ',') ++end;
    if (!ends_empty(tags, end)) {
      if (out.size() > start) out << ',';
      out << slice(tags, i, end - i);
    }
    i = end + 1;
  }
}

void decode_tag_value(string_view encoded, Writer &out) {
  for (size_t i = 0; i < encoded.size();) {
    if (encoded[i] == '%' && i + 2 < encoded.size()) {
      out << static_cast<char>(hex_digit(encoded[i + 1]) * 16 + hex_digit(encoded[i + 2]));
      i += 3;
    } else {
      out << encoded[i++];
    }
  }
}

void quote_tag_text(string_view raw, Writer &out) {
  for (char c : raw) {
    if (is_plain(c)) {
      out << c;
    } else {
      auto byte = static_cast<unsigned char>(c);
      char hex[3] = {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
      out << string_view(hex, 3);
    }
  }
}

void encode_tag_value(string_view raw, Writer &out) {
  size_t written = 0;
  for (size_t i = 0; i < raw.size();) {
    unsigned n = utf8_sequence(raw, i);
    auto c = static_cast<unsigned char>(raw[i]);
    if (n == 0 || c < 0x20 || c == 0x7F) {
      ++i;
      continue;
    }
    if (written + n > kMaxTagValueBytes) return;
    quote_tag_text(slice(raw, i, n), out);
    written += n;
    i += n;
  }
}

void write_tags_json(const TagSet &tags, Writer &out) {
  for (size_t i = 0; i < tags.count; ++i) {
    char raw[kMaxTagValueBytes];
    Writer value(raw, sizeof raw);
    decode_tag_value(tags.tags[i].value, value);
    const bool own = first_class_index(tags.tags[i].key) >= 0 || tags.tags[i].key == kRegionTag;
    out << (own ? ",\"" : ",\"tag.") << tags.tags[i].key << "\":";
    out.json(value.view());
  }
}

}  // namespace tailrace
