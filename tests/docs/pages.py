"""Reading pages: their fenced blocks, in order.

A Python block may be followed by a `text` block: then that is what it prints, where `…` stands
for anything. A Python block that begins with a comment like `# myapp.py` is a file of that name.
"""

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")


class Block(NamedTuple):
    line: int
    language: str
    text: str
    prints: str | None = None

    @property
    def file(self) -> str | None:
        """The name of the file that this block is."""
        found = _FILE.match(self.text)
        return found and found[1]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = [Block(text[: fence.start()].count("\n") + 2, fence[1], fence[2]) for fence in _FENCE.finditer(text)]
    told = []
    for block, following in zip_longest(found, found[1:]):
        prints = following.text if following and following.language == "text" and _adjoins(block, following) else None
        told.append(block._replace(prints=prints))
    return told


def _adjoins(block: Block, following: Block) -> bool:
    return following.line - (block.line + block.text.count("\n")) <= 4


def check_printed(block: Block, printed: str) -> None:
    """Compare what a block printed with what its page says."""
    if block.prints is not None:
        pattern = ".*?".join(re.escape(part) for part in block.prints.rstrip().split("…"))
        assert re.fullmatch(pattern, printed.rstrip(), re.DOTALL), f"line {block.line} printed:\n{printed}"
