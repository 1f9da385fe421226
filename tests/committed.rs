//! Files that are generated and committed: compared by default, rewritten with `BLESS=1`.

use std::path::Path;
use std::{env, fs};

/// Compares a generated text with its committed file, or rewrites the file if `BLESS=1` is set.
///
/// # Errors
///
/// The way to see the difference, line by line.
pub(crate) fn check(path: &Path, generated: &str) -> Result<(), String> {
    let committed = fs::read_to_string(path).unwrap_or_default();
    if committed == generated {
        return Ok(());
    }
    if env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(path, generated).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(());
    }
    Err(format!("{}\n{}", path.display(), difference(&committed, generated)))
}

/// The lines that differ, with what stands before them. `-` is committed, `+` is generated.
fn difference(committed: &str, generated: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (committed.lines().collect(), generated.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new);
    let tail = tail.count();
    let context = old[same.saturating_sub(3)..same].iter().map(|line| format!("  {line}\n"));
    let gone = old[same..old.len() - tail].iter().map(|line| format!("- {line}\n"));
    let come = new[same..new.len() - tail].iter().map(|line| format!("+ {line}\n"));
    context.chain(gone).chain(come).collect()
}
