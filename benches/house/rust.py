"""Reads Rust sources as text: without comments, without what is in quotes, without tests."""

import re

NOISE = re.compile(
    r"""//[^\n]*|/\*|\b[bc]?r(?P<hashes>\#*)"|[bc]?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\(?:x..|u\{[^}]*\}|.))'""", re.S
)
EDGE = re.compile(r"/\*|\*/")
BRACKET = re.compile(r"[{}()\[\];]")
TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
ATTRIBUTE = re.compile(r"\s*#\[[^\]]*\]")


def blanked(text):
    """Returns the text without comments and without what is in quotes. Each line keeps its number."""
    out, at = [], 0
    while found := NOISE.search(text, at):
        out.append(text[at : found.start()])
        token, end = found[0], found.end()
        if token == "/*":
            depth = 1
            while depth and (edge := EDGE.search(text, end)):
                depth += 1 if edge[0] == "/*" else -1
                end = edge.end()
            token = text[found.start() : end]
            out.append("\n" * token.count("\n"))
        elif not token.startswith("//"):
            hashes = found["hashes"]
            if hashes is not None:
                close = text.find('"' + hashes, end)
                end = len(text) if close < 0 else close + 1 + len(hashes)
                token = text[found.start() : end]
            out.append('""' + '""\n' * token.count("\n"))
        at = end
    return "".join(out) + text[at:]


def closing(text, at):
    """Returns the place behind the brace that closes the first one from `at` on, or behind a semicolon before that."""
    depth = 0
    for found in BRACKET.finditer(text, at):
        bracket = found[0]
        if bracket in "{([":
            depth += 1
        elif bracket in "})]":
            depth -= 1
            if depth == 0 and bracket == "}":
                return found.end()
        elif depth == 0:
            return found.end()
    return len(text)


def without_tests(text):
    """Blanks every item under `#[cfg(test)]`. Each line keeps its number."""
    while found := TEST.search(text):
        end = found.end()
        while more := ATTRIBUTE.match(text, end):
            end = more.end()
        end = closing(text, end)
        text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    return text


def is_test(file, source):
    """Returns whether a file below `source` holds tests alone, by its name."""
    return file.name == "tests.rs" or "tests" in file.relative_to(source).parts


def line_of(text, place):
    return text.count("\n", 0, place) + 1
