#!/usr/bin/env python3
"""Prints a table of sizes a folder; fails when a file is longer than 800 lines."""
import collections
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 800
CODE = (".h", ".cpp", ".cc", ".cu", ".cuh", ".py")


def folder_of(parts):
    """src/<floor>, tests/<floor>, or the top folder; None for what is not counted."""
    if parts[0] not in ("src", "include", "tests", "bench", "examples", "scripts", "cmake"):
        return None
    if parts[:2] == ("tests", "fixtures") or parts[:3] == ("tests", "fuzz", "corpus"):
        return None
    deep = parts[0] in ("src", "tests") and len(parts) > 2
    return "/".join(parts[:2]) if deep else parts[0]


def is_code(path):
    return path.suffix in CODE or path.suffix == ".cmake" or path.parts[0] == "scripts"


def main():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    folders = collections.defaultdict(list)
    for name in names.stdout.decode().split("\0"):
        path = pathlib.PurePosixPath(name)
        if not name or not is_code(path) or not (ROOT / path).is_file():
            continue
        folder = folder_of(path.parts)
        if folder:
            lines = (ROOT / path).read_bytes().count(b"\n")
            folders[folder].append((lines, str(path)))

    print(f"{'folder':<18}{'files':>6}{'lines':>8}{'median':>8}  largest")
    for folder in sorted(folders):
        sizes = sorted(folders[folder])
        median = int(statistics.median(lines for lines, _ in sizes))
        total = sum(lines for lines, _ in sizes)
        lines, name = sizes[-1]
        print(f"{folder:<18}{len(sizes):>6}{total:>8}{median:>8}  {lines} {name.rsplit('/', 1)[-1]}")
    everything = [entry for sizes in folders.values() for entry in sizes]
    print(f"{'all':<18}{len(everything):>6}{sum(lines for lines, _ in everything):>8}")

    too_long = [f"{name}: {lines} lines, the limit is {LIMIT}" for lines, name in everything if lines > LIMIT]
    print("\n".join(too_long) or f"sizes: no file is over {LIMIT} lines")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
