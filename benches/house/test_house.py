"""Tests of the checks on sources made up for them: python3 -m unittest discover -s benches/house"""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import circles
import decisions
import interfaces
import packages
import ratchet
import voice


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, **files):
        """Writes files, whose names have `__` for a slash and no `.rs`."""
        for name, text in files.items():
            file = self.folder / f"{name.replace('__', '/')}.rs"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


class Circles(WithFolder):
    def circles(self, **files):
        self.write(**files)
        crate = circles.Crate(self.folder)
        return [[crate.names[file] for file in circle] for circle in crate.circles()]

    def test_two_files_that_use_each_other(self):
        found = self.circles(
            lib="mod a; mod b;", a="use crate::b::B; pub struct A(B);", b="use super::a::A; pub struct B(A);"
        )
        self.assertEqual(found, [["a.rs", "b.rs"]])

    def test_one_way_is_no_circle(self):
        self.assertEqual(self.circles(lib="mod a; mod b; use a::A;", a="use crate::b::B;", b="pub struct B;"), [])

    def test_a_path_in_code_is_an_import(self):
        found = self.circles(
            lib="mod a; mod b;", a="fn f() -> crate::b::B { new() }", b="fn g() { super::a::f::<u8>() }"
        )
        self.assertEqual(found, [["a.rs", "b.rs"]])

    def test_a_path_of_an_imported_module_is_one(self):
        found = self.circles(
            lib="mod a; mod b;",
            a="use crate::b as other; fn f() { other::g() }",
            b="use super::a::{self}; fn g() { a::f() }",
        )
        self.assertEqual(found, [["a.rs", "b.rs"]])

    def test_a_path_of_a_module_that_came_with_others_is_one(self):
        files = {
            "lib": "mod m;",
            "m": "mod a; mod b;",
            "m__a": "use super::*; fn f() { b::g() }",
            "m__b": "use super::{\n    a as other,\n};\nuse other::f; fn g() { f() }",
        }
        self.assertEqual(self.circles(**files), [["m/a.rs", "m/b.rs"]])

    def test_a_module_of_a_macro_belongs_to_its_file(self):
        child = "macro_rules! m { ($name:ident) => { mod $name { use super::*; } } }"
        files = {"lib": "mod m;", "m": "mod child; use child::X;", "m__child": child}
        self.assertEqual(self.circles(**files), [])

    def test_a_re_export_of_a_child_that_uses_its_parent(self):
        files = {
            "lib": "mod m;",
            "m__mod": "mod child; pub use child::X; pub struct Y;",
            "m__child": "use super::Y; pub struct X(Y);",
        }
        self.assertEqual(self.circles(**files), [["m/child.rs", "m/mod.rs"]])

    def test_a_child_that_uses_a_sibling_by_its_parents_re_export(self):
        files = {"lib": "mod a; mod b; pub use a::A; pub use b::B;", "a": "use crate::B;", "b": "pub struct B;"}
        self.assertEqual(self.circles(**files), [["a.rs", "lib.rs"]])

    def test_a_child_that_uses_a_sibling_through_super_is_none(self):
        files = {
            "lib": "mod m;",
            "m": "mod a; mod b; pub use self::a::A;",
            "m__a": "use super::b::B;",
            "m__b": "pub struct B;",
        }
        self.assertEqual(self.circles(**files), [])

    def test_three_files(self):
        found = self.circles(
            lib="mod a; mod b; mod c;",
            a="use crate::b::*;",
            b="use crate::{c::C, std::x};",
            c="use crate::{a::{A, A2}};",
        )
        self.assertEqual(found, [["a.rs", "b.rs", "c.rs"]])

    def test_what_is_no_import(self):
        a = """
            //! Links to [`crate::b::B`].
            /// And to [`B`](crate::b::B).
            pub struct A; // crate::b::B
            pub(in crate::b) const TEXT: &str = "crate::b::B";
            impl A { pub(super) fn f(&self) { self.b.f() } }
            #[cfg(test)]
            mod tests { use crate::b::B; }
        """
        self.assertEqual(self.circles(lib="mod a; mod b;", a=a, b="use crate::a::A; impl A { fn g(&self) {} }"), [])

    def test_inner_modules_belong_to_their_file(self):
        files = {
            "lib": "mod a; mod b;",
            "a": "mod inner { use super::super::b::B; use super::X; } struct X;",
            "b": "use crate::a::inner::Y;",
        }
        self.assertEqual(self.circles(**files), [["a.rs", "b.rs"]])

    def test_a_file_elsewhere(self):
        lib = '#[cfg_attr(windows, path = "other/place.rs")]\nmod a; mod b;'
        self.assertEqual(
            self.circles(lib=lib, other__place="use crate::b::B;", b="use crate::a::A;"), [["b.rs", "other/place.rs"]]
        )

    def test_the_names_and_lines_of_a_circle(self):
        self.write(lib="mod a; mod b;", a="\nuse crate::b::{B, C};", b="\n\nuse crate::a::A;")
        crate = circles.Crate(self.folder)
        lines = list(crate.told(crate.circles()[0], "src"))
        self.assertEqual(lines[1:], ["src/a.rs:2: imports B, C of b.rs", "src/b.rs:3: imports A of a.rs"])

    def test_the_names_that_are_reached_by_a_module(self):
        inner = "\nmod inner {\nfn f() { super::super::b::h() } }"
        self.write(
            lib="mod a; mod b;",
            a=inner + "use crate::b as other; fn f() { other::g() }",
            b="use super::a::{self}; fn g() { a::f() }",
        )
        crate = circles.Crate(self.folder)
        lines = list(crate.told(crate.circles()[0], "src"))
        self.assertEqual(lines[1:], ["src/a.rs:3: imports h, b, g of b.rs", "src/b.rs:1: imports a, f of a.rs"])


