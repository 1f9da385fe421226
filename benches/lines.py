#!/usr/bin/env python3
"""Counts a Rust crate: lines of code, its longest functions, its public names.

Usage: benches/lines.py CRATE [--longest COUNT] [--names]
                        [--most-lines LINES] [--most-function LINES] [--most-file LINES] [--most-names COUNT]
                        [--table FILE]

CRATE is a folder with `src/lib.rs` (or `src/main.rs`); or, of a Python package, the folder with `__init__.py`.

- A line of code has something on it that is no comment. Items under `#[cfg(test)]` are not counted, nor are files named
  `tests.rs` or in a folder `tests`.
- A function is as long as from its signature to its last brace, comments and blank lines included.
- A file is as long as it is: comments, blank lines and tests count, and files of tests too.
- Public names are what a user can write after the crate's name: what lib.rs declares or re-exports publicly, and the
  same of its public modules. A name that is reachable by two paths counts once; public modules, methods, fields and
  variants don't count.
  Of Python: what `__all__` says.

With one of the four limits, it fails if there is more. FILE, from `src/`, holds tables that are one `match` each. Its
functions have as many arms as there are cases, so `--most-function` does not hold for them.
"""

import argparse
import ast
import pathlib
import re
import sys

from house.rust import blanked, closing, is_test, without_tests

ITEM = re.compile(
    r"(?P<public>pub\s+)?(?:(?:default|const|async|unsafe)\s+|extern\s+\"[^\"]*\"\s+)*"
    r"(?P<kind>struct|enum|union|trait|fn|const|static|type|mod|use|impl)\b\s*(?P<rest>[^;{]*(?:\{[^;]*\}\s*;|)?)"
)


class Rust:
    def __init__(self, crate):
        self.source = crate / "src"
        self.files = {}
        for file in sorted(self.source.rglob("*.rs")):
            if not is_test(file, self.source):
                self.files[file] = without_tests(blanked(file.read_text()))

    def lines(self):
        return sum(bool(line.strip()) for text in self.files.values() for line in text.splitlines())

    def functions(self):
        for file, text in self.files.items():
            for found in re.finditer(r"\bfn\s+(\w+)", text):
                end = closing(text, found.end())
                if text[end - 1] == "}":
                    first = text.count("\n", 0, found.start()) + 1
                    length = text.count("\n", found.start(), end) + 1
                    yield length, f"{file.relative_to(self.source)}:{first} {found[1]}"

    def longest_file(self):
        return longest(self.source, self.source.rglob("*.rs"))

    def names(self):
        root = self.source / "lib.rs"
        return self.of_module(root, self.source, self.files.get(root, ""), set())

    def of_module(self, file, folder, text, seen):
        """The public names of a module, whose children are in `folder`."""
        if (file, text) in seen:
            return set()
        seen.add((file, text))
        modules, names, uses, at = {}, set(), [], 0
        while found := ITEM.search(text, at):
            kind, rest = found["kind"], found["rest"]
            at = end = closing(text, found.start())
            name = re.match(r"\w*", rest)[0]
            if kind == "mod":
                inner = text[found.end("rest") : end] if text[end - 1] == "}" else None
                modules[name] = inner[inner.find("{") + 1 : -1] if inner is not None else None
            if not found["public"]:
                continue
            if kind == "use":
                uses += paths(text[found.start("rest") : end].rstrip(";"))
            elif kind == "mod":
                names |= self.child(name, modules[name], folder, seen)
            else:
                names.add(name)
        names |= set(re.findall(r"#\[macro_export\]\s*macro_rules!\s*(\w+)", text))
        for path, name in uses:
            parts = [part for part in path if part not in ("self", "crate")]
            if name == "*" and parts and parts[0] in modules:
                names |= self.child(parts[0], modules[parts[0]], folder, seen)
            elif name != "*":
                names.add(name)
        return names

    def child(self, name, inner, folder, seen):
        if inner is not None:
            return self.of_module(folder / name, folder / name, inner, seen)
        for file in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if file in self.files:
                return self.of_module(file, folder / name, self.files[file], seen)
        return set()


