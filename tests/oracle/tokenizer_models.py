"""Tokenizers laid out as real families lay theirs out, trained small."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_files import freeze
from tokenizer_texts import CORPUS, DEEPSEEK, LLAMA3, O200K, QWEN2

BYTES = [f"<0x{i:02X}>" for i in range(256)]
CHATML = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n hi <|im_end|><|im_start|> assistant"
SPACES_AROUND = ["<s>x</s>", " <s> x </s> ", "<s><s></s>", "a<s>b", "x </s>y", "<|end|> user", "hi <|end|>\n <|end|>end", "<tool>user",
                 "<tool> user", " <tool>  user<tool>", "x<tool>y <s>z", "<to", "<tool", "<pad>text</s>", "the <tool>then</s> the"]


def split(pattern, behavior="isolated", invert=False):
  return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(use_regex=False, prefix=False):
  return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def byte_bpe(pre_tokenizer, special, size=420, normalizer=None, model=None):
  tokenizer = Tokenizer(model or models.BPE())
  if normalizer:
    tokenizer.normalizer = normalizer
  tokenizer.pre_tokenizer = pre_tokenizer
  tokenizer.decoder = decoders.ByteLevel()
  tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
      vocab_size=size - len(special), show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
  tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
  return tokenizer


def sequence(*parts):
  return pre_tokenizers.Sequence(list(parts))


def first_id(tokenizer, token):
  return (token, tokenizer.token_to_id(token))


def byte_level_families(want):
  if want("gpt2"):
    t = byte_bpe(byte_level(True), ["<|endoftext|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    freeze("gpt2", t, ["a<|endoftext|>b", "<|endoftext|><|endoftext|> x "], long=True)
  if want("roberta"):
    t = byte_bpe(byte_level(True, prefix=True), ["<s>", "</s>", "<pad>", "<mask>"])
    t.add_special_tokens([AddedToken("<mask2>", lstrip=True, normalized=False, special=True)])
    t.post_processor = processors.RobertaProcessing(first_id(t, "</s>"), first_id(t, "<s>"), add_prefix_space=True)
    freeze("roberta", t, ["the <mask2> then", "a  <mask2>b", *SPACES_AROUND])
  if want("llama3"):
    t = byte_bpe(sequence(split(LLAMA3), byte_level()), ["<|begin|>", "<|im_start|>", "<|im_end|>"], 440)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1",
                                      special_tokens=[first_id(t, "<|begin|>")])])

    def whole_words(content):  # ids that no merge reaches: only ignore_merges finds them
      content["model"]["ignore_merges"] = True
      at = 600
      for word in ["unbelievable", "\u0120lowest", "iPhone", "\u0120Camel", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "====="]:
        if word not in content["model"]["vocab"]:
          content["model"]["vocab"][word] = (at := at + 1)
    freeze("llama3", t, [CHATML, "<|begin|>x"], long=True, edit=whole_words)
  if want("qwen2"):
    t = byte_bpe(sequence(split(QWEN2), byte_level()), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                 normalizer=normalizers.NFC())
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<e\u0301>", normalized=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    freeze("qwen2", t, [CHATML, "<tool_call>{}<tool_call> x", "a<e\u0301>b<\u00e9>"], long=True)
  if want("o200k"):
    t = byte_bpe(sequence(split(O200K), byte_level()), ["<|endoftext|>"])
    freeze("o200k", t, ["HTTPServerIs HTTPSERVERS'LL Don'T"], long=True)
  if want("o200k_removed_inverted"):  # the older spelling of the same: matches are what remains
    t = byte_bpe(sequence(split(O200K, "removed", invert=True), byte_level()), ["<|endoftext|>"])
    freeze("o200k_removed_inverted", t)
  if want("deepseek"):
    t = byte_bpe(sequence(*(split(p) for p in DEEPSEEK), byte_level()), ["<\uff5cbegin\u2581of\u2581sentence\uff5c>"])
    t.post_processor = processors.TemplateProcessing(
        single="<\uff5cbegin\u2581of\u2581sentence\uff5c> $A", pair=None,
        special_tokens=[first_id(t, "<\uff5cbegin\u2581of\u2581sentence\uff5c>")])
    freeze("deepseek", t, ["x<\uff5cbegin\u2581of\u2581sentence\uff5c>y"], long=True)
  if want("smollm"):
    t = byte_bpe(sequence(pre_tokenizers.Digits(individual_digits=True), byte_level(True)), ["<|im_start|>", "<|im_end|>"])
    freeze("smollm", t, [CHATML], long=True)
  if want("falcon"):
    t = byte_bpe(sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(True), pre_tokenizers.Digits(False),
                          split("[0-9][0-9][0-9]")), ["<|endoftext|>"])
    freeze("falcon", t, ["1234567 12 123"])


def spm_bpe(size=560, unk_first=True):
  """BPE with byte fallback over U+2581 pieces, as a SentencePiece model is converted."""
  tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
  tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
  trainer = trainers.BpeTrainer(
      vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *BYTES], limit_alphabet=100)
  lines = [part for line in CORPUS for part in line.strip().replace(" ", " \u2581").split(" ")]
  plain = Tokenizer(models.BPE(unk_token="<unk>"))
  plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  plain.train_from_iterator(lines, trainer)
  import json
  trained = json.loads(plain.to_str())["model"]
  model = models.BPE(trained["vocab"], [tuple(m) for m in trained["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
  tokenizer.model = model
  tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
  return tokenizer


def add_more(tokenizer):
  """One special and one ordinary added token, and one that eats the spaces on its right."""
  tokenizer.add_special_tokens([AddedToken("<pad>", special=True, normalized=False),
                                AddedToken("<|end|>", special=True, normalized=False, rstrip=True)])
  tokenizer.add_tokens([AddedToken("<tool>", normalized=True)])
  return tokenizer


def llama2_decoder(strip=True):
  parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
  return decoders.Sequence(parts + [decoders.Strip(" ", 1, 0)] if strip else parts)


def with_bos(tokenizer):
  tokenizer.post_processor = processors.TemplateProcessing(
      single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[first_id(tokenizer, "<s>")])
  return tokenizer


def sentencepiece_families(want):
  if want("llama2"):
    t = with_bos(add_more(spm_bpe()))
    t.decoder = llama2_decoder()
    freeze("llama2", t, SPACES_AROUND, long=True)
  for scheme in ("first", "always", "never"):
    for cut in (True, False):
      name = f"metaspace_{scheme}" + ("" if cut else "_whole")
      if want(name):
        t = with_bos(add_more(spm_bpe()))
        t.normalizer = None
        t.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", scheme, split=cut)
        t.decoder = (decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("\u2581", scheme)]) if cut
                     else llama2_decoder(scheme != "never"))
        edit = strip_null_normalizer
        freeze(name, t, SPACES_AROUND, edit=edit)
  if want("gemma"):
    t = with_bos(add_more(spm_bpe()))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = llama2_decoder(strip=False)
    freeze("gemma", t, SPACES_AROUND)
  for form in ("strings", "lists"):
    name = f"merges_as_{form}"
    if want(name):  # vocabulary and merges hold U+00A0 (T7)
      t = with_bos(spm_bpe())
      t.decoder = llama2_decoder()

      def nbsp(content, form=form):
        model = content["model"]
        for pair in (["\u00a0", "\u00a0"], ["\u2026", "\u00a0\u00a0"], ["u", "\u2026\u00a0\u00a0"]):
          for piece in (*pair, "".join(pair)):
            model["vocab"].setdefault(piece, len(model["vocab"]) + 3)
          model["merges"].insert(0, pair)
        if form == "strings":
          model["merges"] = [" ".join(m) for m in model["merges"]]
      freeze(name, t, ["you\u2026\u00a0\u00a0", "\u00a0\u00a0\u00a0\u00a0"], edit=nbsp)
  if want("bpe_no_fallback"):  # unknown characters become <unk>, runs of them fused
    t = add_more(spm_bpe())
    t.decoder = llama2_decoder()
    freeze("bpe_no_fallback", t, edit=lambda c: c["model"].update(byte_fallback=False))
  if want("bpe_unk_unfused"):
    t = add_more(spm_bpe())
    t.decoder = llama2_decoder()
    freeze("bpe_unk_unfused", t, edit=lambda c: c["model"].update(byte_fallback=False, fuse_unk=False))


def strip_null_normalizer(content):
  content["normalizer"] = None


def unigram(byte_fallback, size=400):
  tokenizer = Tokenizer(models.Unigram())
  tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "always")
  special = ["<unk>", "<s>", "</s>"] + (BYTES if byte_fallback else [])
  tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(
      vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False, max_piece_length=12))
  import json
  content = json.loads(tokenizer.to_str())
  # A trainer's scores differ from run to run in the last bits; three digits pin them.
  vocab = [(piece, round(score, 3)) for piece, score in content["model"]["vocab"]]
  tokenizer.model = models.Unigram(vocab, 0, byte_fallback)
  tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
  return tokenizer


def unigram_families(want):
  if want("unigram"):
    t = add_more(unigram(False, 300))
    t.decoder = decoders.Metaspace("\u2581", "always")
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[first_id(t, "</s>")])
    freeze("unigram", t, SPACES_AROUND, long=True)
  if want("unigram_bytes"):
    t = add_more(unigram(True, 560))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("\u2581", "always")])
    freeze("unigram_bytes", t, SPACES_AROUND)
  if want("unigram_precompiled"):  # as T5 and XLM-R are converted
    from tokenizer_parts import precompiled
    t = unigram(False, 300)
    t.normalizer = normalizers.Sequence([precompiled(), normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t.decoder = decoders.Metaspace("\u2581", "always")
    freeze("unigram_precompiled", t, SPACES_AROUND)
  if want("unigram_nfkc"):
    t = unigram(False, 300)
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = sequence(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", "always"))
    t.decoder = decoders.Metaspace("\u2581", "always")
    freeze("unigram_nfkc", t)


def wordpiece_families(want):
  for name, cased, options in [
      ("bert_uncased", False, {}), ("bert_cased", True, {}), ("bert_keep_accents", False, {"strip_accents": False}),
      ("bert_no_chinese", True, {"handle_chinese_chars": False, "strip_accents": True}),
      ("bert_no_clean", False, {"clean_text": False})]:
    if not want(name):
      continue
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=not cased, **options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    t.decoder = decoders.WordPiece("##", cleanup=not cased)
    if cased:
      t.post_processor = processors.TemplateProcessing(
          single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[first_id(t, "[CLS]"), first_id(t, "[SEP]")])
    else:
      t.post_processor = processors.BertProcessing(first_id(t, "[SEP]"), first_id(t, "[CLS]"))
    freeze(name, t, ["[CLS] the [MASK] [SEP]", "x[MASK]y", "the " + "a" * 101 + " then", "\u0113\u4e2dx\u6587", "do n't , it 's ."],
           long=name == "bert_uncased")


def suffix_families(want):
  if want("clip"):
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<s>"], end_of_word_suffix="</w>", show_progress=False))
    t.decoder = decoders.BPEDecoder("</w>")
    freeze("clip", t, SPACES_AROUND)
  if want("bpe_continuing_prefix"):
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>"], continuing_subword_prefix="##", show_progress=False))
    t.decoder = decoders.WordPiece("##", cleanup=False)
    freeze("bpe_continuing_prefix", t)


def write(want):
  byte_level_families(want)
  sentencepiece_families(want)
  unigram_families(want)
  wordpiece_families(want)
  suffix_families(want)
