"""One component a file. The model is a BPE with ignore_merges and no merges whose vocabulary holds each piece that the
component makes of the texts: a piece cut or normalised wrongly is not in it and falls apart into <unk>."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tokenizer_files import FOLDER, decoded_rows, dump_lines, freeze
from tokenizer_texts import GPT2, TEXTS

N, P = normalizers, pre_tokenizers
BEHAVIOURS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]

NORMALIZERS = {
    "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lowercase": N.Lowercase(), "nmt": N.Nmt(),
    "strip_left": N.Strip(left=True, right=False), "strip_right": N.Strip(left=False, right=True), "strip_both": N.Strip(),
    "strip_accents": N.StripAccents(), "strip_accents_nfd": N.Sequence([N.NFD(), N.StripAccents()]),
    "replace_string": N.Replace("the", "THE "), "replace_regex": N.Replace(Regex(r"\s{2,}|[0-9]+"), "_"),
    "replace_delete": N.Replace(Regex("[aeiou]"), ""), "prepend": N.Prepend("\u2581\u2581"),
    "byte_level": N.ByteLevel(), "sequence": N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase(), N.Strip(), N.Replace(" ", "\u2581")]),
    "bert": N.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
}

PRE_TOKENIZERS = {
    "byte_level": P.ByteLevel(add_prefix_space=False, use_regex=True), "byte_level_prefix": P.ByteLevel(True, use_regex=True),
    "byte_level_whole": P.ByteLevel(False, use_regex=False), "byte_level_whole_prefix": P.ByteLevel(True, use_regex=False),
    "whitespace": P.Whitespace(), "whitespace_split": P.WhitespaceSplit(), "bert": P.BertPreTokenizer(),
    "digits": P.Digits(individual_digits=False), "digits_individual": P.Digits(individual_digits=True),
    "char_delimiter": P.CharDelimiterSplit("e"), "unicode_scripts": P.UnicodeScripts(),
    "metaspace_first": P.Metaspace("\u2581", "first"), "metaspace_always": P.Metaspace("\u2581", "always"),
    "metaspace_never": P.Metaspace("\u2581", "never"), "metaspace_whole": P.Metaspace("\u2581", "always", split=False),
    "metaspace_other": P.Metaspace("_", "always"),
    "sequence": P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Digits(individual_digits=True)]),
    "split_gpt2": P.Split(Regex(GPT2), "isolated"), "split_empty_match": P.Split(Regex("x*"), "isolated"),
    "fixed_length": P.FixedLength(length=3),
    **{f"punctuation_{b}": P.Punctuation(b) for b in BEHAVIOURS},
    **{f"split_regex_{b}": P.Split(Regex(r"[\s\d]+"), b) for b in BEHAVIOURS},
    **{f"split_regex_inverted_{b}": P.Split(Regex(r"\p{L}+"), b, invert=True) for b in BEHAVIOURS},
    **{f"split_string_{b}": P.Split("  ", b) for b in BEHAVIOURS},
}

PIECES = ["<unk>", "<s>", "</s>", "[CLS]", "the", "\u2581the", "##ing", "##un", "un", "do", "n", "'", "t", "n't", " n't", " 's", "s", ",", ".",
          " ", "  ", "\u2581", "\u2581\u2581x", "x\u2581", "<0x41>", "<0xE2>", "<0x82>", "<0xAC>", "<0xFF>", "<0xF0>", "<0x9F>", "<0x99>", "<0x82x",
          "\u0120the", "\u00e2", "\u0124", "\u00ac", "\u010a", "\u00f0\u0141", "known</w>", "</w>", "un</w>er", "\u20ac", "\u4e2d", "@@", "x@@", "|", "a", "a|", "\u00a0y"]

DECODERS = {
    "none": None, "byte_level": decoders.ByteLevel(), "byte_fallback": decoders.ByteFallback(), "fuse": decoders.Fuse(),
    "strip_left": decoders.Strip(" ", 1, 0), "strip_both": decoders.Strip("x", 2, 1),
    "replace": decoders.Replace("\u2581", " "), "replace_regex": decoders.Replace(Regex("[ts]"), "_"),
    "wordpiece": decoders.WordPiece("##", cleanup=True), "wordpiece_raw": decoders.WordPiece("##", cleanup=False),
    "bpe_suffix": decoders.BPEDecoder("</w>"), "metaspace_always": decoders.Metaspace("\u2581", "always"),
    "metaspace_first": decoders.Metaspace("\u2581", "first"), "metaspace_never": decoders.Metaspace("\u2581", "never"),
    "ctc": decoders.CTC("<unk>", "|", cleanup=True),
    "llama": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    "sequence": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("\u2581", "always"), decoders.Fuse(), decoders.Strip(" ", 0, 1)]),
}

ADDED = ["<a>", "x<a>y", " <a> ", "<a><a>", "x  <a>  y", "<l>", "x  <l>  y", " <l><l> ", "<r>", "x  <r>  y", "<r> <l> <r>", "<lr>", "a <lr> b\n<lr>\tc",
         "word", "swords word wordy word. (word) word2 _word w\u00f6rd word\u0301", "WORD Word", "a long token here", "along token", "a long  token", "<a><b>", "<a><b", "<a><b>c",
         "Norm norm NORM", "\u00c9t\u00e9 \u00e9t\u00e9 e\u0301te\u0301", "END", "end of it", "Send END endless", "<special>x</special>", "\U0001f642", "x\U0001f642y",
         "  word  ", "\n<r>\n\nx", "\u00a0<lr>\u3000x"]


def precompiled():
  """The character map of a SentencePiece model; `tokenizers` reads it differently from SentencePiece (T6)."""
  from sentencepiece import sentencepiece_model_pb2
  proto = sentencepiece_model_pb2.ModelProto()
  proto.ParseFromString((FOLDER.parent / "sentencepiece" / "t5_unigram.model").read_bytes())
  return N.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def pieces_of(normalizer, pre_tokenizer, texts):
  pieces = set()
  for text in texts:
    text = normalizer.normalize_str(text) if normalizer else text
    pieces.update(p for p, _ in pre_tokenizer.pre_tokenize_str(text)) if pre_tokenizer else pieces.add(text)
  return sorted(pieces - {""})


def of_pieces(pieces):
  vocab = {"<unk>": 0} | {piece: i + 1 for i, piece in enumerate(p for p in pieces if p != "<unk>")}
  return Tokenizer(models.BPE(vocab, [], unk_token="<unk>", ignore_merges=True))


def added_tokens(normalizer, pre_tokenizer):
  t = of_pieces(pieces_of(normalizer, pre_tokenizer, TEXTS + ADDED))
  if normalizer:
    t.normalizer = normalizer
  t.pre_tokenizer = pre_tokenizer
  token = lambda text, **options: AddedToken(text, **({"normalized": False} | options))
  t.add_tokens([
      token("<a>"), token("<a><b>"), token("<l>", lstrip=True), token("<r>", rstrip=True), token("<lr>", lstrip=True, rstrip=True),
      token("word", single_word=True), token("a long token"), token("Norm", normalized=True), token("\u00c9t\u00e9", normalized=True),
      token("END", normalized=True, single_word=True), token("\U0001f642")])
  t.add_special_tokens([token("<special>", special=True), token("</special>", special=True, lstrip=True, rstrip=True),
                        token("then", special=True, normalized=True)])
  return t


def write(want):
  charsmap = {"precompiled": precompiled(), "precompiled_sequence": N.Sequence([precompiled(), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "\u2581")])}
  for name, part in (NORMALIZERS | charsmap).items():
    if want(f"normalizer_{name}"):
      t = of_pieces(pieces_of(part, None, TEXTS))
      t.normalizer = part
      freeze(f"normalizer_{name}", t, decodes=0, trained=False)
  for name, part in PRE_TOKENIZERS.items():
    if want(f"pre_{name}"):
      t = of_pieces(pieces_of(None, part, TEXTS))
      t.pre_tokenizer = part
      freeze(f"pre_{name}", t, decodes=0, trained=False)
  for name, part in DECODERS.items():
    if want(f"decoder_{name}"):
      t = of_pieces(PIECES)
      if part:
        t.decoder = part
      t.add_special_tokens(["<s>", "</s>"])
      freeze(f"decoder_{name}", t, texts=[], decodes=0, trained=False)
      freeze_decodes(f"decoder_{name}")
  for name, normalizer, pre in [("plain", None, P.WhitespaceSplit()), ("lowercase", N.Sequence([N.NFC(), N.Lowercase()]), P.WhitespaceSplit()),
                                ("metaspace", None, P.Metaspace("\u2581", "first")), ("prepend", N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None),
                                ("byte_level", N.NFC(), P.ByteLevel(add_prefix_space=True))]:
    if want(f"added_{name}"):
      freeze(f"added_{name}", added_tokens(normalizer, pre), ADDED, trained=False)
  post_processors(want)


def freeze_decodes(name):
  """Every pair of neighbours counts for a decoder, so many short lists."""
  import random
  tokenizer = Tokenizer.from_file(str(FOLDER / name / "tokenizer.json"))
  rng = random.Random(7)
  ids = sorted(tokenizer.get_vocab().values())
  lists = [[]] + [[i] for i in ids] + [[rng.choice(ids) for _ in range(rng.randint(2, 9))] for _ in range(60)]
  euro = [tokenizer.token_to_id(t) for t in ("<0xE2>", "<0x82>", "<0xAC>")]
  lists += [euro, euro + euro, euro[:2], euro[:2] + euro, euro[:1] + [tokenizer.token_to_id("the")] + euro[1:], euro + [tokenizer.token_to_id("<0xFF>")]]
  dump_lines(FOLDER / name / "decode.json", decoded_rows(tokenizer, lists))
  (FOLDER / name / "cases.json").write_text("[]\n")


def post_processors(want):
  texts = ["", "the theme", "x [SEP] y"]
  parts = {
      "template": processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0 [SEP]:0", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                special_tokens=[("[CLS]", 1), ("[SEP]", 2)]),
      "template_many_ids": processors.TemplateProcessing(
          single=["[START]", "$0"], pair=None,
          special_tokens=[{"id": "[START]", "ids": [1, 2, 1], "tokens": ["[CLS]", "[SEP]", "[CLS]"]}]),
      "bert": processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
      "roberta": processors.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1), trim_offsets=True, add_prefix_space=False),
      "byte_level": processors.ByteLevel(trim_offsets=True),
      "sequence": processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
          single="$A [SEP]", pair=None, special_tokens=[("[SEP]", 2)])]),
  }
  for name, part in parts.items():
    if want(f"post_{name}"):
      t = of_pieces(["[CLS]", "[SEP]", "the", "theme", "x", "y"])
      t.pre_tokenizer = P.WhitespaceSplit()
      t.add_special_tokens(["[CLS]", "[SEP]"])
      t.post_processor = part
      freeze(f"post_{name}", t, texts=texts, decodes=0, trained=False)
