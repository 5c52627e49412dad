#include "base/json_reason.h"

#include <string_view>

namespace ingot {

std::string json_reason(const std::exception& exception) {
  const std::string_view text = exception.what();  // "[json.exception.parse_error.101] parse ..."
  const std::size_t end = text.find("] ");
  return std::string(text.starts_with("[json.exception") && end != text.npos ? text.substr(end + 2)
                                                                             : text);
}

}  // namespace ingot
