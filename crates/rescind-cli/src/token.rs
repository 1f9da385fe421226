//! The secret of a server, which its clients have to know.

use std::fmt::Display;
use std::path::Path;

use crate::input;

/// Reads a secret from a file, where it is one line. On a command line everybody on the machine could
/// read it, and so they could in a file that others can read.
pub(crate) fn read(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let refused = |why: &dyn Display| format!("{}: {why}", path.display());
    if is_for_others(path) {
        let file = path.display().to_string().replace('\'', r"'\''");
        return Err(refused(&format_args!("others can open it: chmod o= '{file}' keeps them out")));
    }
    let text = input::text(path, input::SECRET).map_err(|error| refused(&error))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused(&"a token is one line of visible ASCII characters"));
    }
    Ok(Some(secret.to_owned()))
}

/// Returns whether everybody on the machine can read or write a file. A pipe, as of `<(command)`, is nobody else's.
#[cfg(unix)]
fn is_for_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o006 != 0)
}

#[cfg(not(unix))]
fn is_for_others(_: &Path) -> bool {
    false
}
