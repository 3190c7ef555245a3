// What is wrong with the TAILRACE_... variables of this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tailrace::launcher {

// "TAILRACE_DETAIL is 'ful': give full, totals, ..."; the first setting with a value that it can't have.
std::optional<std::string> bad_setting();
// "there is no setting TAILRACE_DETAI: is TAILRACE_DETAIL meant?", for names that are like a setting's. Other names are
// other programs' (TAILRACE_FLUX).
std::vector<std::string> mistyped_settings();

}  // namespace tailrace::launcher
