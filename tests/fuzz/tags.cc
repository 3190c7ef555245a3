// Tags: two sets, divided by a newline, parsed and merged; the canonical form must be a fixed point.
#include "format/tags.h"

#include <memory>
#include <string>

#include "fuzz.h"

using namespace tailrace;
using fuzz::require;

namespace {

// The sanitizer checks the end of an allocation that is as long as the text.
bool parse(const std::string &text, TagSet &tags) {
  size_t fault_at = 0;
  char message[512];
  Writer words(message, sizeof message);
  bool good = parse_tags(text, tags, fault_at, words);
  require(good == (words.size() == 0), "a fault has a sentence, valid tags have none");
  require(fault_at <= text.size(), "a fault is in the text");
  return good;
}

std::string decoded(string_view value) {
  std::string raw(kMaxTagValueBytes, 0);
  Writer w(raw.data(), raw.size());
  decode_tag_value(value, w);
  return std::string(w.view());
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string all(reinterpret_cast<const char *>(data), size);
  size_t middle = all.find('\n');
  std::string first = all.substr(0, middle), second = middle == std::string::npos ? "" : all.substr(middle + 1);
  first.shrink_to_fit();
  second.shrink_to_fit();
  auto a = std::make_unique<TagSet>(), b = std::make_unique<TagSet>(), c = std::make_unique<TagSet>();
  if (parse(first, *a) && parse(second, *b)) {
    std::string once(kMaxTagsBytes + 1, 0), twice(kMaxTagsBytes + 1, 0), json(kMaxTagsBytes * 6 + 16384, 0);
    Writer merged(once.data(), once.size());
    if (merge_tags(*a, *b, merged)) {
      std::string canonical(merged.view());
      require(parse(canonical, *c), "the canonical form parses");
      Writer again(twice.data(), twice.size());
      TagSet none;
      require(merge_tags(*c, none, again) && again.view() == canonical, "the canonical form is its own");
      for (size_t i = 0; i < b->count; ++i) {
        const Tag *tag = c->find(b->tags[i].key);
        require(tag && decoded(tag->value) == decoded(b->tags[i].value), "the second set wins");
      }
      Writer line(json.data(), json.size());
      write_tags_json(*c, line);
      require(!line.overflowed(), "a line's part has a known size");
    }
  }
  std::string encoded(3 * kMaxTagValueBytes + 1, 0);
  Writer value(encoded.data(), encoded.size());
  encode_tag_value(all, value);
  if (value.size() > 0 && !value.overflowed()) {
    require(parse("key=" + std::string(value.view()), *c), "an encoded value is a tag's");
  }
  return 0;
}
