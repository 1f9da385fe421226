"""Counts that may only go down, in a file with a table for each crate; and the command line of their checks."""

import argparse
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def crates(root=ROOT):
    """Returns the names of all crates, in order."""
    return sorted(manifest.parent.name for manifest in (root / "crates").glob("*/Cargo.toml"))


def parser(text, file, folders=()):
    """Returns a parser of the options of these checks, for crates and `folders`; a check may add to it."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--show",
        metavar="CRATE",
        action="append",
        default=[],
        choices=[*crates(), *folders],
        help="print all that counts in CRATE",
    )
    made.add_argument(
        "--bless", action="store_true", help=f"write the counts that are lower into {file.name}; no count is raised"
    )
    return made


def conclude(file, found, bless, mend):
    """Prints what can be written down, and exits with all errors if there are any."""
    notes, errors = check(file, found, bless, mend)
    if notes:
        print(*notes, sep="\n")
    if errors:
        sys.exit("\n".join(f"error: {error}" for error in errors))


def check(file, found, bless, mend):
    """Compares `found`, counts by crate and measure, with what `file` allows. Returns notes and errors.

    A crate or a measure that the file doesn't name is allowed nothing. With `bless`, lower counts are written into the
    file, and crates that are gone leave it. `mend` returns the end of an error, from its crate and measure.
    """
    text = file.read_text()
    allowed = tomllib.loads(text)
    notes, errors, lower = [], [], {}
    for crate, counts in found.items():
        limits = allowed.get(crate, {})
        lower[crate] = {measure: min(count, limits.get(measure, 0)) for measure, count in counts.items()}
        for measure, count in counts.items():
            limit = limits.get(measure, 0)
            told = f"{place(file, text, crate, measure)}: {measure} of {crate} is {count}"
            if count > limit:
                errors.append(f"{told}, {limit} allowed: {mend(crate, measure)}")
            elif count < limit and not bless:
                notes.append(f"{told}, lower than {limit}: write it down (--bless)")
    if not bless:
        gone = sorted(allowed.keys() - found.keys())
        errors += [
            f"{place(file, text, crate)}: there is no crate {crate}: take its table out (--bless)" for crate in gone
        ]
    elif lower != allowed:
        file.write_text(written(text, lower))
        notes.append(f"wrote {shown(file)}")
    return notes, errors


def listed(lines, script, crate):
    """Returns the lines for the end of an error, or if they are many, how to have them printed."""
    if len(lines) <= 20:
        return "".join(f"\n  {line}" for line in lines)
    return f" (benches/house/{script} --show {crate} lists all)"


def written(text, counts):
    """Returns the text of a file of counts with the comment at the top of `text`."""
    lines = [line for line in text.splitlines() if line.startswith("#")]
    for crate, measures in counts.items():
        lines += ["", f"[{crate}]", *(f"{measure} = {count}" for measure, count in measures.items())]
    return "\n".join(lines) + "\n"


def place(file, text, crate, measure=None):
    """Returns the file with the line of a count, or with that of its table, or with the first."""
    line, table = 1, None
    for number, content in enumerate(text.splitlines(), 1):
        if content.startswith("["):
            table = content.strip("[]")
            line = number if table == crate else line
        elif table == crate and content.split(" ")[0] == measure:
            line = number
    return f"{shown(file)}:{line}"


def shown(file):
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
