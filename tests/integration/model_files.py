"""Models that the tests write: Hugging Face folders of a small Llama with random
weights, and GGUF files copied with other metadata."""
import json
import struct

import numpy as np

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
STRING, BOOL = _STRING, 7


class Reader:
    """Walks through the header of a GGUF file."""

    def __init__(self, data):
        self.data = data
        self.offset = 0

    def scalar(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.offset)
        self.offset += struct.calcsize("<" + form)
        return value

    def string(self):
        length = self.scalar("Q")
        self.offset += length
        return bytes(self.data[self.offset - length:self.offset]).decode()

    def value(self, kind):
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element, count = self.scalar("I"), self.scalar("Q")
            return [self.value(element) for _ in range(count)]
        return self.scalar(_SCALARS[kind])

    def fields(self):
        """(key, value, bytes of both with the type between them) of every key."""
        assert self.scalar("I") == 0x46554747 and self.scalar("I") == 3
        self.num_tensors, count = self.scalar("Q"), self.scalar("Q")
        for _ in range(count):
            start = self.offset
            key = self.string()
            value = self.value(self.scalar("I"))
            yield key, value, self.data[start:self.offset]

    def skip_tensors(self):
        for _ in range(self.num_tensors):
            self.string()
            for _ in range(self.scalar("I")):
                self.scalar("Q")
            self.scalar("I"), self.scalar("Q")


def gguf_metadata(path):
    return {key: value for key, value, _ in Reader(memoryview(path.read_bytes())).fields()}


def rewrite_gguf(source, target, changes):
    """Copies `source`, with `changes`: {key: (STRING or BOOL, value)}."""
    data = source.read_bytes()
    reader = Reader(data)
    kept = [raw for key, _, raw in reader.fields() if key not in changes]
    tensors = reader.offset
    reader.skip_tensors()
    text = lambda value: struct.pack("<Q", len(value.encode())) + value.encode()
    added = [text(key) + struct.pack("<I", kind) + (text(value) if kind == STRING else struct.pack("<?", value))
             for key, (kind, value) in changes.items()]
    header = struct.pack("<IIQQ", 0x46554747, 3, reader.num_tensors, len(kept) + len(added))
    header += b"".join(kept) + b"".join(added) + data[tensors:reader.offset]
    aligned = lambda size: -(-size // 32) * 32
    with open(target, "wb") as file:
        file.write(header.ljust(aligned(len(header)), b"\0"))
        file.write(data[aligned(reader.offset):])
    return target


def tokenizer_json(metadata, added=()):
    """The tokenizer of SmolLM2's GGUF file as a tokenizer.json, with more added tokens."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    control = [{"id": i, "content": token, "normalized": False, "special": True}
               for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == 3]
    digits = {"type": "Digits", "individual_digits": True}
    return {"added_tokens": control + list(added), "decoder": level,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, level]},
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                      "merges": metadata["tokenizer.ggml.merges"]}}


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 100000.0, "vocab_size": 260,
    "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 0, "eos_token_id": 2,
}


def write_folder(folder, config=None, files=None, edit=None):
    """A Hugging Face folder; `config` replaces entries (None leaves one out), `files` adds JSON files, `edit`
    changes the tensors {name: array}."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **(config or {})}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    for name, content in (files or {}).items():
        (folder / name).write_text(json.dumps(content))
    tensors = dict(_tensors(config))
    if edit is not None:
        edit(tensors)
    _write_safetensors(folder / "model.safetensors", tensors)
    return folder


def _tensors(config):
    random = np.random.default_rng(1)
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    matrix = lambda rows, columns: (random.standard_normal((rows, columns)) / 8).astype(np.float32)
    yield "model.embed_tokens.weight", matrix(config["vocab_size"], hidden)
    yield "model.norm.weight", np.ones(hidden, np.float32)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, rows, columns in (("self_attn.q_proj", width * config["num_attention_heads"], hidden),
                                    ("self_attn.k_proj", width * config["num_key_value_heads"], hidden),
                                    ("self_attn.v_proj", width * config["num_key_value_heads"], hidden),
                                    ("self_attn.o_proj", hidden, width * config["num_attention_heads"]),
                                    ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden),
                                    ("mlp.down_proj", hidden, inner)):
            yield prefix + name + ".weight", matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield prefix + name + ".weight", np.ones(hidden, np.float32)


def _write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.tobytes())
