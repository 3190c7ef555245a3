// A call in which libc may write to a stream of the program. It may not return: argp_parse exits after its help.
#pragma once

#include <stdio.h>

#include "session/ledger.h"
#include "session/record.h"

namespace tailrace {

class MessageCall {
 public:
  // libc may write to `other` instead, never to both. `input` is read in the same call, which is recorded separately.
  MessageCall(Fn fn, FILE *stream, FILE *other = nullptr, FILE *input = nullptr);
  ~MessageCall() { finish(); }
  MessageCall(const MessageCall &) = delete;
  MessageCall &operator=(const MessageCall &) = delete;

  void finish();

 private:
  Fn fn_;
  FILE *streams_[2];
  FILE *input_;
  int64_t unflushed_[2];
  int64_t unread_;
  bool buffered_;
  MessageCall *outer_;
  Thread *thread_;
  LibcCall account_;
};

// hooks/error_messages.cc. After a message that was recorded before its call: notes what it has left in stderr's
// buffer.
void resume_after_message();

// Before the account of the process is taken: records what a call that did not return has written.
void finish_interrupted_message();

}  // namespace tailrace