class Voice(WithFolder):
    def offences(self, text):
        self.write(src__lib=text)
        return [(measure, line) for doc in voice.docs_of(self.folder, "x") for measure, line, _ in doc.offences()]

    def measures(self, text):
        return [measure for measure, _ in self.offences(text)]

    def test_a_free_relative(self):
        self.assertEqual(self.offences("\n/// What it holds of them.\nstruct A;"), [("free", 2)])
        self.assertEqual(self.measures("/// Where there is none, it is\n/// zero: why?\nstruct A;"), ["free"])

    def test_a_question_is_none(self):
        self.assertEqual(self.measures("/// What does it hold? All of it.\nstruct A;"), [])

    def test_sentences_of_pages(self):
        (self.folder / "target").mkdir()
        (self.folder / "target/built.md").write_text("Who made it is gone.\n")
        (self.folder / "page.md").write_text("# Where\n\nIt holds. What it holds is here.\n\n```sh\nWhere\n```\n")
        found = voice.sentences_of_pages(self.folder)
        self.assertEqual(found, [("page.md:3", "It holds."), ("page.md:3", "What it holds is here.")])
        self.assertEqual([voice.is_free(text) for _, text in found], [False, True])

    def test_a_folder_with_its_tests(self):
        for file in ("tests/a.rs", "peers/b/src/main.rs", "target/built.rs"):
            (self.folder / file).parent.mkdir(parents=True)
            (self.folder / file).write_text("/// What it holds.\nstruct A;\n")
        docs = voice.docs_of_folder(self.folder, "x")
        self.assertEqual([doc.file for doc in docs], ["x/peers/b/src/main.rs", "x/tests/a.rs"])

    def test_one_or_two_words(self):
        self.assertEqual(self.measures("struct A {\n/// Its id.\nid: u8,\n/// The row's id.\nrow: u8 }"), ["tiny"])

    def test_long_sentences(self):
        for count, is_public, expected in [
            (25, True, []),
            (26, True, ["over_25"]),
            (26, False, []),
            (31, False, ["over_30"]),
        ]:
            item = "pub struct A;" if is_public else "struct A;"
            self.assertEqual(self.measures(f"/// The {'word ' * (count - 2)}end. It goes on.\n{item}"), expected)

    def test_a_sentence_ends_with_its_item_its_paragraph_and_at_a_block_of_code(self):
        words = "word " * 20
        for between in [
            "/// -",
            "/// 1.",
            "///\n///",
            "/// # H\n///",
            "/// | a | b |\n///",
            "/// ```\n/// let x = 1;\n/// ```\n///",
        ]:
            separated = f"/// {words}\n{between} {words}\nstruct A;"
            self.assertEqual(self.measures(separated), [], separated)
        self.assertEqual(self.measures(f"/// {words}\n/// {words}\nstruct A;"), ["over_30"])

    def test_the_line_of_a_sentence_is_that_of_its_paragraph(self):
        self.assertEqual(self.offences(f"/// It is one.\n///\n/// - It {'is ' * 30}.\nstruct A;"), [("over_30", 3)])

    def test_codes_in_the_first_line_of_public_items(self):
        self.assertEqual(self.measures("/// Marks it (G3).\n#[must_use]\npub fn f() {}"), ["codes"])
        self.assertEqual(self.measures("/// Marks it.\n/// (G3)\npub fn f() {}"), [])
        self.assertEqual(self.measures("/// Marks it (G3).\npub(crate) fn f() {}"), [])

    def test_variants_and_items_of_traits_are_as_public_as_what_they_are_in(self):
        for head, expected in [("pub enum", ["codes"] * 2), ("enum", []), ("pub(crate) enum", [])]:
            text = head + " A<T, U> {\n/// One of G1.\nB { \n/// Field of G2.\nc: u8 } }"
            self.assertEqual(self.measures(text), expected)
        self.assertEqual(self.measures("pub trait A {\n/// Does as F12 says.\nfn f() { let x = 1; } }"), ["codes"])
        self.assertEqual(self.measures("pub trait A { fn f() { \n/// Does as F12 says.\nlet x = 1; } }"), [])


