// See session/function_calls.h.
#include "session/function_calls.h"

#include <algorithm>

#include "base/own_memory.h"
#include "base/sys.h"
#include "session/proc_self.h"
#include "session/record.h"

extern "C" void *__libc_stack_end;

namespace tailrace {

__thread uintptr_t t_innermost_frame = kNoFrame;
uint64_t g_function_minimum_ticks;

namespace {

constexpr uint64_t kDefaultMinimumUs = 100;

struct FunctionCall {
  NativeFunction *function;  // null: its begin was interrupted
  CallPlace place;
  Region region;
  RecordMark records;
};

struct FunctionCalls {
  uintptr_t stack_begin, stack_end;
  uint32_t count;
  uint32_t beyond;  // calls that are open and have no place
  FunctionCall calls[kMostFunctionCalls];
};
__thread FunctionCalls *t_calls;

std::atomic<uint64_t> g_unrecorded[static_cast<size_t>(Unrecorded::kCount)];
constexpr const char *kUnrecordedNames[] = {"calls of functions: too deep", "calls of functions: on another stack",
                                            "calls of functions: too many functions"};

void order_for_handlers() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The range of memory around an address.
bool find_mapping(uintptr_t address, uintptr_t &begin, uintptr_t &end) {
  bool is_found = false;
  each_mapping([&](uintptr_t first, uintptr_t last) {
    is_found = address >= first && address < last;
    begin = first;
    end = last;
    return !is_found;
  });
  return is_found;
}

// The stack that the thread began with. The first one grows downwards, up to its limit, and over at least 128 MiB the
// kernel places nothing below it; libc puts a thread's descriptor at the end of any other.
void find_stack(FunctionCalls &calls, uintptr_t frame) {
  constexpr uint64_t kLeast = 128ULL << 20, kMost = 64ULL << 30;
  const auto first_end = reinterpret_cast<uintptr_t>(__libc_stack_end) | 4095;
  uint64_t limit[2] = {kLeast, kLeast};
  constexpr long kStack = 3;
  sys::call(SYS_prlimit64, 0, kStack, 0, sys::pointer(limit));
  const uint64_t bytes = std::clamp(limit[0], kLeast, kMost);
  calls.stack_begin = calls.stack_end = 0;
  if (frame <= first_end && first_end - frame < bytes) {
    calls.stack_begin = first_end - bytes;
    calls.stack_end = first_end;
    return;
  }
  const auto descriptor = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  uintptr_t begin = 0, end = 0;
  if (!find_mapping(descriptor, begin, end)) return;
  calls.stack_begin = begin;
  calls.stack_end = end;
}

FunctionCalls *make_calls(uintptr_t frame) {
  auto *calls = static_cast<FunctionCalls *>(own_memory::pages(sizeof(FunctionCalls)));
  if (!calls) return nullptr;
  find_stack(*calls, frame);
  t_calls = calls;
  return calls;
}

bool is_on_stack(const FunctionCalls &calls, uintptr_t frame) {
  return frame >= calls.stack_begin && frame < calls.stack_end;
}

void leave_out(const NativeFunction &function) {
  const string_view both = function.definition->both();
  record_instant(define_region(slice(both, 0, both.find('\0')), "left out"), {});
}

// The region's end, unless the call was short and recorded nothing.
void end_region_of(FunctionCall &call) {
  NativeFunction &function = *call.function;
  const Thread *t = enter();
  const bool is_ours = t && call.region.pid == g_session.pid;
  const bool is_short =
      is_ours && is_unchanged(t, call.records) && now_ticks() - call.region.t0 < g_function_minimum_ticks;
  // What the program has begun in it and not ended, or a context that it has chosen, stays.
  Context *const context = t_context;
  const uint64_t region = t_region;
  const bool is_innermost = region == call.region.id && context == call.region.own;
  if (!is_short || !drop_region(call.region)) end_region(call.region, {}, false);
  if (!is_innermost && is_ours) {
    t_context = context;
    t_region = region;
  }
  const uint32_t running = function.running.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (!is_ours) return;
  if (!is_short) {
    if (function.short_calls.load(std::memory_order_relaxed)) function.short_calls.store(0, std::memory_order_relaxed);
    return;
  }
  const uint32_t short_calls = function.short_calls.load(std::memory_order_relaxed) + 1;
  function.short_calls.store(short_calls, std::memory_order_relaxed);
  if (short_calls >= kShortCalls && !running && !function.is_left_out.exchange(true)) leave_out(function);
}

void end_last(FunctionCalls &calls) {
  FunctionCall &call = calls.calls[calls.count - 1];
  if (call.function) end_region_of(call);
  call.function = nullptr;
  order_for_handlers();
  --calls.count;
  t_innermost_frame = calls.count ? calls.calls[calls.count - 1].place.frame : kNoFrame;
}

void leave_calls(FunctionCalls &calls, uintptr_t frame) {
  while (calls.count && calls.calls[calls.count - 1].place.frame < frame) {
    calls.beyond = 0;
    end_last(calls);
  }
}

// An inlined function has the frame of the function around it, so several open calls may have one frame. Of these a
// call is over, without having told of its end, if it began at this same place, which can't be open twice; if its
// caller is another one; or, where this function isn't inlined, if it is another function's.
void leave_calls_of_frame(FunctionCalls &calls, const NativeFunction &function, const CallPlace &place) {
  const bool is_inlined = !function.bytes || place.pc - function.address >= function.bytes;
  uint32_t kept = calls.count;
  for (uint32_t i = calls.count; i > 0 && calls.calls[i - 1].place.frame == place.frame; --i) {
    const FunctionCall &call = calls.calls[i - 1];
    const bool is_left =
        call.place.pc == place.pc || call.place.site != place.site || (!is_inlined && call.function != &function);
    if (is_left) kept = i - 1;
  }
  while (calls.count > kept) end_last(calls);
}

}  // namespace

uint64_t function_minimum_ticks() {
  string_view text = g_session.environment[Setting::TAILRACE_FUNCTION_MINIMUM];
  uint64_t us;
  if (!take_decimal(text, us) || !text.empty()) us = kDefaultMinimumUs;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(us * 1000) << 32) / g_session.reference_rate_q32);
}

