#!/usr/bin/env python3
"""Looks at every text file git knows: no absolute path of a developer's machine, no number of an issue, no merge
markers, no trailing white space in code, no file name that says nothing."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ("tests/fixtures/", "tests/fuzz/corpus/", "third_party/", "LICENSE")
RULES = (
    (re.compile(r"(?<![\w.~}-])/(?:home|root|Users|work|mnt)/\w"), "absolute path of one machine"),
    (re.compile(r"(?i)\b(?:issue|pull request|PR|bug) #?\d+\b|(?<![\w&#])#\d{2,}\b(?!['\"])"), "number of an issue"),
    (re.compile(r"^(?:<{7}|>{7}|={7})(?: |$)", re.M), "merge marker"),
)
TRAILING = re.compile(r"[ \t]+$", re.M)
# clang-format leaves comments alone, tables included, so their width is checked here.
WIDE_COMMENT = re.compile(r"^(?=.{101})[ \t]*//.*$", re.M)
CODE = (".h", ".cpp", ".cc", ".cu", ".cuh", ".py", ".cmake")
EMPTY_NAMES = re.compile(r"(?:^|_)(?:utils?|common|helpers?|manager|misc)(?:_|$)")


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    names = [n for n in listed.stdout.decode().split("\0") if n and not n.startswith(DATA)]
    errors = []
    for name in names:
        path = ROOT / name
        if not path.is_file():
            continue
        if EMPTY_NAMES.search(path.name.split(".")[0]):
            errors.append(f"{name}: a name that says nothing (DESIGN of names: a noun for data, a verb for acts)")
        content = path.read_bytes()
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        rules = RULES
        if path.suffix in CODE:
            rules += ((TRAILING, "trailing white space"), (WIDE_COMMENT, "comment over 100 columns"))
        for pattern, what in rules:
            for match in pattern.finditer(text):
                errors.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()!r}")
    print("\n".join(errors) or f"text: {len(names)} files say nothing they should not")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
