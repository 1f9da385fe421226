#!/usr/bin/env python3
"""Finds files of a crate that import each other in a circle. No count may rise above benches/house/circles.toml.

Usage: benches/house/circles.py [--show CRATE]... [--bless] [--pure]

What is counted is the imports that tie circles: those of a file by another, where the second also reaches the first.
Several names that one file imports of another are one import.

A file imports another if a `use` or a path in its code, such as `crate::a::b` or `super::x`, leads to a module of that
file. Only the modules of a path are followed, not the names: what a parent re-exports from a child is imported from the
parent, and `pub use child::X` is an import of the child. No imports are: `mod child;`, links in docs, methods, `pub(in
path)`, and all under `#[cfg(test)]`. To mend a circle, put what both need into a file that imports neither.
"""

import collections
import dataclasses
import pathlib
import re
import sys

import ratchet
import rust

FILE = pathlib.Path(__file__).with_name("circles.toml")
# The crates that may have none, whatever circles.toml says: the pure ones, and those that were freed of all.
PURE = ("protocol-core", "protocol-endpoint", "protocol-http", "protocol-json", "protocol-operations", "protocol-relay")
FREED = ("protocol-child", "protocol-websocket")

# In a macro the name of a module may be one of its variables.
MODULE = re.compile(r"\bmod\s+(\$?\w+)\s*([;{])")
# A string is blanked in code, so the file of a `#[path]` is read from the text before that.
PLACED = re.compile(
    r"#\[[^\]]*\bpath\s*=\s*\"([^\"]+)\"\)?\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s*(?:\([^)]*\)\s*)?)?mod\s+(\w+)\s*;"
)
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:\w+\s*::\s*)+\w+")


@dataclasses.dataclass
class Part:
    """The code of one module in one file; a module has several if `#[cfg]` chooses between files."""

    module: tuple
    file: pathlib.Path
    code: str


class Crate:
    """The modules of a crate, and for each file what it imports of which others."""

    def __init__(self, source):
        self.source = source
        self.parts = []
        self.files = collections.defaultdict(set)
        root = next((source / name for name in ("lib.rs", "main.rs") if (source / name).exists()), None)
        if root:
            self.read(root, (), source)
        self.names = {part.file: part.file.relative_to(source).as_posix() for part in self.parts}
        # From file to file to the lines and the names.
        self.imports = collections.defaultdict(lambda: collections.defaultdict(list))
        for part in self.parts:
            self.follow(part)

    def read(self, file, module, folder):
        """Reads a file, and those of its modules, which are in `folder`."""
        if not file.exists() or rust.is_test(file, self.source):
            return
        text = file.read_text()
        placed = [(name, file.parent / path) for path, name in PLACED.findall(text)]
        self.take(file, module, folder, rust.without_tests(rust.blanked(text)), placed)

    def take(self, file, module, folder, code, placed):
        """Takes the code of a module, without that of the modules in it, which are parts of their own."""
        self.files[module].add(file)
        at = 0
        while found := MODULE.search(code, at):
            name, at = found[1], found.end()
            child = (*module, name)
            if found[2] == ";":
                elsewhere = [path for other, path in placed if other == name]
                for path in (folder / f"{name}.rs", folder / name / "mod.rs", *elsewhere):
                    self.read(path, child, path.parent if path.name == "mod.rs" else path.parent / path.stem)
            else:
                end = rust.closing(code, at - 1)
                inner = "\n" * code.count("\n", 0, at) + code[at : end - 1]
                self.take(file, child, folder / name, inner, placed)
                code = code[:at] + "\n" * code.count("\n", at, end) + "}" + code[end:]
        self.parts.append(Part(module, file, code))

    def follow(self, part):
        """Notes all imports of a part."""
        renamed, code = {}, part.code
        for found in USE.finditer(code):
            line = rust.line_of(code, found.start())
            for path, name in uses(found[1]):
                target, rest = self.resolve(part.module, path, renamed)
                if target is None:
                    continue
                if not rest:
                    renamed[name] = target
                elif rest == ["*"]:
                    renamed |= {module[-1]: module for module in self.files if module and module[:-1] == target}
                self.note(part.file, target, line, rest[0] if rest else path[-1])
        code = USE.sub(lambda found: "\n" * found[0].count("\n"), code)
        for found in PATH.finditer(code):
            path = re.split(r"\s*::\s*", found[0])
            target, rest = self.resolve(part.module, path, renamed)
            if target is not None and rest:
                self.note(part.file, target, rust.line_of(code, found.start()), rest[0])

    def resolve(self, module, path, renamed):
        """Returns the module to which a path in `module` leads, and the rest of the path; or no module."""
        first, *rest = path
        if first == "crate":
            module = ()
        elif first == "self":
            pass
        elif first == "super":
            module = module[:-1]
        elif first in renamed:
            module = renamed[first]
        elif (*module, first) in self.files:
            module = (*module, first)
        else:
            return None, path
        while rest and (rest[0] == "super" or (*module, rest[0]) in self.files):
            module = module[:-1] if rest[0] == "super" else (*module, rest[0])
            rest = rest[1:]
        return module, rest

    def note(self, file, module, line, name):
        for target in self.files[module] - {file}:
            self.imports[file][target].append((line, name))

    def circles(self):
        """Returns the circles, each a sorted list of files, the longest first."""
        reached = {file: self.reach(file) for file in sorted(self.imports)}
        circles = []
        for file in reached:
            if file in reached[file] and not any(file in circle for circle in circles):
                circles.append(sorted(other for other in reached[file] if file in reached.get(other, ())))
        return sorted(circles, key=len, reverse=True)

    def reach(self, file):
        seen, waiting = set(), [file]
        while waiting:
            for target in self.imports.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    def ties(self, circle):
        """Returns each import that ties a circle, as the two files."""
        return [(file, target) for file in circle for target in sorted(self.imports[file]) if target in circle]

    def told(self, circle, folder):
        """Yields a line for the circle, and one for each import that ties it; names of files begin with `folder`."""
        yield f"{folder}: a circle of {len(circle)} files: {' '.join(self.names[file] for file in circle)}"
        for file, target in self.ties(circle):
            found = self.imports[file][target]
            names = ", ".join(dict.fromkeys(name for _, name in found))
            yield f"{folder}/{self.names[file]}:{min(found)[0]}: imports {names} of {self.names[target]}"


