#!/usr/bin/env python3
"""Writes tests/golden/data/tokenizer/: small tokenizers, texts and their ids.

Needs Python 3.11, tokenizers==0.22.1, transformers==4.57.1,
sentencepiece==0.2.1, gguf==0.17.1. The ids of SmolLM2 are made when its GGUF
file is given as the first argument; they are kept otherwise.

Each golden file is one JSON object:
  name       what it is of
  ids        of each text of texts.json, special tokens not recognised in it
  special    {index: ids}, where recognising them makes a difference
  repeated   [[id, count], ...] of each long run
  decoded    [[ids, text, text without special tokens], ...]
"""

import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import corpus
import small_tokenizers
import texts

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizer"


def write(name, value):
  path = DATA / f"{name}.json"
  path.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")


def run_lengths(ids):
  out = []
  for i in ids:
    if out and out[-1][0] == i:
      out[-1][1] += 1
    else:
      out.append([i, 1])
  # A period of two or three repeats itself: keep the first, tell how often.
  if len(out) < 40:
    return out
  for period in (2, 3, 4, 5, 6):
    if all(out[i] == out[i + period] for i in range(len(out) - period)):
      return {"period": out[:period], "runs": len(out)}
  return {"head": out[:12], "tail": out[-12:], "runs": len(out), "ids": len(ids)}


def golden(tokenizer, name):
  def encode(text, special):
    tokenizer.encode_special_tokens = not special
    return tokenizer.encode(text).ids

  out = {"name": name, "ids": [], "special": {}, "repeated": [], "decoded": []}
  for i, text in enumerate(texts.TEXTS):
    ids = encode(text, False)
    out["ids"].append(ids)
    special = encode(text, True)
    if special != ids:
      out["special"][str(i)] = special
  for text, times in texts.REPEATED:
    out["repeated"].append(run_lengths(encode(text * times, False)))
  draw = random.Random(7)
  for length in (1, 1, 1, 2, 3, 5, 8, 13, 21, 34):
    for _ in range(3):
      ids = [draw.randrange(tokenizer.get_vocab_size()) for _ in range(length)]
      decoded = [tokenizer.decode(ids, skip_special_tokens=skip) for skip in (False, True)]
      # ByteFallback gives up on a whole run of bytes when one is wrong; we
      # replace maximal ill-formed parts, as everywhere.
      if "\ufffd" in decoded[0] and tokenizer.token_to_id("<0x00>") is not None:
        continue
      out["decoded"].append([ids, *decoded])
  write(f"{name}.golden", out)


def smollm2(path):
  from gguf import GGUFReader
  fields = GGUFReader(path).fields
  pieces = fields["tokenizer.ggml.tokens"].contents()
  types = fields["tokenizer.ggml.token_type"].contents()
  merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
  t = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges))
  t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                             pre_tokenizers.ByteLevel(add_prefix_space=False)])
  t.decoder = decoders.ByteLevel()
  t.add_special_tokens([p for p, kind in zip(pieces, types) if kind == 3])
  golden(t, "smollm2")


def sentence_piece():
  """A model of SentencePiece's own: pieces, scores, and the ids it gives."""
  with tempfile.TemporaryDirectory() as folder:
    prefix = pathlib.Path(folder) / "m"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([l for l in corpus.lines() if l.isascii() and "\0" not in l]), model_prefix=str(prefix),
        model_type="bpe", vocab_size=800, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=True, split_digits=True, character_coverage=1.0,
        minloglevel=2, num_threads=1)
    sp = sentencepiece.SentencePieceProcessor(model_file=str(prefix) + ".model")
  size = sp.get_piece_size()
  kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 5 if sp.is_unused(i) else 1
           for i in range(size)]
  write("sentencepiece.model", {"pieces": [sp.id_to_piece(i) for i in range(size)],
                                "scores": [sp.get_score(i) for i in range(size)], "types": kinds})
  out = {"name": "sentencepiece", "ids": [], "special": {}, "repeated": [], "decoded": []}
  for text in texts.TEXTS:
    # SentencePiece ends a text at NUL.
    out["ids"].append(None if "\0" in text else sp.encode(text))
  for text, times in texts.REPEATED:
    out["repeated"].append(run_lengths(sp.encode(text * times)))
  write("sentencepiece.golden", out)


def transformers_folder():
  """Llama's class: BOS and EOS by tokenizer_config.json, whatever the file says."""
  from transformers import AutoTokenizer
  file = small_tokenizers.llama2_normalized_specials().to_str()
  flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
  added = {str(i): {"content": t, **flags} for i, t in enumerate(["<unk>", "<s>", "</s>"])}
  configs = [
      {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True, "bos_token": "<s>",
       "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": added},
      {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False, "bos_token": "<s>", "eos_token": "</s>",
       "unk_token": "<unk>"},
      {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
       "additional_special_tokens": ["▁the"], "added_tokens_decoder": {
           "2": {"content": "</s>", **flags, "rstrip": True}}},
  ]
  samples = [t for t in texts.CONTROL + texts.PROSE[:3] + ["", " the mill", "the"]]
  out = []
  for config in configs:
    with tempfile.TemporaryDirectory() as folder:
      (pathlib.Path(folder) / "tokenizer.json").write_text(file)
      (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
      (pathlib.Path(folder) / "config.json").write_text('{"model_type": "llama"}')
      t = AutoTokenizer.from_pretrained(folder)
      out.append({"tokenizer_config": config, "ids": [t.encode(s) for s in samples],
                  "bare": [t.encode(s, add_special_tokens=False) for s in samples]})
  write("transformers.golden", {"texts": samples, "cases": out})


def white_space_and_classes():
  """Code points that each class has, as ranges: what the pre-tokenizers see."""
  from tokenizers import Regex
  out = {}
  for name in (r"\s", r"\p{L}", r"\p{N}", r"\w", r"\d"):
    split = pre_tokenizers.Split(Regex(name), "removed")
    ranges = []
    for code in range(0x110000):
      if 0xD800 <= code < 0xE000 or split.pre_tokenize_str(chr(code)):
        continue
      if ranges and ranges[-1][1] == code - 1:
        ranges[-1][1] = code
      else:
        ranges.append([code, code])
    out[name] = ranges
  write("classes", out)


def main():
  DATA.mkdir(parents=True, exist_ok=True)
  write("texts", {"texts": texts.TEXTS, "repeated": texts.REPEATED})
  for make in small_tokenizers.ALL:
    tokenizer = make()
    name = make.__name__
    write(f"{name}.tokenizer", json.loads(tokenizer.to_str()))
    golden(Tokenizer.from_str(tokenizer.to_str()), name)
  sentence_piece()
  transformers_folder()
  white_space_and_classes()
  if len(sys.argv) > 1:
    smollm2(sys.argv[1])


if __name__ == "__main__":
  main()
