"""Random raw blocks of every GGUF type that the gguf package can dequantise, with scales that give finite, sane values.

Writes tests/fixtures/gguf_blocks/<TYPE>.bin (raw rows) and <TYPE>.npy, float32 [8, 512], dequantised by gguf.
"""

from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "gguf_blocks"
TYPES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4 TQ1_0 TQ2_0".split()

# type -> byte offsets of its half-precision scale d and, with the mean quant that it must cancel, of its minimum.
SCALE = {"Q4_0": 0, "Q4_1": 0, "Q5_0": 0, "Q5_1": 0, "Q8_0": 0, "Q2_K": 80, "Q3_K": 108, "Q4_K": 0, "Q5_K": 0,
         "Q6_K": 208, "IQ4_NL": 0, "IQ4_XS": 0, "TQ1_0": 52, "TQ2_0": 64}
MINIMUM = {"Q4_1": (2, -7.5), "Q5_1": (2, -15.5), "Q2_K": (82, 1.5), "Q4_K": (2, 7.5), "Q5_K": (2, 15.5)}


def random_rows(rng, name, shape, deviation, odd=False):
  """Raw rows [rows, bytes] whose values have about the wanted standard deviation; odd adds extreme scales."""
  rows, columns = shape
  qtype = gguf.GGMLQuantizationType[name]
  if name in ("F16", "BF16"):
    return gguf.quants.quantize((rng.standard_normal(shape) * deviation).astype(np.float32), qtype).view(np.uint8)
  block, size = gguf.GGML_QUANT_SIZES[qtype]
  count = rows * columns // block
  raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
  if name == "MXFP4":
    raw[:, 0] = rng.integers(122, 128, count)  # exponents
  elif name == "NVFP4":
    raw[:, :4] = rng.integers(0x20, 0x50, (count, 4))
  else:
    spread = rng.uniform(0.5, 1.5, count)
    scale = deviation
    for _ in range(3):
      put_scales(raw, name, spread * scale)
      scale *= deviation / dequantize(raw.reshape(rows, -1), qtype).std()
    if odd:
      put_scales(raw[:4], name, np.array([0.0, -scale, 5e-7, scale]))
  return raw.reshape(rows, -1)


def put_scales(raw, name, d):
  raw[:, SCALE[name]:SCALE[name] + 2] = d.astype(np.float16)[:, None].view(np.uint8)
  if name in MINIMUM:
    at, mean = MINIMUM[name]
    raw[:, at:at + 2] = (d * mean).astype(np.float16)[:, None].view(np.uint8)


def main():
  FOLDER.mkdir(parents=True, exist_ok=True)
  for index, name in enumerate(TYPES):
    rng = np.random.Generator(np.random.PCG64(100 + index))
    raw = random_rows(rng, name, (8, 512), 0.2, odd=True)
    values = dequantize(raw, gguf.GGMLQuantizationType[name])
    assert values.shape == (8, 512) and np.isfinite(values).all() and values.dtype == np.float32, name
    raw.tofile(FOLDER / f"{name}.bin")
    np.save(FOLDER / f"{name}.npy", values)
    print(f"{name}: {raw.size} bytes, deviation {values.std():.3f}, mean {values.mean():.3f}")


if __name__ == "__main__":
  main()
