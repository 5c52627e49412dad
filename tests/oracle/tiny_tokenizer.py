"""The tokenizer of the tiny llama fixture: byte-level BPE over 320 ids with ChatML markers and a chat template."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]

# Written for this fixture; long enough for some sixty merges.
TEXT = """The quick brown fox jumps over the lazy dog, and the dog thinks about it for the rest of the day.
In the morning the model reads a prompt; in the evening it writes an answer that the reader can check.
for (int i = 0; i < n; ++i) { sum += weights[i] * inputs[i]; } return sum;
Numbers such as 1, 10, 100, 1000 and 2026 are there too, with the words then, there, these and those.
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def write_tokenizer(folder, vocab_size):
  tokenizer = Tokenizer(models.BPE())
  tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
  tokenizer.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
      vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False,
      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
  tokenizer.train_from_iterator(TEXT.splitlines(keepends=True), trainer)
  tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
  assert tokenizer.get_vocab_size() == vocab_size
  tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
  config = {
      "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
      "clean_up_tokenization_spaces": False, "model_max_length": 64, "chat_template": CHAT_TEMPLATE}
  (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
