// A call during which libc may write to a stream of the program's. It may not come back: argp_parse exits after help.
#pragma once

#include <stdio.h>

#include "session/ledger.h"
#include "session/record.h"

namespace tailrace {

class Writing {
 public:
  // `other` may be written to instead, never both; `input` is read by then, by a call that is recorded.
  Writing(Fn fn, FILE *stream, FILE *other = nullptr, FILE *input = nullptr);
  ~Writing() { finish(); }
  Writing(const Writing &) = delete;
  Writing &operator=(const Writing &) = delete;

  void finish();

 private:
  Fn fn_;
  FILE *streams_[2];
  FILE *input_;
  int64_t waiting_[2];
  int64_t unread_;
  bool buffered_;
  Writing *outer_;
  Thread *thread_;
  LibcCall account_;
};

// hooks/text.cc. What a message that was written down before its call has left in stderr's buffer is counted.
void take_message_in();

// Before the account of the process: what a call that never came back has written.
void finish_interrupted_message();

}  // namespace tailrace