void count_unrecorded_call(Unrecorded why) {
  const auto i = static_cast<size_t>(why);
  const uint64_t count = g_unrecorded[i].fetch_add(1, std::memory_order_relaxed) + 1;
  // The first one, and at each doubling.
  if (count & (count - 1)) return;
  record_counter(define_region(kUnrecordedNames[i], "left out"), static_cast<double>(count));
}

void begin_function_call(NativeFunction &function, const CallPlace &place) {
  FunctionCalls *calls = t_calls ? t_calls : make_calls(place.frame);
  if (!calls) return;
  if (!is_on_stack(*calls, place.frame)) return count_unrecorded_call(Unrecorded::kOtherStack);
  leave_calls(*calls, place.frame);
  leave_calls_of_frame(*calls, function, place);
  if (calls->count == kMostFunctionCalls) {
    ++calls->beyond;
    return count_unrecorded_call(Unrecorded::kTooDeep);
  }
  FunctionCall &call = calls->calls[calls->count];
  ++calls->count;
  order_for_handlers();
  call.place = place;
  t_innermost_frame = place.frame;
  begin_region(call.region, function.definition, {});
  if (const Thread *t = enter()) call.records = mark_records(t);
  function.running.fetch_add(1, std::memory_order_relaxed);
  order_for_handlers();
  call.function = &function;
}

void end_function_call(uintptr_t function, const CallPlace &place, bool (*is_chosen)(uintptr_t)) {
  FunctionCalls *calls = t_calls;
  if (!calls || !calls->count || !is_on_stack(*calls, place.frame)) return;
  if (__builtin_expect(calls->beyond > 0, 0)) {
    if (is_chosen(function)) --calls->beyond;
    return;
  }
  while (calls->count) {
    const FunctionCall &last = calls->calls[calls->count - 1];
    const bool is_it = last.function && last.function->address == function && last.place.site == place.site;
    if (!is_it && last.place.frame >= place.frame) return;
    end_last(*calls);
    if (is_it) return;
  }
}

void leave_functions(uintptr_t frame) {
  if (FunctionCalls *calls = t_calls) {
    if (is_on_stack(*calls, frame)) leave_calls(*calls, frame);
  }
}

void release_function_calls() {
  FunctionCalls *calls = t_calls;
  if (!calls) return;
  while (calls->count) end_last(*calls);
  t_calls = nullptr;
  own_memory::release(calls, sizeof *calls);
}

}  // namespace tailrace
