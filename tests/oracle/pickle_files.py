"""Small torch.save files, plain, odd and hostile: tests/fixtures/pth/<name>.pth and index.json.

index.json: by name either {"tensors": {name: {"dtype", "shape", "values"}}} (row-major, as float or int) or {"refuse": why}.
A hostile file must be refused by reading it, never by running it. The pickles of the hostile ones are written by hand, so that
nothing is executed here either.
"""

import collections
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "pth"


def described(tensors):
  out = {}
  for name, t in tensors.items():
    values = t.detach().double() if t.dtype.is_floating_point else t.long()
    out[name] = {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "values": values.flatten().tolist()}
  return {"tensors": out}


def good_files():
  torch.manual_seed(5)
  base = torch.randn(4, 6)
  big = torch.arange(24, dtype=torch.float32).reshape(4, 6)
  kinds = {f"t_{str(d).removeprefix('torch.')}": torch.arange(-3, 5).to(d) for d in
           (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8)}
  kinds |= {"t_uint8": torch.arange(8).to(torch.uint8), "t_bool": torch.tensor([True, False, True])}
  shared = torch.randn(3, 4)
  yield "dtypes", kinds, {}
  yield "views", {"transposed": big.t(), "column": big[:, 2], "rows": big[1:3], "step": big[::2, ::3], "scalar": big[2, 3], "expanded": big[:1].expand(3, 6),
                  "empty": torch.empty(0, 5), "whole": big}, {}
  yield "shared_storage", {"embed.weight": shared, "head.weight": shared, "half": shared.view(-1)[:6]}, {}
  yield "parameters", {"w": torch.nn.Parameter(base.clone()), "b": torch.nn.Parameter(torch.ones(6), requires_grad=False)}, {}
  yield "ordered_dict", collections.OrderedDict(w=base, b=torch.zeros(6, dtype=torch.bfloat16)), {}
  yield "protocol4", {"w": base, "n\u00e4me": torch.ones(2)}, {"pickle_protocol": 4}
  model = torch.nn.Linear(3, 2)
  yield "state_dict", model.state_dict(), {}  # carries _metadata, set by BUILD


def write_good(index):
  for name, content, options in good_files():
    torch.save(content, FOLDER / f"{name}.pth", **options)
    index[name] = described(content)
  legacy = {"w": torch.arange(6, dtype=torch.float32).reshape(2, 3), "h": torch.ones(2, dtype=torch.float16)}
  torch.save(legacy, FOLDER / "legacy.pth", _use_new_zipfile_serialization=False)
  index["legacy"] = described(legacy) | {"may_refuse": "the format before torch 1.6: not a zip archive"}


def archive(name, data_pkl, storages, method=zipfile.ZIP_STORED, byteorder=b"little"):
  with zipfile.ZipFile(FOLDER / f"{name}.pth", "w", method) as z:
    for path, data in [("data.pkl", data_pkl), ("byteorder", byteorder), ("version", b"3\n")] + [(f"data/{k}", v) for k, v in storages.items()]:
      z.writestr(zipfile.ZipInfo(f"{name}/{path}", (1980, 1, 1, 0, 0, 0)), data)


