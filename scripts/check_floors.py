#!/usr/bin/env python3
"""Compares FLOORS with the real #includes of src/: a folder may include only folders that its line names."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read_floors():
    floors = {}
    for number, line in enumerate((ROOT / "FLOORS").read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, rest = line.partition(":")
        for dep in rest.split():
            if dep not in floors:
                sys.exit(f"FLOORS:{number}: {name} names {dep}, which is not on an earlier line")
        floors[name] = set(rest.split())
    return floors


def floor_of(include):
    first = include.split("/")[0]
    return "api" if first == "ingot" else first


def main():
    floors = read_floors()
    errors = []
    files = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".cu", ".cuh")]
    files += (ROOT / "include").rglob("*.h")
    for path in sorted(files):
        relative = path.relative_to(ROOT)
        own = "api" if relative.parts[0] == "include" else relative.parts[1]
        if own not in floors:
            errors.append(f"{relative}: folder {own} is not in FLOORS")
            continue
        # Device code is the NVRTC bundle: it may include only itself.
        device_code = relative.parts[:3] == ("src", "cuda", "device") or path.suffix == ".cu"
        for include in INCLUDE.findall(path.read_text()):
            target = floor_of(include)
            if device_code and not include.startswith("cuda/device/"):
                errors.append(f"{relative}: device code includes {include}")
            elif target in floors and target != own and target not in floors[own]:
                errors.append(f"{relative}: {own} may not include {include}")
            elif target not in floors and "/" in include:
                errors.append(f"{relative}: {include} is on no floor; use <...> for libraries")
    print("\n".join(errors) or f"floors: {len(files)} files agree with FLOORS")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
