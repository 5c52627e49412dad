#include "runtime/answer_text.h"

#include <algorithm>
#include <utility>

namespace ingot {

AnswerText::AnswerText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool include_stop)
    : stop_(std::move(stop)), include_stop_(include_stop) {
  if (tokenizer) stream_.emplace(*tokenizer);
}

std::string AnswerText::push(std::int32_t id, bool may_end) {
  if (!stream_ || stopped_) return {};
  if (!may_end || stop_.empty()) return stream_->push(id);
  return release(stream_->push(id));
}

std::string AnswerText::finish() {
  if (!stream_ || stopped_) return {};
  std::string text = release(stream_->finish());
  if (!stopped_) text += std::exchange(held_, {});
  return text;
}

std::string AnswerText::release(std::string fresh) {
  held_ += fresh;
  // The earliest match ends the answer.
  std::size_t match = std::string::npos;
  std::size_t length = 0;
  for (const std::string& s : stop_) {
    const std::size_t at = held_.find(s);
    if (at > match || at == std::string::npos || (at == match && s.size() > length)) continue;
    match = at;
    length = s.size();
  }
  if (match != std::string::npos) {
    stopped_ = true;
    held_.resize(match + (include_stop_ ? length : 0));
    return std::exchange(held_, {});
  }
  std::size_t keep = 0;  // the longest end of the text that begins a stop string
  for (const std::string& s : stop_) {
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n) {
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) keep = n;
    }
  }
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return text;
}

}  // namespace ingot
