#!/usr/bin/env python3
"""Counts how the doc comments of each crate, and of the folders benches, fuzz and tests, are written. No count may rise
above benches/house/voice.toml.

Usage: benches/house/voice.py [--show CRATE]... [--bless]

  free     docs that begin with What, Which, Who, Whose, Whom, Whoever, Whatever, Where, Why or How, and ask nothing
  tiny     docs of one or two words
  over_30  sentences of over 30 words, in all docs
  over_25  sentences of over 25 words, in docs of public items
  codes    docs of public items with a code such as G3, B13 or F47 in their first line

A doc is a run of `///` or `//!` lines in a crate's `src`, but for files of tests. Of the other folders all files count.
An item is public if it is `pub`, whether or not its module is; so are the variants of a public enum, the items of a
public trait, and the `//!` of lib.rs and of each `pub mod`. A sentence ends with `.`, `?` or `!` and a space, with its
paragraph, or with its item of a list. Code blocks, tables, headings and the addresses of links are no sentences.

Of the sentences of all pages (*.md), at most 4 % may begin as those of `free` do.
"""

import bisect
import dataclasses
import pathlib
import re
import sys

import ratchet
import rust

FILE = pathlib.Path(__file__).with_name("voice.toml")
# The folders that are checked as a whole, tests included.
FOLDERS = ("benches", "fuzz", "tests")
# The largest share of sentences of pages that begin with a free relative clause.
MOST_FREE = 0.04
# Folders whose files are not ours.
BUILT = {"target", "node_modules", ".git"}
MEASURES = {
    "free": "begin with what the thing is ('The id of ...'), or with a verb ('Returns ...')",
    "tiny": "name the unit, the default or the reason",
    "over_30": "split it: one fact a sentence",
    "over_25": "split it: one fact a sentence",
    "codes": "cite the rule in a later line",
}

DOC = re.compile(r"\s*//([/!])(?: (.*)|)$")
FREE = re.compile(r"\W*(?:What|Which|Who|Whose|Whom|Whoever|Whatever|Where|Why|How)\b")
CODE = re.compile(r"\b[BFG]\d{1,3}\b")
FENCE = re.compile(r"\s*(?:```|~~~)")
ITEM_OF_LIST = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
NO_PROSE = re.compile(r"\s*(?:\||\[[^\]]+\]:\s|#+\s)")
# The ends of a clause, and of a sentence. A text asks something if its first clause ends with a question mark.
CLAUSE = re.compile(r"(?<=[.?:;])\s")
SENTENCE = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!i\.e\.)\s")

PUBLIC = re.compile(r"\s*pub\s")
# The head of a block whose members are public without a word.
PUBLIC_BLOCK = re.compile(r"\bpub\s+(?:unsafe\s+)?(?:enum|trait)\b")


@dataclasses.dataclass
class Doc:
    """The text of one doc comment, a string a line, from the line `at` of its file."""

    file: str
    at: int
    lines: list
    is_public: bool = False

    def offences(self):
        """Yields the measure, the line and the text of all that counts."""
        text = " ".join(self.lines).split()
        start = " ".join(text[:12])
        if is_free(" ".join(text)):
            yield "free", self.at, start
        if len(text) <= 2:
            yield "tiny", self.at, start
        if self.is_public and CODE.search(self.lines[0]):
            yield "codes", self.at, self.lines[0]
        for line, sentence in self.sentences():
            length = len(sentence.split())
            if length > 30:
                yield "over_30", line, f"{length} words: {sentence}"
            if length > 25 and self.is_public:
                yield "over_25", line, f"{length} words: {sentence}"

    def sentences(self):
        """Yields each sentence, with the line of its paragraph or of its item of a list."""
        for line, text in self.paragraphs():
            for sentence in SENTENCE.split(text):
                yield line, sentence

    def paragraphs(self):
        at, words, is_code = self.at, [], False
        for line, text in enumerate(self.lines, self.at):
            is_fence = bool(FENCE.match(text))
            is_code ^= is_fence
            item = ITEM_OF_LIST.match(text)
            ends = is_fence or is_code or item or not text.strip() or NO_PROSE.match(text)
            if ends and words:
                yield at, " ".join(words)
                words = []
            if item:
                text = text[item.end() :]
            elif ends:
                continue
            if not words:
                at = line
            words += text.split()
        if words:
            yield at, " ".join(words)


def is_free(text):
    """Returns whether the text begins with a free relative clause, and asks nothing."""
    first = CLAUSE.split(text, maxsplit=1)[0]
    return bool(FREE.match(first)) and not first.endswith("?")


def sentences_of_pages(root):
    """Returns the place and the text of each sentence of all pages below the folder `root`."""
    pages = [page.relative_to(root) for page in sorted(root.rglob("*.md"))]
    ours = [page for page in pages if not BUILT & set(page.parts)]
    docs = [Doc(str(page), 1, (root / page).read_text().split("\n")) for page in ours]
    return [(f"{doc.file}:{line}", text) for doc in docs for line, text in doc.sentences()]


