#!/usr/bin/env python3
"""Checks the documentation of everything, and that docs/policy.md names the packages whose types are in our interfaces.

Usage: benches/house/interfaces.py

Rustdoc writes JSON here, under the lints that it has for pages. The packages are those in the JSON of each published
library. The format is unstable. Where the compiler writes a version of it that this program does not know, nothing is
compared: that is a reason to skip, which is written to the file that RESCIND_SKIPPED names, if there is one.
CARGO_TARGET_DIR is obeyed.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from packages import published

HOUSE = pathlib.Path(__file__).resolve().parent
ROOT = HOUSE.parents[1]
POLICY = ROOT / "docs" / "policy.md"
# The sections that name packages. Nothing may stand in the first one that is in no interface.
SECTIONS = ("Other packages in our interfaces", "Packages with versions of their own")
FORMAT = 57
STANDARD = {"std", "core", "alloc"}
# Users depend on the packages that re-export these.
PART_OF = {"serde_core": "serde", "async_net": "smol", "async_task": "smol"}


def foreign(crate):
    """Returns the other crates that the public items of a crate name, of what rustdoc says about it."""
    names = {int(number): other["name"] for number, other in crate["external_crates"].items()}
    items = [item["inner"] for item in crate["index"].values() if item["crate_id"] == 0]
    paths = [crate["paths"].get(str(id)) for inner in items if not is_of_every_type(inner) for id in named(inner)]
    found = {names[path["crate_id"]] for path in paths if path and path["crate_id"] != 0}
    return {PART_OF.get(name, name) for name in found - STANDARD}


def unread(crates):
    """Returns why these can't be read, if that is so."""
    others = sorted({crate["format_version"] for crate in crates} - {FORMAT})
    return others and f"rustdoc writes format {others[0]}, and benches/house/interfaces.py reads {FORMAT}"


def skip(reason):
    """Says that nothing is compared, and leaves the reason for the summary of all checks."""
    print(f"skipped: {reason}")
    if listed := os.environ.get("RESCIND_SKIPPED"):
        with open(listed, "a", encoding="utf-8") as out:
            out.write(f"{reason}\n")


def is_of_every_type(inner):
    """Returns whether an item implements an auto trait, or another crate's trait that every type has."""
    implementation = inner.get("impl", {})
    return bool(implementation.get("blanket_impl") or implementation.get("is_synthetic"))


def named(node):
    """Yields the ids of the paths and of the imports in a part of an item."""
    if isinstance(node, dict):
        if ("path" in node or "source" in node) and isinstance(node.get("id"), int):
            yield node["id"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from named(part)


def on_page(page):
    """Returns the packages that each of the sections names, as names of crates."""
    texts = [re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1] for section in SECTIONS]
    return [{name.replace("-", "_") for name in re.findall(r"`([a-z_-]+)`", text)} for text in texts]


def flaws(found, page):
    """Returns the differences between a page and the crates found, by the library that has their types."""
    first, second = on_page(page)
    flaws = [f"{library} has types of {name}, which {POLICY.name} does not name"
             for library, names in found.items() for name in sorted(names - first - second)]
    return flaws + [f"{POLICY.name} names {name}, whose types no interface has"
                    for name in sorted(first - set().union(*found.values()))]


def libraries():
    """Returns the names of the packages that are published, with those of their libraries. That of a program is its own business."""
    libraries = {}
    for package in published():
        kinds = {kind: target["name"] for target in package["targets"] for kind in target["kind"]}
        if "bin" not in kinds:
            libraries[package["name"]] = kinds["lib"]
    return libraries


def main():
    ours = libraries()
    flags = "-D warnings -Zunstable-options --output-format json"
    env = os.environ | {"RUSTDOC": str(HOUSE / "rustdoc-json"), "RUSTDOCFLAGS": flags}
    subprocess.run(["cargo", "doc", "--locked", "--workspace", "--no-deps", "--all-features"], check=True, cwd=ROOT, env=env)
    folder = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "doc"
    read = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ours.values()}
    if reason := unread(read.values()):
        skip(reason)
        return
    found = {name: foreign(crate) - set(ours.values()) for name, crate in read.items()}
    errors = flaws(found, POLICY.read_text(encoding="utf-8"))
    if errors:
        sys.exit("\n".join(f"error: {error}" for error in errors))
    print(f"{len(found)} libraries have types of {len(set().union(*found.values()))} other packages, all on the page.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    main()
