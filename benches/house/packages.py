#!/usr/bin/env python3
"""Checks what a registry shows of each package that is published, and what is in its archive.

Usage: benches/house/packages.py FOLDER

FOLDER has the archives: `cargo package --workspace --no-verify` writes them into `package` of the target directory.
"""

import json
import pathlib
import subprocess
import sys
import tarfile

FIELDS = ("description", "documentation", "readme", "repository", "license", "rust_version", "keywords", "categories")
FILES = ("README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml")


def flaws(package, readme, names):
    """Returns the flaws of one package: `readme` is the text of its README, `names` are the files in its archive."""
    found = [f"it has no {field}" for field in FIELDS if not package[field]]
    if not ((package["metadata"] or {}).get("docs") or {}).get("rs", {}).get("all-features"):
        found.append("docs.rs does not build it with all features")
    if package["documentation"] != f"https://docs.rs/{package['name']}":
        found.append("its documentation is elsewhere")
    found += [f"its README does not list the feature {name}" for name in package["features"]
              if name != "default" and f"`{name}`" not in readme]
    if f"Rust version is {package['rust_version']}." not in readme:
        found.append("its README states another minimum Rust version")
    found += [f"{name} is not in its archive" for name in FILES if name not in names]
    return found


def published():
    """Returns the packages of the workspace that are published, as cargo describes them."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [package for package in told["packages"] if package["publish"] != []]


def main():
    folder, errors, packages = pathlib.Path(sys.argv[1]), [], published()
    for package in packages:
        root = f"{package['name']}-{package['version']}"
        with tarfile.open(folder / f"{root}.crate") as archive:
            names = {name.removeprefix(f"{root}/") for name in archive.getnames()}
        readme = (pathlib.Path(package["manifest_path"]).parent / "README.md").read_text(encoding="utf-8")
        errors += [f"error: {package['name']}: {flaw}" for flaw in flaws(package, readme, names)]
    if errors:
        sys.exit("\n".join(errors))
    print(len(packages), "packages have what a registry shows.")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main()