class Ratchet(WithFolder):
    def check(self, text, found, bless=False):
        file = self.folder / "counts.toml"
        file.write_text(text)
        notes, errors = ratchet.check(file, found, bless, lambda crate, measure: "mend it")
        return [len(notes), len(errors)], file.read_text()

    def test_only_higher_fails(self):
        self.assertEqual(self.check("[a]\nx = 3\n", {"a": {"x": 4}})[0], [0, 1])
        self.assertEqual(self.check("[a]\nx = 3\n", {"a": {"x": 3}})[0], [0, 0])
        self.assertEqual(self.check("[a]\nx = 3\n", {"a": {"x": 2}})[0], [1, 0])

    def test_what_is_not_named_is_allowed_nothing(self):
        self.assertEqual(self.check("", {"a": {"x": 0}})[0], [0, 0])
        self.assertEqual(self.check("", {"a": {"x": 1}})[0], [0, 1])

    def test_a_crate_that_is_gone_is_an_error(self):
        self.assertEqual(self.check("[a]\nx = 3\n", {})[0], [0, 1])

    def test_bless_lowers_and_never_raises(self):
        text = "# Why.\n\n[a]\nx = 3\ny = 3\n\n[gone]\nx = 1\n"
        counts, written = self.check(text, {"a": {"x": 2, "y": 4}}, bless=True)
        self.assertEqual(counts, [1, 1])
        self.assertEqual(written, "# Why.\n\n[a]\nx = 2\ny = 3\n")

    def test_an_error_names_the_line(self):
        file = self.folder / "counts.toml"
        file.write_text("[b]\nx = 0\n\n[a]\ny = 1\nx = 0\n")
        _, errors = ratchet.check(file, {"a": {"x": 4, "y": 0}, "b": {"x": 0}}, False, lambda crate, measure: "mend it")
        self.assertEqual(errors, [f"{file}:6: x of a is 4, 0 allowed: mend it"])


class Decisions(WithFolder):
    GOOD = {
        "machine__mod": "mod table; mod calls; pub use table::{CallPhase, RequestPhase, RequestStep};",
        "machine__table": """
            pub enum CallPhase { Sent }
            pub enum RequestPhase { Running }
            pub enum RequestStep { Nothing }
            pub(super) enum CallInput { Answered }
            pub(super) const CALL_TABLE: [u8; 1] = [0];
            impl CallPhase { pub(super) const fn on(self) {} }
            pub(super) const fn grace() {}
        """,
        "machine__calls": "pub(super) struct Call { pub(super) phase: CallPhase }",
        "lib": "pub use machine::RequestPhase;",
        "connection__mod": "use crate::machine::RequestStep; fn f() { read(dialect.envelope); RequestStep::Nothing }",
        "stream": "fn f() { self.phase == other.grace }",
    }

    def errors(self, envelopes=True, **changed):
        files = {**self.GOOD, **changed}
        self.write(**{f"crates__protocol-core__src__{name}": text for name, text in files.items()})
        return decisions.errors_of(self.folder, envelopes)

    def test_what_is_good(self):
        self.assertEqual(self.errors(), [])

    def test_tables_in_files_of_their_own(self):
        table = "mod call;\npub use call::{CallInput, CallPhase};\npub enum RequestPhase {}\npub enum RequestStep {}"
        call = "pub enum CallInput {}\npub enum CallPhase {}"
        self.assertEqual(self.errors(machine__table=table, machine__table__call=call), [])
        self.assertEqual(len(self.errors(stream="use crate::machine::table::CallInput;")), 1)

    def test_each_thing_that_must_not_be(self):
        wrong = [
            ("machine__mod", "pub(crate) mod table;"),
            ("machine__mod", "pub use table::CallInput;"),
            ("machine__mod", "pub(crate) use self::table::{CALL_TABLE as T, RequestStep};"),
            ("machine__mod", "pub(crate) use self::table::*;"),
            ("machine__calls", "pub(crate) struct Call { pub(crate) phase: CallPhase }"),
            ("stream", "fn f(x: CallPhase) {}"),
            ("stream", "fn f() { row.phase = other; }"),
            ("connection__mod", "use crate::machine::table::CALL_TABLE;"),
            ("lib", ""),
        ]
        for name, text in wrong:
            # A glob is an error for each of three names.
            self.assertEqual(len(self.errors(**{name: text})), 3 if "*" in text else 1, text)
            self.write(**{f"crates__protocol-core__src__{name}": ""})

    def test_what_asks_for_an_envelope(self):
        for text in [
            "use crate::dialect::Envelope;",
            "fn f() { dialect.envelope == x }",
            "fn f() { x != self.dialect().envelope }",
        ]:
            self.assertEqual(len(self.errors(connection__mod=text)), 1, text)
            self.assertEqual(self.errors(envelopes=False, connection__mod=text), [])
        tests = "#[cfg(test)]\nmod tests { use crate::dialect::Envelope; }"
        self.assertEqual(self.errors(connection__mod=tests), [])

    def test_tables_that_have_moved(self):
        (self.folder / "crates/protocol-core/src/machine").mkdir(parents=True)
        self.assertIn("TABLES", decisions.errors_of(self.folder, False)[0])


