// Tags: the rules, the canonical form, and merging two sets (docs/trace-format.md, "Tags").
// The rules are implemented here only; Python calls these functions through tailrace._native.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr size_t kMaxTagsBytes = 8192;
constexpr size_t kMaxTagCount = 64;
constexpr size_t kMaxTagKeyBytes = 64;
constexpr size_t kMaxTagValueBytes = 1024;

// The keys with a column of their own, in the order of the canonical form; any other key is free.
enum FirstClassTag { kWorkflow, kStage, kTask, kJob, kRank, kFirstClassTagCount };
extern const string_view kFirstClassTagNames[kFirstClassTagCount];

struct Tag {
  string_view key;
  string_view value;  // percent-encoded, perhaps more than needed
};

// A parsed set; the views point into the text it was parsed from.
struct TagSet {
  Tag tags[kMaxTagCount];
  size_t count = 0;

  const Tag *find(string_view key) const;
};

// The tag of the application's regions (session/region.h): the path of the innermost one.
constexpr string_view kRegionTag = "region";

// Who wrote the tags: users may give all but kRegionTag, which those of a job and the core's own have where they were
// made in a region. In the core's own, which TAILRACE_TAGS is parsed as, an empty value says that there is no such tag,
// whatever a manager's variables give.
enum class TagsOf { kUser, kJob, kCore };

// Parses key=value,key=value; a value may be percent-encoded more than needed. On a fault returns false, sets
// `fault_at` to its position, and writes one sentence that names the key and the rule to `message`.
bool parse_tags(string_view text, TagSet &out, size_t &fault_at, Writer &message, TagsOf of = TagsOf::kUser);

// Writes the canonical form of `base` with the tags of `over` replaced or added: false when it breaks the size rules.
// A try is one of its own task's: where `over` names another task, that of `base` is left out,
// since the inner task would seem to be tried again where the outer one was.
bool merge_tags(const TagSet &base, const TagSet &over, Writer &out);

// Whether a tag of a canonical form is empty; and the form without such tags, which is what a run has.
bool has_empty_tags(string_view tags);
void write_without_empty_tags(string_view tags, Writer &out);

// Decodes the percent-encoding.
void decode_tag_value(string_view encoded, Writer &out);
// Percent-encodes a raw value; cuts an over-long one, so that values of the environment can't break the rules.
void encode_tag_value(string_view raw, Writer &out);
// Percent-encodes a raw key or value as it is; parse_tags then reports its fault.
void quote_tag_text(string_view raw, Writer &out);

// The context's part of an event line: ,"workflow":"…","tag.key":"…"
void write_tags_json(const TagSet &tags, Writer &out);

}  // namespace tailrace
