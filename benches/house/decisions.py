#!/usr/bin/env python3
"""Checks that nothing outside the machine of protocol-core decides what becomes of a call or a request.

Usage: benches/house/decisions.py [--envelopes]

1. The compiler lets nobody else name a table, an input or a transition, nor write a phase, as long as they are private
   to `machine/`. So the modules of the tables are private, `machine/mod.rs` re-exports no more of them than EXPORTED,
   and the fields `phase` and `life` are visible in `machine/` at most.
2. What is re-exported could be named: no file outside `machine/` names a phase, nor writes a field `phase` or `life`.
   A step may be named, to carry it out. The code of protocol-relay is read too.
3. With --envelopes: no file under `connection/` names `Envelope` or compares an envelope; it may pass one on.

Tests are not read. An exception is in ALLOWED, with its reason.
"""

import argparse
import pathlib
import re
import sys

import ratchet
import rust

CORE = "crates/protocol-core/src"
RELAY = "crates/protocol-relay/src"
# The tables: this file, and all in the folder of the same name.
TABLES = "machine/table"
# The names that may be re-exported of the tables: phases as public values to look at, steps to be carried out.
EXPORTED = ("CallPhase", "RequestPhase", "RequestStep")
# A file, the name that it may use, and the reason.
ALLOWED = {
    (f"{CORE}/lib.rs", "RequestPhase"): "Machine::request_phase returns it to hosts, which look at it",
}

RE_EXPORT = re.compile(r"\bpub(?:\s*\(\s*crate\s*\))?\s+use\s+([^;]+);")
PUBLIC_MODULE = re.compile(r"\bpub\b(?!\s*\(\s*(?:super|self)\s*\))[^;{}]*?\bmod\s+(\w+)")
PUBLIC_FIELD = re.compile(r"\bpub(?:\s*\(\s*crate\s*\))?\s+(phase|life)\s*:")
ITEM = re.compile(
    r"^\s*pub(?:\s*\([^)]*\))?\s+(?:const\s+|unsafe\s+)*(?:enum|struct|type|trait|const|static|fn)\s+(\w+)", re.M
)
METHODS = re.compile(r"\bimpl\b[^;{]*\{")
WRITTEN = re.compile(r"\.\s*(phase|life)\s*=(?![=>])")
# The type's name, without which nothing can be matched with a variant, or a comparison. To pass one on is neither.
ENVELOPE = re.compile(r"\bEnvelope\b|\benvelope\s*[=!]=|[=!]=\s*[\w.&*()]*\benvelope\b")


def read(root, folder):
    """Returns the code of each file in a folder, by its name from the root."""
    source = root / folder
    files = [file for file in sorted(source.rglob("*.rs")) if not rust.is_test(file, source)]
    return {file.relative_to(root).as_posix(): rust.without_tests(rust.blanked(file.read_text())) for file in files}


def named_in_tables(code):
    """Returns the names of all items that the code of a table shows to others; methods are no names of their own."""
    while found := METHODS.search(code):
        code = code[: found.start()] + code[rust.closing(code, found.start()) :]
    return set(ITEM.findall(code))


def visible(machine, tables, names):
    """Yields an error for each thing that the compiler would let others name or write."""
    modules = {pathlib.Path(file).stem for file in tables} - {"mod"}
    for file, code in machine.items():
        for found in PUBLIC_MODULE.finditer(code):
            if found[1] in modules:
                yield f"{at(file, code, found)}: the module {found[1]} holds tables: make it private"
        for found in PUBLIC_FIELD.finditer(code):
            yield f"{at(file, code, found)}: the field {found[1]} can be written outside machine/: make it `pub(super)`"
        for found in RE_EXPORT.finditer(code):
            words = set(re.findall(r"\w+|\*", found[1]))
            if "*" in words and words & modules:
                words |= names
            for name in sorted(words & names - set(EXPORTED)) if file not in tables else ():
                yield f"{at(file, code, found)}: {name} is of the tables: do not re-export it"


def named_outside(outside, names):
    """Yields an error for each name of the tables that is no step, and for each phase that is written."""
    # A function of theirs may have the name of a field elsewhere, and can't be called where the compiler hides it.
    types = sorted(name for name in names if name[0].isupper() and not name.endswith("Step"))
    forbidden = re.compile(rf"\b(?:{'|'.join(types)})\b")
    for file, code in outside.items():
        for found in forbidden.finditer(code):
            if (file, found[0]) not in ALLOWED:
                yield f"{at(file, code, found)}: names {found[0]}, which is of the tables: ask the machine for a step"
        for found in WRITTEN.finditer(code):
            yield f"{at(file, code, found)}: writes a field {found[1]}: only a transition in machine/ does"


def envelopes(outside):
    """Yields an error for each place under connection/ that asks which envelope there is."""
    for file, code in outside.items():
        if file.startswith(f"{CORE}/connection/"):
            lines = sorted({rust.line_of(code, found.start()) for found in ENVELOPE.finditer(code)})
            for line in lines if (file, "Envelope") not in ALLOWED else ():
                text = code.splitlines()[line - 1].strip()
                yield f"{file}:{line}: asks which envelope there is, in `{text}`: let envelope/ or the dialect answer that"


def at(file, code, found):
    return f"{file}:{rust.line_of(code, found.start())}"


def errors_of(root, with_envelopes):
    core = read(root, CORE)
    machine = {file: code for file, code in core.items() if file.startswith(f"{CORE}/machine/")}
    of_tables = (f"{CORE}/{TABLES}.rs", f"{CORE}/{TABLES}/")
    tables = {file: code for file, code in machine.items() if file.startswith(of_tables)}
    names = set().union(*map(named_in_tables, tables.values()))
    if not names:
        return [f"{of_tables[0]}: no tables: say in TABLES of benches/house/decisions.py where they are"]
    outside = {file: code for file, code in core.items() if file not in machine} | read(root, RELAY)
    stale = [(file, name) for file, name in ALLOWED if not re.search(rf"\b{name}\b", outside.get(file, ""))]
    errors = [f"{file}:1: names {name} no more: take it out of ALLOWED in decisions.py" for file, name in stale]
    errors += [*visible(machine, tables, names), *named_outside(outside, names)]
    return errors + (list(envelopes(outside)) if with_envelopes else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envelopes", action="store_true", help="check point 3")
    errors = errors_of(ratchet.ROOT, parser.parse_args().envelopes)
    if errors:
        sys.exit("\n".join(f"error: {error}" for error in errors))
    print(f"Nothing outside {CORE}/machine decides. Exceptions:")
    for (file, name), reason in ALLOWED.items():
        print(f"  {file} names {name}: {reason}")


if __name__ == "__main__":
    main()
