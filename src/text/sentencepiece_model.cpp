#include "text/sentencepiece_model.h"

#include "text/image.h"

#include <cstring>
#include <optional>

namespace ingot {
namespace {

[[noreturn]] void broken(std::string_view what) {
  fail(ErrorCode::kBadInput, "[sentencepiece] the model file is broken: {}", what);
}

struct Field {
  std::uint32_t number = 0;
  int wire = 0;             // 0 varint, 1 64 bits, 2 bytes, 5 32 bits
  std::uint64_t value = 0;  // of wire types 0, 1, 5
  std::string_view bytes;   // of wire type 2
};

// Steps over the fields of one message.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field;
    field.wire = static_cast<int>(key & 7);
    if ((key >> 3) == 0 || (key >> 3) > 0x1fffffff) broken("a field number");
    field.number = static_cast<std::uint32_t>(key >> 3);
    switch (field.wire) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 2: {
        const std::uint64_t size = varint();
        if (size > rest_.size()) broken("a field longer than its message");
        field.bytes = rest_.substr(0, static_cast<std::size_t>(size));
        rest_.remove_prefix(static_cast<std::size_t>(size));
        break;
      }
      case 5:
        field.value = fixed(4);
        break;
      default:
        broken("a wire type");
    }
    return field;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) broken("a number cut short");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    broken("a number over 64 bits");
  }

  std::uint64_t fixed(std::size_t size) {
    if (rest_.size() < size) broken("a number cut short");
    std::uint64_t value = 0;
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
};

void need(const Field& field, int wire) {
  if (field.wire != wire) broken("a field of the wrong wire type");
}

SentencePiece read_piece(std::string_view bytes) {
  SentencePiece piece;
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->number == 1) {
      need(*field, 2);
      piece.text = std::string(field->bytes);
    } else if (field->number == 2) {
      need(*field, 5);
      const auto bits = static_cast<std::uint32_t>(field->value);
      std::memcpy(&piece.score, &bits, 4);
      if (!(piece.score > -1e30f && piece.score < 1e30f)) broken("a score");
    } else if (field->number == 3) {
      need(*field, 0);
      if (field->value < 1 || field->value > 6) broken("a piece type");
      piece.type = static_cast<PieceType>(field->value);
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, SentencePieceModel& model) {
  Message message(bytes);
  const auto id = [](const Field& field) {
    need(field, 0);
    return static_cast<std::int32_t>(field.value);
  };
  while (const auto field = message.next()) {
    switch (field->number) {
      case 3:
        need(*field, 0);
        model.model_type = static_cast<int>(field->value & 0xff);
        break;
      case 24:
        need(*field, 0);
        model.whitespace_suffix = field->value != 0;
        break;
      case 35:
        need(*field, 0);
        model.byte_fallback = field->value != 0;
        break;
      case 40:
        model.unk_id = id(*field);
        break;
      case 41:
        model.bos_id = id(*field);
        break;
      case 42:
        model.eos_id = id(*field);
        break;
      case 43:
        model.pad_id = id(*field);
        break;
      case 44:
        need(*field, 2);
        model.unk_surface = std::string(field->bytes.substr(0, 64));
        break;
      default:
        break;
    }
  }
}

void read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  Message message(bytes);
  const auto flag = [](const Field& field) {
    need(field, 0);
    return field.value != 0;
  };
  while (const auto field = message.next()) {
    if (field->number == 2) {
      need(*field, 2);
      model.charsmap = std::string(field->bytes);
    } else if (field->number == 3) {
      model.add_dummy_prefix = flag(*field);
    } else if (field->number == 4) {
      model.remove_extra_whitespaces = flag(*field);
    } else if (field->number == 5) {
      model.escape_whitespaces = flag(*field);
    }
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->number > 3) continue;
    need(*field, 2);
    if (field->number == 1) {
      if (model.pieces.size() >= kMaxTokens) broken("too many pieces");
      model.pieces.push_back(read_piece(field->bytes));
    } else if (field->number == 2) {
      read_trainer(field->bytes, model);
    } else {
      read_normalizer(field->bytes, model);
    }
  }
  if (model.pieces.empty()) broken("no pieces");
  return model;
}

}  // namespace ingot
