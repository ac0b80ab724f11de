"""The small tokenizers of the goldens, one function for each kind of file."""

import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

import corpus

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def _train(tokenizer, size, specials=(), alphabet=(), limit=1000):
  trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False,
                                initial_alphabet=list(alphabet), limit_alphabet=limit, min_frequency=2)
  tokenizer.train_from_iterator(corpus.lines(), trainer)
  return tokenizer


def _byte_level(pre, specials, size=900, normalizer=None, **options):
  tokenizer = Tokenizer(models.BPE(**options))
  if normalizer:
    tokenizer.normalizer = normalizer
  tokenizer.pre_tokenizer = pre
  tokenizer.decoder = decoders.ByteLevel()
  return _train(tokenizer, size, specials, sorted(pre_tokenizers.ByteLevel.alphabet()))


def _split(pattern):
  return pre_tokenizers.Sequence([
      pre_tokenizers.Split(Regex(pattern), "isolated"),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
  t = _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])
  t.post_processor = processors.ByteLevel(trim_offsets=False)
  return t


def gpt2_prefix_space():
  return _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "</s>"], size=500)


def smollm():
  """With added tokens of every flag."""
  t = _byte_level(
      pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                               pre_tokenizers.ByteLevel(add_prefix_space=False)]),
      ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
  t.add_tokens([
      AddedToken("<L>", lstrip=True), AddedToken("<R>", rstrip=True), AddedToken("foo", single_word=True),
      AddedToken("<fi"), AddedToken("<file>"), AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
      AddedToken("<im"), AddedToken("   ")])
  return t


def llama3():
  t = _byte_level(_split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], ignore_merges=True)
  t.post_processor = processors.Sequence([
      processors.ByteLevel(trim_offsets=False),
      processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                    pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                                    special_tokens=[("<|begin_of_text|>", 0)])])
  # Pieces that no merge makes, which ignore_merges finds all the same.
  file = json.loads(t.to_str())
  for piece in ("Ġquick", "Ġriver", "internationalĠ", "1999", "Ġ=="):
    file["model"]["vocab"].setdefault(piece, len(file["model"]["vocab"]))
  return Tokenizer.from_str(json.dumps(file))


def qwen2():
  """Added tokens here are looked for in normalised text."""
  t = _byte_level(_split(QWEN2), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
  t.add_tokens([AddedToken("NORMALé", normalized=True), AddedToken("normalé", normalized=False)])
  return t


def tekken():
  return _byte_level(_split(TEKKEN), ["<unk>", "<s>", "</s>"], ignore_merges=True)


def _spm_alphabet():
  return {f"<0x{b:02X}>" for b in range(256)}


def _characters(normalizer, decoder, size=900):
  """BPE over characters with byte fallback: first the bytes, then the rest."""
  trained = Tokenizer(models.BPE(unk_token="<unk>"))
  trained.normalizer = normalizer
  # Words, so that merges do not cross them; the pre-tokenizer is dropped then.
  trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
  specials = ["<unk>", "<s>", "</s>"] + sorted(_spm_alphabet())
  _train(trained, size, specials, limit=180)
  file = json.loads(trained.to_str())
  file["added_tokens"] = [a for a in file["added_tokens"] if a["id"] < 3]
  file["pre_tokenizer"] = None
  file["model"].update(byte_fallback=True, fuse_unk=True)
  tokenizer = Tokenizer.from_str(json.dumps(file))
  tokenizer.decoder = decoder
  return tokenizer


def llama2():
  t = _characters(
      normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
      decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                         decoders.Strip(" ", 1, 0)]))
  t.post_processor = processors.TemplateProcessing(
      single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
  return t


def llama2_normalized_specials():
  """Old files: special tokens are looked for in normalised text."""
  file = json.loads(llama2().to_str())
  for added in file["added_tokens"]:
    added["normalized"] = True
  return Tokenizer.from_str(json.dumps(file))


def metaspace():
  """Llama 2 as new files have it: no space after a special token."""
  t = _characters(normalizers.Replace(" ", "▁"), decoders.Sequence([
      decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
  t.normalizer = None
  t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
  return t


def gemma():
  t = _characters(normalizers.Replace(" ", "▁"),
                  decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))
  t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
  t.post_processor = processors.TemplateProcessing(
      single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
  return t


def fused_unknown():
  """No byte fallback: unknown characters become one <unk>."""
  file = json.loads(metaspace().to_str())
  file["model"]["byte_fallback"] = False
  t = Tokenizer.from_str(json.dumps(file))
  t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
  t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
  return t


ALL = [gpt2, gpt2_prefix_space, smollm, llama3, qwen2, tekken, llama2, llama2_normalized_specials, metaspace,
       gemma, fused_unknown]
