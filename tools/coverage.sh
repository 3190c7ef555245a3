#!/usr/bin/env bash
# What the C++ unit tests cover of the core and the readers: lines and branches by file.
#   tools/coverage.sh [FURTHER OPTIONS OF gcovr]      --html-details build/coverage/index.html
# For Python: pytest -m fast --cov
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage
cmake -S . -B "$build" -DTAILRACE_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=--coverage >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
cmake --build "$build" --parallel 2 --target tailrace_unit >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
find "$build" -name '*.gcda' -delete
"$build/tests/tailrace_unit" --gtest_brief=1
gcovr --root . --filter 'core/src/' --exclude-unreachable-branches --exclude-throw-branches "$@" "$build"
