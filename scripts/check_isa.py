#!/usr/bin/env python3
"""Checks that only simd/*_<tier>.cpp objects of a build use more than the x86-64 baseline.

A register above xmm in any other object is an illegal instruction on an older processor. A weak symbol in
a tier's object may replace the same symbol of the whole program when it is linked, so there must be none.
usage: check_isa.py BUILD_DIR
"""
import pathlib
import re
import subprocess
import sys

TIER = re.compile(r"_(avx2|avx512|avx512_vnni|avx512_bf16)\.cpp\.o$")
# VEX and EVEX instructions start with v; wide registers are ymm, zmm and k masks.
WIDE = re.compile(r"%[yz]mm|%k[1-7]\b|\tv(?!err|erw|mcall|mmcall|mlaunch|mread|mwrite)[a-z0-9]+ ")
HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def wide_functions(path):
    """Names of functions with wide instructions, each with its first one."""
    found = {}
    name = "?"
    listing = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", str(path)], stdout=subprocess.PIPE, text=True)
    for line in listing.stdout:
        header = HEADER.match(line)
        if header:
            name = header.group(1)
        elif WIDE.search(line):
            found.setdefault(name, line.split(":", 1)[-1].strip())
    if listing.wait() != 0:
        sys.exit(f"objdump failed on {path}")
    return found


def weak_symbols(path):
    lines = subprocess.run(["nm", "-C", str(path)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [line for line in lines if re.match(r"^[0-9a-f]+ [WVu] ", line)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    objects = sorted(pathlib.Path(sys.argv[1]).glob("src/CMakeFiles/*.dir/**/*.o"))
    errors = []
    tiers = 0
    for path in objects:
        if TIER.search(path.name):
            tiers += 1
            errors += [f"{path}: weak symbol {line}" for line in weak_symbols(path)]
        else:
            errors += [f"{path}: {name} has `{line}`" for name, line in wide_functions(path).items()]
    for error in errors:
        print(error)
    print(f"{len(objects)} objects, {tiers} of them of a tier, {len(errors)} errors")
    if not objects:
        sys.exit("no objects: build first")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
