#!/usr/bin/env python3
"""Code that a page quotes from a file is the file's own: a fenced block under <!-- quoted from FILE --> holds all of it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"^<!-- quoted from (\S+) -->$", re.M)
BLOCK = re.compile(r"<!-- quoted from (\S+) -->\n+```\w*\n(.*?)^```$", re.M | re.S)


def main():
    errors = []
    quotes = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        blocks = BLOCK.findall(text)
        if len(blocks) != len(MARK.findall(text)):
            errors.append(f"{page.relative_to(ROOT)}: a mark without a block below it")
        for name, quoted in blocks:
            quotes += 1
            if not (ROOT / name).is_file() or (ROOT / name).read_text() != quoted:
                errors.append(f"{page.relative_to(ROOT)}: what it quotes is not {name}; copy the file again")
    if quotes == 0:
        errors.append("quotes: found none; docs/cpp_api.md has one")
    print("\n".join(errors) or f"quotes: {quotes} agree with their files")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