def uses(text):
    """Yields each path of a `use`, in parts, and the name that it has afterwards."""
    head, brace, group = text.partition("{")
    if not brace:
        path, _, name = " ".join(text.split()).partition(" as ")
        path = path.replace(" ", "").split("::")
        yield path, name or path[-1]
        return
    begin = [part for part in re.sub(r"\s", "", head).split("::") if part]
    for member in members(group[: group.rindex("}")]):
        for path, name in uses(member):
            if path == ["self"]:
                yield begin, begin[-1] if name == "self" else name
            else:
                yield begin + path, name


def members(group):
    """Yields what stands between the braces of a `use`, member by member."""
    depth, start = 0, 0
    for at, char in enumerate(group + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if member := group[start:at].strip():
                yield member
            start = at + 1


def main():
    parser = ratchet.parser(__doc__, FILE)
    parser.add_argument("--pure", action="store_true", help="fail if a pure or freed crate has any circle")
    asked = parser.parse_args()
    counts, told = {}, {}
    for name in ratchet.crates():
        crate = Crate(ratchet.ROOT / "crates" / name / "src")
        circles = crate.circles()
        counts[name] = {"imports": sum(len(crate.ties(circle)) for circle in circles)}
        told[name] = [line for circle in circles for line in crate.told(circle, f"crates/{name}/src")]
        files = f"{sum(map(len, circles)):3} of {len(crate.names):3} files in them"
        print(f"{name:20} circles: {len(circles):2}, {files}, imports that tie them: {counts[name]['imports']:3}")
    for name in asked.show:
        print(*told[name], sep="\n", end="\n" if told[name] else "")

    def mend(name, _):
        where = ratchet.listed(told[name], "circles.py", name)
        return f"put what both files need into a third that imports neither{where}"

    ratchet.conclude(FILE, counts, asked.bless, mend)
    if asked.pure and (bad := [name for name in PURE + FREED if counts[name]["imports"]]):
        sys.exit(f"error: {', '.join(bad)}: this crate has no circle: {mend(bad[0], None)}")


if __name__ == "__main__":
    main()
