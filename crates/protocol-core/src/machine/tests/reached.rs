//! The arms of the tables that random programs take: all but those for impossible pairs (F83).

use std::format;
use std::string::String;
use std::vec::Vec;

use crate::machine::table::arms;

#[path = "../../../tests/random_dialects/program/mod.rs"]
mod program;

/// The programs that take every arm a few times.
const PROGRAMS: u64 = 4_000;

#[test]
fn f83_every_arm_but_the_impossible_is_taken() {
    arms::taken();
    (0..PROGRAMS).for_each(program::run);
    let taken = arms::taken();
    let (possible, impossible) = arms::all();
    let missing = show(possible.difference(&taken));
    assert!(missing.is_empty(), "no program takes these arms:\n{missing}");
    let wrong = show(impossible.intersection(&taken));
    assert!(wrong.is_empty(), "these arms are not impossible:\n{wrong}");
}

/// Returns the lines of these arms, and their texts.
fn show<'a>(lines: impl Iterator<Item = &'a u32>) -> String {
    let source: Vec<&str> = include_str!("../table.rs").lines().collect();
    let arm = |&line: &u32| {
        // The step stands in the last line of an arm, and its first one is indented so.
        let above = &source[..line as usize];
        let first = above.iter().rposition(|text| text.starts_with("            ("));
        let arm: Vec<&str> = above[first.unwrap_or(0)..].iter().map(|text| text.trim()).collect();
        format!("{line}: {}\n", arm.join(" "))
    };
    lines.map(arm).collect()
}