def tensor_pickle(storage_type="FloatStorage", key="0", numel=6, offset=0, size=(2, 3), stride=(3, 1), name=b"w", rebuild="torch._utils\n_rebuild_tensor_v2"):
  """The pickle, protocol 2, of {name: one tensor}, with whatever numbers are asked for."""
  out = io.BytesIO()
  text = lambda s: b"X" + struct.pack("<I", len(s)) + s
  number = lambda n: b"J" + struct.pack("<i", n) if -2**31 <= n < 2**31 else b"\x8a\x08" + struct.pack("<q", n)
  numbers = lambda ns: b"(" + b"".join(map(number, ns)) + b"t"
  out.write(b"\x80\x02}" + text(name) + b"c" + rebuild.encode() + b"\n(")
  out.write(b"(" + text(b"storage") + b"ctorch\n" + storage_type.encode() + b"\n" + text(key.encode()) + text(b"cpu") + number(numel) + b"tQ")
  out.write(number(offset) + numbers(size) + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtRs.")
  return out.getvalue()


def global_call(module, name, argument):
  return f"\x80\x02c{module}\n{name}\n".encode("latin1") + b"X" + struct.pack("<I", len(argument)) + argument + b"\x85R."


def write_hostile(index):
  six = struct.pack("<6f", *range(6))

  def put(name, why, pickle_bytes, storages=None, **options):
    archive(name, pickle_bytes, {"0": six} if storages is None else storages, **options)
    index[name] = {"refuse": why}

  archive("by_hand", tensor_pickle(), {"0": six})  # the writer itself is right
  index["by_hand"] = described({"w": torch.arange(6, dtype=torch.float32).reshape(2, 3)})
  assert torch.equal(torch.load(FOLDER / "by_hand.pth")["w"], torch.arange(6, dtype=torch.float32).reshape(2, 3))

  put("evil_system", "calls os.system", global_call("os", "system", b"touch /tmp/ingot-was-here"))
  put("evil_eval", "calls builtins.eval", global_call("builtins", "eval", b"1"))
  put("evil_stack_global", "calls posix.system by STACK_GLOBAL", b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.")
  put("evil_build", "sets state on a class that is not a container", b"\x80\x02cos\n_wrap_close\n)\x81}X\x01\x00\x00\x00aK\x01sb.")
  put("evil_persistent_id", "a persistent id that is no storage tuple", b"\x80\x02}X\x01\x00\x00\x00wX\x01\x00\x00\x00xQs.")
  put("stride_past_end", "strides reach behind the storage", tensor_pickle(stride=(4, 1)))
  put("offset_past_end", "the offset lies behind the storage", tensor_pickle(offset=1))
  put("negative_offset", "a negative offset", tensor_pickle(offset=-1))
  put("negative_size", "a negative size", tensor_pickle(size=(-2, 3)))
  put("negative_stride", "a negative stride", tensor_pickle(stride=(-3, 1)))
  put("huge_size", "a size whose product overflows", tensor_pickle(size=(2**40, 2**40), stride=(0, 0)))
  put("huge_expanded", "a stride of 0 turns four bytes into terabytes", tensor_pickle(size=(2**40, 3), stride=(0, 1)))
  put("rank_mismatch", "two sizes and one stride", tensor_pickle(stride=(1,)))
  put("numel_lies", "the storage holds fewer bytes than it says", tensor_pickle(numel=600, size=(200, 3)))
  put("storage_missing", "the storage is not in the archive", tensor_pickle(key="7"))
  put("storage_path", "a storage key that climbs out of the archive", tensor_pickle(key="../0"))
  put("unknown_storage", "an unknown storage type", tensor_pickle(storage_type="ComplexFloatStorage"))
  put("unknown_rebuild", "an unknown rebuild function", tensor_pickle(rebuild="torch._utils\n_rebuild_sparse_tensor"))
  put("compressed", "compressed entries", tensor_pickle(), method=zipfile.ZIP_DEFLATED)
  put("big_endian", "big-endian data", tensor_pickle(), byteorder=b"big")
  put("no_stop", "the pickle has no STOP", tensor_pickle()[:-1])
  put("stack_underflow", "more POPs than values", b"\x80\x02000.")
  put("memo_missing", "reads a memo slot that nobody wrote", b"\x80\x02h\x05.")
  put("deep_nesting", "a tuple nested 100,000 deep", b"\x80\x02" + b")" + b"\x85" * 100000 + b".")
  put("memo_bomb", "a list that doubles 60 times by reference", b"\x80\x02]q\x00" + b"".join(
      b"(h" + bytes([i]) + b"h" + bytes([i]) + b"lq" + bytes([i + 1]) for i in range(60)) + b".")
  put("long_string", "a string longer than the pickle", b"\x80\x02X\xff\xff\xff\x7fabc.")
  put("not_a_dict", "the top is a number", b"\x80\x02K\x05.")
  put("cycle", "a dictionary that holds itself", b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.")

  whole = (FOLDER / "by_hand.pth").read_bytes()
  (FOLDER / "truncated.pth").write_bytes(whole[:-30])
  index["truncated"] = {"refuse": "the end of the central directory is cut"}
  bad = bytearray(whole)
  at = whole.rindex(b"PK\x01\x02")
  bad[at + 42:at + 46] = struct.pack("<I", 0x7FFFFFFF)
  (FOLDER / "header_offset.pth").write_bytes(bad)
  index["header_offset"] = {"refuse": "an entry whose local header lies behind the end"}
  bad = bytearray(whole)
  bad[at + 20:at + 28] = struct.pack("<II", 0x7FFFFFFF, 0x7FFFFFFF)
  (FOLDER / "entry_size.pth").write_bytes(bad)
  index["entry_size"] = {"refuse": "an entry that is longer than the file"}
  (FOLDER / "plain_pickle.pth").write_bytes(pickle.dumps({"w": [1, 2]}, protocol=2))
  index["plain_pickle"] = {"refuse": "a pickle, not a torch.save archive"}
  (FOLDER / "empty.pth").write_bytes(b"")
  index["empty"] = {"refuse": "an empty file"}


def main():
  FOLDER.mkdir(parents=True, exist_ok=True)
  index = {}
  write_good(index)
  write_hostile(index)
  (FOLDER / "index.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in index.items()) + "\n}\n")
  print(f"{len(index)} files, {sum(f.stat().st_size for f in FOLDER.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
  main()
