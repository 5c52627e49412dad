#include "runtime/answer_text.h"

#include <algorithm>
#include <utility>

namespace ingot {

AnswerText::AnswerText(const Tokenizer* tokenizer, std::vector<std::string> stop)
    : stop_(std::move(stop)) {
  if (tokenizer) stream_.emplace(*tokenizer);
}

std::string AnswerText::push(std::int32_t id, bool may_end) {
  if (!stream_ || stopped_) return {};
  if (!may_end) return stream_->push(id);
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
  // The earliest match ends the answer; of those that begin at the same place any gives the same
  // text.
  std::size_t match = std::string::npos;
  for (const std::string& s : stop_) match = std::min(match, held_.find(s));
  if (match != std::string::npos) {
    stopped_ = true;
    held_.resize(match);
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
