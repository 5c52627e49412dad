"""Writes a GGUF file of the Llama-3.2-1B shape with random weights, for speed alone: every engine reads the same bytes.

The vocabulary (128,256 entries) and its tokenizer are copied from a vocabulary-only GGUF file; the weights of all
matrices, embedding included, have one format; the output projection is tied to the embedding.
"""
import argparse
import pathlib
import struct

import numpy

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_SIZE, FFN = 2048, 16, 32, 8, 64, 8192
ALIGNMENT = 32
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
F32 = 0
BLOCK = 32
# ggml type, llama.cpp's file type, bytes of a block of 32, largest quant (0: plain numbers without a scale)
FORMATS = {"q4_0": (2, 2, 18, 8), "q8_0": (8, 7, 34, 128), "bf16": (30, 32, 64, 0)}


def skip_value(data, at, kind):
    """The position behind a metadata value."""
    if kind in SCALAR_BYTES:
        return at + SCALAR_BYTES[kind]
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        raise ValueError(f"metadata of type {kind}")
    item, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if item in SCALAR_BYTES:
        return at + SCALAR_BYTES[item] * count
    for _ in range(count):
        at = skip_value(data, at, item)
    return at


def tokenizer_entries(path):
    """The raw key-value pairs `tokenizer.*` of a GGUF file, and the number of its tokens."""
    data = pathlib.Path(path).read_bytes()
    magic, version, _, pairs = struct.unpack_from("<4sIQQ", data, 0)
    if magic != b"GGUF" or version < 2:
        raise ValueError(f"{path} is no GGUF file of version 2 or later")
    at, entries, vocab = 24, [], 0
    for _ in range(pairs):
        begin = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length]
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        if key == b"tokenizer.ggml.tokens":
            vocab = struct.unpack_from("<IQ", data, at + 4)[1]
        at = skip_value(data, at + 4, kind)
        if key.startswith(b"tokenizer."):
            entries.append(data[begin:at])
    return entries, vocab


def entry(key, kind, value):
    text = key.encode()
    head = struct.pack("<Q", len(text)) + text + struct.pack("<I", kind)
    if kind == STRING:
        return head + struct.pack("<Q", len(value)) + value.encode()
    return head + struct.pack("<I" if kind == UINT32 else "<f", value)


def matrix_blocks(generator, name, rows, columns):
    """`rows` x `columns` weights of about 1/sqrt(columns), as the bytes of their blocks."""
    _, _, block_bytes, largest = FORMATS[name]
    count = rows * columns // BLOCK
    if largest == 0:
        weights = generator.standard_normal(count * BLOCK, numpy.float32) / columns**0.5
        return (weights.view(numpy.uint32) >> 16).astype("<u2")
    blocks = numpy.empty((count, block_bytes), numpy.uint8)
    scales = generator.uniform(0.5, 1.5, count) / (largest * 0.6 * columns**0.5)
    blocks[:, :2] = scales.astype("<f2").view(numpy.uint8).reshape(count, 2)
    blocks[:, 2:] = numpy.frombuffer(generator.bytes(count * (block_bytes - 2)), numpy.uint8).reshape(count, -1)
    return blocks


def tensors(vocab):
    """(name, shape in GGUF's order: columns first) of every tensor."""
    yield "token_embd.weight", (HIDDEN, vocab)
    yield "output_norm.weight", (HIDDEN,)
    for layer in range(LAYERS):
        for name, shape in (("attn_norm", (HIDDEN,)), ("ffn_norm", (HIDDEN,)),
                            ("attn_q", (HIDDEN, HEADS * HEAD_SIZE)), ("attn_k", (HIDDEN, KV_HEADS * HEAD_SIZE)),
                            ("attn_v", (HIDDEN, KV_HEADS * HEAD_SIZE)), ("attn_output", (HEADS * HEAD_SIZE, HIDDEN)),
                            ("ffn_gate", (HIDDEN, FFN)), ("ffn_up", (HIDDEN, FFN)), ("ffn_down", (FFN, HIDDEN))):
            yield f"blk.{layer}.{name}.weight", shape


def write(path, name, vocabulary):
    """Writes the file `path` with weights in the format `name`."""
    ggml_type, file_type, block_bytes, _ = FORMATS[name]
    entries, vocab = tokenizer_entries(vocabulary)
    numbers = {"context_length": 131072, "embedding_length": HIDDEN, "block_count": LAYERS,
               "feed_forward_length": FFN, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
               "rope.dimension_count": HEAD_SIZE, "vocab_size": vocab}
    entries += [entry("general.architecture", STRING, "llama"),
                entry("general.name", STRING, f"random-1b-{name}"),
                entry("general.file_type", UINT32, file_type),
                entry("general.alignment", UINT32, ALIGNMENT),
                entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
                entry("llama.rope.freq_base", FLOAT32, 500000.0)]
    entries += [entry(f"llama.{key}", UINT32, value) for key, value in numbers.items()]

    table, offset = b"", 0
    shapes = list(tensors(vocab))
    for tensor, shape in shapes:
        text = tensor.encode()
        kind = F32 if len(shape) == 1 else ggml_type
        size = 4 * shape[0] if len(shape) == 1 else shape[0] * shape[1] // BLOCK * block_bytes
        table += struct.pack("<Q", len(text)) + text + struct.pack("<I", len(shape))
        table += b"".join(struct.pack("<Q", size_of) for size_of in shape) + struct.pack("<IQ", kind, offset)
        offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    generator = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(entries)) + b"".join(entries) + table)
        for _, shape in shapes:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            if len(shape) == 1:
                file.write(numpy.ones(shape[0], "<f4").tobytes())
            else:
                file.write(matrix_blocks(generator, name, shape[1], shape[0]).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", help="a GGUF file with the Llama 3 vocabulary")
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("output")
    options = parser.parse_args()
    partial = pathlib.Path(options.output + ".part")
    write(partial, options.format, options.vocabulary)
    partial.rename(options.output)


if __name__ == "__main__":
    main()
