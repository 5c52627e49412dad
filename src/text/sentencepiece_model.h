#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

enum class PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// What encoding needs of a SentencePiece ModelProto, with the defaults of
// sentencepiece_model.proto.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  int model_type = 1;  // 1 Unigram, 2 BPE, 3 word, 4 char
  bool whitespace_suffix = false;
  bool byte_fallback = false;
  std::int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string unk_surface = " \xe2\x81\x87 ";
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Reads the protobuf wire format with limits; throws Error{kBadInput}.
SentencePieceModel parse_sentencepiece(std::string_view bytes);

}  // namespace ingot
