// See format/managers.h.
#include "format/managers.h"

#include "format/job_ad.h"

namespace tailrace {
namespace {

constexpr string_view kKeys[kManagedTagCount] = {"workflow", "stage", "task", "try", "job", "rank"};

enum class Use : uint8_t { kMark, kWorkersMark, kValue, kPathEnd, kFromOne, kJobAd, kWorldSize };

constexpr bool is_mark(Use use) { return use <= Use::kWorkersMark; }

// Text inside of the row: a pointer would be a relocation at each process's start.
struct Row {
  Use use;
  ManagedTag tag;
  char before[2];
  char variable[24];
  char nothing[12];
};

constexpr Row kRows[] = {
#define try try_
#define MANAGER(name, mark) {Use::kMark, ManagedTag::workflow, "", mark, ""},
#define WORKER(name, mark) {Use::kWorkersMark, ManagedTag::workflow, "", mark, ""},
#define VARIABLE(tag, before, variable, nothing) {Use::kValue, ManagedTag::tag, before, variable, nothing},
#define PATH_END(tag, variable) {Use::kPathEnd, ManagedTag::tag, "", variable, ""},
#define FROM_ONE(tag, variable) {Use::kFromOne, ManagedTag::tag, "", variable, ""},
#define JOB_AD(tag, before, attribute) {Use::kJobAd, ManagedTag::tag, before, attribute, ""},
#define WORLD_SIZE(variable) {Use::kWorldSize, ManagedTag::rank, "", variable, ""},
#include "format/managers.def"
#undef MANAGER
#undef WORKER
#undef VARIABLE
#undef PATH_END
#undef FROM_ONE
#undef JOB_AD
#undef WORLD_SIZE
#undef try
};
constexpr size_t kRowCount = sizeof kRows / sizeof kRows[0];

struct JobAdRows {
  size_t mark = 0, count = 0;  // of the one manager that has such rows
};

constexpr JobAdRows job_ad_rows() {
  JobAdRows found;
  size_t mark = 0;
  for (size_t i = 0; i < kRowCount; ++i) {
    if (is_mark(kRows[i].use)) mark = i;
    if (kRows[i].use != Use::kJobAd) continue;
    found.mark = mark;
    ++found.count;
  }
  return found;
}
constexpr JobAdRows kJobAdRows = job_ad_rows();

// The value where `entry` is "<name>=<value>", not empty; else null.
const char *value_in(const char *entry, const char *name) {
  for (; *name; ++entry, ++name) {
    if (*entry != *name) return nullptr;
  }
  return *entry == '=' && entry[1] ? entry + 1 : nullptr;
}

// The last two names of a path, as ".../ab/cdef" has "ab/cdef".
string_view path_end(string_view path) {
  while (path.size() > 1 && path[path.size() - 1] == '/') path = slice(path, 0, path.size() - 1);
  size_t at = path.size();
  for (int slashes = 0; at > 0; --at) {
    if (path[at - 1] == '/' && ++slashes == 2) break;
  }
  return slice(path, at, path.size() - at);
}

struct Found {
  const char *values[kRowCount] = {};
  // For each key the manager, as the index of its mark, that gives it; kRowCount: none.
  size_t giver[kManagedTagCount];
  JobAdAttribute ad[kJobAdRows.count];
  int64_t bytes_read = 0;

  explicit Found(char *const *environment) {
    for (char *const *e = environment; e && *e; ++e) {
      for (size_t i = 0; i < kRowCount; ++i) {
        if (kRows[i].use == Use::kJobAd || values[i] || (*e)[0] != kRows[i].variable[0]) continue;
        values[i] = value_in(*e, kRows[i].variable);
      }
    }
    read_ad();
    for (size_t &g : giver) g = kRowCount;
    size_t mark = 0;
    for (size_t i = 0; i < kRowCount; ++i) {
      if (is_mark(kRows[i].use)) mark = i;
      auto key = static_cast<size_t>(kRows[i].tag);
      if (is_mark(kRows[i].use) || !values[mark] || !has(i) || giver[key] != kRowCount) continue;
      giver[key] = mark;
    }
    const size_t task = giver[static_cast<size_t>(ManagedTag::task)];
    for (size_t key = 0; key < kTagsOfATask; ++key) giver[key] = gives(task, key) ? task : kRowCount;
  }

  void read_ad() {
    if (!values[kJobAdRows.mark]) return;
    size_t used = 0;
    for (const Row &row : kRows) {
      if (row.use == Use::kJobAd) ad[used++].name = row.variable;
    }
    bytes_read = read_job_ad(values[kJobAdRows.mark], ad, used);
    used = 0;
    for (size_t i = 0; i < kRowCount; ++i) {
      if (kRows[i].use != Use::kJobAd) continue;
      if (ad[used].value[0]) values[i] = ad[used].value;
      ++used;
    }
  }