def paths(tree):
    """The paths that a `use` names, each with the name that it gives."""
    tree = re.sub(r"\s+", " ", tree).strip()
    if group := re.search(r"\{(.*)\}$", tree):
        before = [part for part in tree[: group.start()].split("::") if part.strip()]
        depth, parts, part = 0, [], ""
        for char in group[1] + ",":
            if char == "," and depth == 0:
                parts.append(part.strip())
                part = ""
                continue
            depth += (char == "{") - (char == "}")
            part += char
        return [(before + path, name) for part in parts if part for path, name in paths(part)]
    path, _, alias = tree.partition(" as ")
    parts = path.strip().split("::")
    return [(parts[:-1], alias.strip() or parts[-1])]


class Python:
    def __init__(self, package):
        files = [file for file in sorted(package.rglob("*.py")) if "tests" not in file.relative_to(package).parts]
        self.package = package
        self.texts = {file: file.read_text() for file in files}

    def lines(self):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        count = 0
        for text in self.texts.values():
            stripped = map(str.strip, text.splitlines())
            lines = {number for number, line in enumerate(stripped, 1) if line and not line.startswith("#")}
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, documented) and ast.get_docstring(node) is not None:
                    lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
            count += len(lines)
        return count

    def functions(self):
        for file, text in self.texts.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    length = node.end_lineno - node.lineno + 1
                    yield length, f"{file.relative_to(self.package)}:{node.lineno} {node.name}"

    def longest_file(self):
        return longest(self.package, self.texts)

    def names(self):
        """All of the `__all__` that `__init__.py` says, or adds up of its modules'."""
        names, package = set(), self.texts[self.package / "__init__.py"]
        for file, text in self.texts.items():
            own = re.search(r"^__all__\s*=\s*[\[(]([^\])]*)[\])]", text, re.M)
            if own and (file.name == "__init__.py" or f"{file.stem}.__all__" in package):
                names |= set(re.findall(r"[\"'](\w+)[\"']", own[1]))
        return names


def longest(folder, files):
    """Returns the lines and the name of the longest file."""
    return max((file.read_text().count("\n"), str(file.relative_to(folder))) for file in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crate", type=pathlib.Path)
    parser.add_argument("--longest", type=int, default=5, help="how many functions are printed")
    parser.add_argument("--names", action="store_true", help="print the names")
    for limit in ("lines", "function", "file", "names"):
        parser.add_argument(f"--most-{limit}", type=int)
    parser.add_argument("--table", metavar="FILE", help="has functions of any length")
    asked = parser.parse_args()
    counted = Python(asked.crate) if (asked.crate / "__init__.py").exists() else Rust(asked.crate)
    lines, names = counted.lines(), sorted(counted.names())
    functions = sorted(counted.functions(), reverse=True)
    print(f"{lines:,} lines of code, {len(names)} public names, {len(functions)} functions; the longest:")
    for length, where in functions[: asked.longest]:
        print(f"{length:5}  {where}")
    if asked.names:
        print(*names)
    bounded = [found for found in functions if not (asked.table and found[1].startswith(f"{asked.table}:"))]
    length, where = bounded[0] if bounded else (0, "no function")
    limits = {"lines of code": (lines, asked.most_lines), "public names": (len(names), asked.most_names)}
    limits[f"lines in one function ({where})"] = (length, asked.most_function)
    length, where = counted.longest_file()
    limits[f"lines in one file ({where})"] = (length, asked.most_file)
    over = [f"{found:,} {what}, {most:,} allowed" for what, (found, most) in limits.items() if most and found > most]
    if over:
        sys.exit(f"error: {asked.crate}: " + "; ".join(over))


if __name__ == "__main__":
    main()
