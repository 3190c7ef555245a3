// The options of the commands that need no Python, in their usual spellings. None: something is wrong with them, or
// left to the command in cli/ that has them, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"
#include "tag.h"

namespace tailrace::launcher {

// Of cli/run.py.
std::optional<RunOptions> run_options(std::vector<std::string_view> words);
// Of cli/tag.py.
std::optional<TagOptions> tag_options(std::vector<std::string_view> words);

}  // namespace tailrace::launcher