class Packages(unittest.TestCase):
    README = "## Features\n\n`fast`\n\nThe minimum Rust version is 1.85.\n"
    NAMES = {"README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"}

    def package(self, **changed):
        whole = dict.fromkeys(packages.FIELDS, "something") | {
            "name": "one", "documentation": "https://docs.rs/one", "rust_version": "1.85",
            "features": {"default": [], "fast": []}, "metadata": {"docs": {"rs": {"all-features": True}}},
        }
        return whole | changed

    def test_a_whole_package_has_no_flaw(self):
        self.assertEqual(packages.flaws(self.package(), self.README, self.NAMES), [])

    def test_what_lacks_is_named(self):
        lacking = self.package(description=None, metadata=None, features={"slow": []}, rust_version="1.90")
        self.assertEqual(len(packages.flaws(lacking, self.README, self.NAMES - {"LICENSE-MIT"})), 5)


class Interfaces(unittest.TestCase):
    PAGE = """# Versions
## Other packages in our interfaces
Types of `serde` and `http-body`.
## Packages with versions of their own
`ours` has those of `lsp-types`.
"""

    def crate(self, *items):
        """A crate as rustdoc describes it, with the crates 1 to 5 beside it."""
        names = {1: "core", 2: "serde_core", 3: "http_body", 4: "lsp_types", 5: "tracing"}
        return {
            "format_version": interfaces.FORMAT,
            "external_crates": {str(number): {"name": name} for number, name in names.items()},
            "paths": {str(number): {"crate_id": number} for number in range(6)},
            "index": {str(10 + n): {"crate_id": 0, "inner": inner} for n, inner in enumerate(items)},
        }

    def test_types_bounds_and_imports_of_others_are_found(self):
        argument = {"function": {"inputs": [["it", {"resolved_path": {"path": "Body", "id": 3}}]]}}
        bound = {"trait": {"bounds": [{"trait_bound": {"trait": {"path": "Serialize", "id": 2}}}]}}
        imported = {"use": {"source": "lsp_types", "id": 4}}
        found = interfaces.foreign(self.crate(argument, bound, imported))
        self.assertEqual(found, {"http_body", "serde", "lsp_types"})

    def test_the_standard_library_and_what_every_type_implements_are_none(self):
        blanket = {"impl": {"trait": {"path": "Instrument", "id": 5}, "blanket_impl": {"generic": "T"}}}
        clone = {"impl": {"trait": {"path": "Clone", "id": 1}, "blanket_impl": None, "is_synthetic": False}}
        self.assertEqual(interfaces.foreign(self.crate(blanket, clone)), set())

    def test_the_page_names_what_is_found_and_nothing_else(self):
        self.assertEqual(interfaces.flaws({"a": {"serde", "http_body", "lsp_types"}}, self.PAGE), [])
        self.assertEqual(interfaces.flaws({"a": {"serde", "tracing"}}, self.PAGE), [
            "a has types of tracing, which policy.md does not name",
            "policy.md names http_body, whose types no interface has",
        ])

    def test_another_format_is_a_reason_to_skip(self):
        self.assertFalse(interfaces.unread([self.crate()]))
        reason = interfaces.unread([self.crate(), self.crate() | {"format_version": 99}])
        self.assertIn("format 99", reason)
        with tempfile.NamedTemporaryFile() as listed, mock.patch.dict(os.environ, RESCIND_SKIPPED=listed.name):
            with contextlib.redirect_stdout(io.StringIO()):
                interfaces.skip(reason)
            self.assertEqual(listed.read().decode(), f"{reason}\n")


if __name__ == "__main__":
    unittest.main()
