// See options.h.
#include "options.h"

#include <utility>

#include "environment.h"
#include "fault.h"
#include "format/choices.h"
#include "format/follow_request.h"
#include "format/tags.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

// The words of a command: options, then the program and its arguments.
class Words {
 public:
  explicit Words(std::vector<std::string_view> words) : words_(std::move(words)) {}

  // Calls take() at each option; false where it takes none of them.
  template <class F>
  bool each_option(F take) {
    while (at_ < words_.size() && words_[at_].size() > 1 && words_[at_][0] == '-') {
      if (words_[at_] == "--") {
        ++at_;
        return true;
      }
      if (!take()) return false;
    }
    return true;
  }

  bool flag(std::string_view letter, std::string_view name) {
    if (words_[at_] != letter && words_[at_] != name) return false;
    ++at_;
    return true;
  }

  // The value of an option at this place: `-o VALUE`, `-oVALUE`, `--output VALUE`, `--output=VALUE`.
  std::optional<std::string_view> value(std::string_view letter, std::string_view name) {
    const std::string_view word = words_[at_];
    if (!letter.empty() && word.size() > letter.size() && starts_with(word, letter))
      return ++at_, word.substr(letter.size());
    if (word.size() > name.size() && starts_with(word, name) && word[name.size()] == '=')
      return ++at_, word.substr(name.size() + 1);
    if ((word != letter && word != name) || at_ + 1 == words_.size()) return std::nullopt;
    at_ += 2;
    return words_[at_ - 1];
  }

  // `-t KEY=VALUE` or `--tag KEY=VALUE`. None: there is no such option here; false: its value is for cli/.
  std::optional<bool> tag() {
    const auto given = value("-t", "--tag");
    if (!given) return std::nullopt;
    const size_t equals = given->find('=');
    return equals != std::string_view::npos && add_tag(given->substr(0, equals), given->substr(equals + 1));
  }

  // The last one counts for a repeated key.
  bool add_tag(std::string_view key, std::string_view text) {
    if (!is_utf8(key) || !is_utf8(text)) return false;
    for (auto &tag : tags_) {
      if (tag.first == key) {
        tag.second = text;
        return true;
      }
    }
    tags_.emplace_back(key, text);
    return true;
  }

  std::optional<std::string> canonical_tags() const {
    std::string joined;
    for (const auto &[key, text] : tags_) {
      std::vector<char> room(3 * (key.size() + text.size()) + 2);
      Writer w(room.data(), room.size());
      quote_tag_text(key, w);
      w << '=';
      quote_tag_text(text, w);
      (joined += joined.empty() ? "" : ",") += w.view();
    }
    try {
      return merge_tags("", joined);
    } catch (const Fault &) {
      return std::nullopt;
    }
  }

  std::optional<std::vector<std::string>> command() const {
    std::vector<std::string> out(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    if (out.empty() || out[0] == "-") return std::nullopt;
    return out;
  }

 private:
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::vector<std::pair<std::string_view, std::string_view>> tags_;
};

// Fills in what is behind the options.
template <class Options>
std::optional<Options> with_command(const Words &words, Options options) {
  auto command = words.command();
  auto tags = words.canonical_tags();
  if (!command || !tags) return std::nullopt;
  options.command = std::move(*command);
  options.tags = std::move(*tags);
  return options;
}

}  // namespace

std::optional<RunOptions> run_options(std::vector<std::string_view> all) {
  Words words(std::move(all));
  RunOptions options;
  const bool taken = words.each_option([&] {
    if (words.flag("-q", "--quiet")) return options.quiet = true;
    if (const auto output = words.value("-o", "--output")) {
      options.output = std::string(*output);
      // Python refuses a path that is no UTF-8, and knows whose home "~" is.
      return !output->empty() && (*output)[0] != '~' && is_utf8(*output);
    }
    if (const auto detail = words.value("", "--detail")) {
      Detail parsed;
      options.detail = std::string(*detail);
      return parse_detail(*detail, parsed);
    }
    if (const auto unseen = words.value("", "--unseen")) {
      options.unseen = std::string(*unseen);
      return is_unseen_choice(*unseen);
    }
    if (const auto follow = words.value("", "--follow")) {
      (options.follow += options.follow.empty() ? "" : ":") += *follow;
      return !follow->empty() && is_utf8(*follow);
    }
    return words.tag().value_or(false);
  });
  return taken ? with_command(words, std::move(options)) : std::nullopt;
}

std::optional<TagOptions> tag_options(std::vector<std::string_view> all) {
  constexpr std::string_view kKeys[] = {"workflow", "stage", "task", "try", "job", "rank"};
  Words words(std::move(all));
  // They win over --tag of the same key.
  std::vector<std::pair<std::string_view, std::string_view>> named;
  const bool taken = words.each_option([&] {
    for (const std::string_view key : kKeys) {
      if (const auto given = words.value("", "--" + std::string(key))) {
        named.emplace_back(key, *given);
        return true;
      }
    }
    return words.tag().value_or(false);
  });
  for (const auto &[key, text] : named) {
    if (!words.add_tag(key, text)) return std::nullopt;
  }
  return taken ? with_command(words, TagOptions{}) : std::nullopt;
}

}  // namespace tailrace::launcher
