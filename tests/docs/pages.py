"""The pages of this repository and the code blocks on them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(.*)$")
_FILE = re.compile(r"^# file: (\S+)$")


def pages():
    """Every page that people read; `results/` holds figures that commands write."""
    below = [path for path in sorted(DOCS.rglob("*.md")) if "results" not in path.relative_to(DOCS).parts]
    return [*sorted(ROOT.glob("*.md")), *below]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind the fence, the text, and the line the text starts at."""

    info: str
    text: str
    line: int

    @property
    def file(self):
        """The file that it is to be written to, if it says so in its first line."""
        match = _FILE.match(self.text.partition("\n")[0])
        return match[1] if match else None


def blocks(page):
    found, info, start = [], None, 0
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence and info is None:
            info, start = fence[1].strip(), number
        elif fence:
            found.append(Block(info, "\n".join(lines[start : number - 1]) + "\n", start + 1))
            info = None
    assert info is None, f"{name_of(page)}: the block of line {start} does not end"
    return found