def check_pages():
    """Prints the share of sentences of pages that begin with a free relative clause; exits if there are too many."""
    sentences = sentences_of_pages(ratchet.ROOT)
    free = [f"{place}: {text}" for place, text in sentences if is_free(text)]
    share = len(free) / max(1, len(sentences))
    print(f"{'pages':20}{len(sentences):6}{len(free):6}{share:7.1%}")
    if share > MOST_FREE:
        sys.exit("\n".join([f"error: {share:.1%} of the sentences of pages begin so, {MOST_FREE:.0%} allowed", *free]))


def docs_of(crate, name):
    """Returns all docs of the crate in the folder `crate`, but for its tests; their files begin with `name`."""
    source = crate / "src"
    return docs_in(crate, name, [file for file in source.rglob("*.rs") if not rust.is_test(file, source)])


def docs_of_folder(folder, name):
    """Returns all docs in `folder`, those of tests included; their files begin with `name`."""
    ours = [file for file in folder.rglob("*.rs") if not BUILT & set(file.relative_to(folder).parts)]
    return docs_in(folder, name, ours)


def docs_in(folder, name, files):
    """Returns all docs of the files below `folder`; their names begin with `name`."""
    code = {file: file.read_text() for file in sorted(files)}
    docs = []
    public_modules = set(re.findall(r"\bpub\s+mod\s+(\w+)\s*;", "".join(code.values())))
    for file, text in code.items():
        module = file.parent.name if file.name == "mod.rs" else file.stem
        is_public_module = file.name == "lib.rs" or module in public_modules
        found = list(blocks(text, f"{name}/{file.relative_to(folder)}"))
        items = Items(text)
        for kind, doc in found:
            doc.is_public = is_public_module if kind == "!" else items.is_public(doc.at + len(doc.lines))
            docs.append(doc)
    return docs


def blocks(text, file):
    """Yields each doc comment, with `/` or `!` for its kind."""
    kind, doc = None, None
    for number, line in enumerate([*text.split("\n"), ""], 1):
        found = DOC.match(line)
        if doc and not (found and found[1] == kind):
            if any(part.strip() for part in doc.lines):
                yield kind, doc
            doc = None
        if found:
            kind = found[1]
            doc = doc or Doc(file, number, [])
            doc.lines.append(found[2] or "")


class Items:
    """The items of a file, of which each line can be asked whether the one that begins there is public."""

    def __init__(self, text):
        self.code = rust.blanked(text)
        self.lines = [0, *(found.end() for found in re.finditer("\n", self.code))]
        # From where to where the members of a block are public without a word.
        self.places, self.states = [0], [False]
        stack, head = [False], 0
        for found in re.finditer(r"[{};]", self.code):
            if found[0] == "{":
                block = self.code[head : found.start()]
                is_of_public = stack[-1] and not re.search(r"\bfn\b", block)
                stack.append(is_of_public or bool(PUBLIC_BLOCK.search(block)))
            elif found[0] == "}" and len(stack) > 1:
                stack.pop()
            head = found.end()
            self.places.append(head)
            self.states.append(stack[-1])

    def is_public(self, line):
        """Returns whether the first item at or after the line, which counts from 1, is public."""
        place = self.lines[min(line, len(self.lines)) - 1]
        while attribute := rust.ATTRIBUTE.match(self.code, place):
            place = attribute.end()
        return bool(PUBLIC.match(self.code, place)) or self.states[bisect.bisect_right(self.places, place) - 1]


def main():
    asked = ratchet.parser(__doc__, FILE, FOLDERS).parse_args()
    found = {crate: docs_of(ratchet.ROOT / "crates" / crate, f"crates/{crate}") for crate in ratchet.crates()}
    found |= {folder: docs_of_folder(ratchet.ROOT / folder, folder) for folder in FOLDERS}
    counts, told = {}, {}
    print(f"{'':20}{'docs':>6}{'free':>6}{'':7}" + "".join(f"{measure:>9}" for measure in list(MEASURES)[1:]))
    for crate, docs in found.items():
        told[crate] = {measure: [] for measure in MEASURES}
        for doc in docs:
            for measure, line, text in doc.offences():
                told[crate][measure].append(f"{doc.file}:{line}: {measure}: {text}")
        counts[crate] = {measure: len(lines) for measure, lines in told[crate].items()}
        free, *others = counts[crate].values()
        print(
            f"{crate:20}{len(docs):6}{free:6}{free / max(1, len(docs)):7.1%}"
            + "".join(f"{count:9}" for count in others)
        )
    for crate in asked.show:
        for lines in told[crate].values():
            print(*lines, sep="\n", end="\n" if lines else "")

    check_pages()

    def mend(crate, measure):
        return MEASURES[measure] + ratchet.listed(told[crate][measure], "voice.py", crate)

    ratchet.conclude(FILE, counts, asked.bless, mend)


if __name__ == "__main__":
    main()
