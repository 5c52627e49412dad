"""Seeds of the fuzz targets for checkpoint readers: a few tiny valid files of each kind.

Needs nothing but Python; writes tests/fuzz/corpus/{safetensors,gguf,torch_pth}/.
"""

import io
import json
import struct
import zipfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus"


def write(kind, name, data):
  folder = CORPUS / kind
  folder.mkdir(parents=True, exist_ok=True)
  (folder / name).write_bytes(data)


def safetensors(entries, data, metadata=None):
  header = dict(entries)
  if metadata:
    header["__metadata__"] = metadata
  text = json.dumps(header, separators=(",", ":")).encode()
  text += b" " * (-len(text) % 8)
  return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
  return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def text(s):
  return struct.pack("<Q", len(s)) + s.encode()


def pair(key, kind, value):
  return text(key) + struct.pack("<I", kind) + value


def gguf(pairs, tensors, data_bytes, version=3):
  out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs)
  for name, dims, kind, offset in tensors:
    out += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
    out += struct.pack("<IQ", kind, offset)
  out += b"\0" * (-len(out) % 32)
  return out + bytes(range(data_bytes))


def unicode(s):
  return b"X" + struct.pack("<I", len(s)) + s.encode()


def tensor(storage, key, elements, offset, shape, strides):
  sizes = [b"(" + b"".join(b"K" + bytes([v]) for v in values) + b"t" for values in (shape, strides)]
  return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + unicode("storage") + b"ctorch\n" + storage + b"\n" + unicode(key) +
          unicode("cpu") + b"K" + bytes([elements]) + b"tQK" + bytes([offset]) + b"".join(sizes) +
          b"\x89ccollections\nOrderedDict\n)RtR")


def pth(pickle, storages):
  out = io.BytesIO()
  with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
    archive.writestr(zipfile.ZipInfo("m/data.pkl"), pickle)
    archive.writestr(zipfile.ZipInfo("m/byteorder"), b"little")
    for key, data in storages.items():
      archive.writestr(zipfile.ZipInfo(f"m/data/{key}"), data)
  return out.getvalue()


def main():
  write("safetensors", "two", safetensors({"a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [3], 16, 22)},
                                          bytes(22), {"format": "pt"}))
  write("safetensors", "odd", safetensors({"e": entry("F32", [0], 0, 0), "s": entry("I64", [], 0, 8),
                                           "v": entry("F16", [1, 1, 1, 1, 2], 8, 12), "q": entry("F4", [4], 12, 14)},
                                          bytes(14)))
  write("safetensors", "none", safetensors({}, b""))
  strings = struct.pack("<IQ", 8, 2) + text("a") + text("bc")
  numbers = struct.pack("<IQff", 6, 2, 0.5, -1.0)
  write("gguf", "metadata", gguf([pair("general.architecture", 8, text("llama")), pair("t", 9, strings),
                                  pair("f", 9, numbers), pair("b", 7, b"\1"), pair("u", 10, b"\xff" * 8),
                                  pair("general.alignment", 4, struct.pack("<I", 32))], [], 0))
  write("gguf", "tensors", gguf([pair("x", 0, b"\7")], [("w", [32, 2], 8, 0), ("n", [4], 0, 96)], 112))
  write("gguf", "v2", gguf([], [("k", [256], 12, 0)], 144, version=2))
  items = unicode("w") + tensor(b"FloatStorage", "0", 6, 0, [2, 3], [3, 1]) + b"q\1"
  items += unicode("tied") + b"h\1" + unicode("t") + tensor(b"FloatStorage", "0", 6, 0, [3, 2], [1, 3])
  write("torch_pth", "dict", pth(b"\x80\x02}(" + items + b"u.", {"0": bytes(24)}))
  ordered = b"\x80\x02ccollections\nOrderedDict\n)R(" + unicode("h") + tensor(b"HalfStorage", "1", 4, 1, [3], [1])
  write("torch_pth", "ordered", pth(ordered + b"u}" + unicode("_metadata") + b"}sb.", {"1": bytes(8)}))


if __name__ == "__main__":
  main()