  // Whether the row gives a part of its tag.
  bool has(size_t row) const {
    return kRows[row].use != Use::kWorldSize && values[row] && string_view(values[row]) != kRows[row].nothing;
  }

  // The first number of ranks among the variables of the manager that gives the rank; 0: none.
  uint32_t world_size() const {
    const size_t mark = giver[static_cast<size_t>(ManagedTag::rank)];
    for (size_t i = mark + 1; i < kRowCount && !is_mark(kRows[i].use); ++i) {
      if (kRows[i].use != Use::kWorldSize || !values[i]) continue;
      uint64_t number = 0;
      string_view rest = values[i];
      if (take_decimal(rest, number) && rest.empty() && number <= UINT32_MAX) return static_cast<uint32_t>(number);
    }
    return 0;
  }

  bool gives(size_t mark, size_t key) const {
    for (size_t i = mark + 1; i < kRowCount && !is_mark(kRows[i].use); ++i) {
      if (static_cast<size_t>(kRows[i].tag) == key && has(i)) return true;
    }
    return false;
  }

  void write_value(size_t key, Writer &out) const {
    char raw[kMaxTagValueBytes];
    Writer value(raw, sizeof raw);
    for (size_t i = giver[key] + 1; i < kRowCount && !is_mark(kRows[i].use); ++i) {
      if (static_cast<size_t>(kRows[i].tag) != key || !has(i)) continue;
      if (value.size()) value << kRows[i].before;
      string_view text(values[i]);
      if (kRows[i].use == Use::kPathEnd) text = path_end(text);
      if (kRows[i].use == Use::kFromOne) {
        uint64_t number = 0;
        if (string_view rest = text; take_decimal(rest, number) && rest.size() == 0 && number > 0) {
          value.number(static_cast<int64_t>(number - 1));
          continue;
        }
      }
      value << slice(text, 0, text.size() < sizeof raw ? text.size() : sizeof raw);
    }
    encode_tag_value(value.view(), out);
  }
};

bool is_of_a_task(string_view key) {
  for (size_t i = 0; i < kTagsOfATask; ++i) {
    if (key == kKeys[i]) return true;
  }
  return false;
}

void parse_or_clear(string_view text, TagSet &out) {
  char words[256];
  Writer message(words, sizeof words);
  size_t at;
  if (!parse_tags(text, out, at, message, TagsOf::kCore)) out.count = 0;
}

template <class F>
void keep_where(TagSet &set, F wanted) {
  size_t kept = 0;
  for (size_t i = 0; i < set.count; ++i) {
    if (wanted(set.tags[i])) set.tags[kept++] = set.tags[i];
  }
  set.count = kept;
}

}  // namespace

FoundTags find_managed_tags(char *const *environment, Writer &out) {
  const Found found(environment);
  for (size_t key = 0; key < kManagedTagCount; ++key) {
    if (found.giver[key] == kRowCount) continue;
    const size_t before = out.size();
    if (before) out << ',';
    out << kKeys[key] << '=';
    const size_t value = out.size();
    found.write_value(key, out);
    // Too long together, or nothing of it was text.
    if (out.overflowed() || out.size() == value) out.truncate(before);
  }
  return {found.world_size(), found.bytes_read};
}

bool is_workers_variable(string_view name) {
  bool workers = false;
  for (const Row &row : kRows) {
    if (is_mark(row.use)) workers = row.use == Use::kWorkersMark;
    if (workers && name == string_view(row.variable)) return true;
  }
  return false;
}

ProcessTags tags_of_process(string_view given, string_view inherited, string_view found, TagsOfProcess &work) {
  TagSet &own = work.own, &old = work.old, &now = work.now;
  parse_or_clear(given, own);
  parse_or_clear(inherited, old);
  parse_or_clear(found, now);
  keep_where(own, [&](const Tag &tag) {
    const Tag *same = old.find(tag.key);
    return !same || same->value != tag.value;
  });
  // A try is one of its own task's. Not left to merge_tags: what gives way is not the manager's for a child, either.
  const bool has_task = now.find("task") != nullptr, other_task = own.find("task") != nullptr;
  const auto gives_way = [&](const Tag &tag) { return own.find(tag.key) || (other_task && tag.key == "try"); };
  keep_where(old, [&](const Tag &tag) { return !gives_way(tag) && !(has_task && is_of_a_task(tag.key)); });
  keep_where(now, [&](const Tag &tag) { return !gives_way(tag); });
  Writer managed(work.managed, sizeof work.managed), all(work.all, sizeof work.all);
  if (!tailrace::merge_tags(old, now, managed)) managed.truncate(0);
  parse_or_clear(managed.view(), work.both);
  if (!tailrace::merge_tags(work.both, own, all)) {
    managed.truncate(0);
    all.truncate(0);
    if (!tailrace::merge_tags({}, own, all)) all.truncate(0);
  }
  return {all.view(), managed.view()};
}

}  // namespace tailrace
