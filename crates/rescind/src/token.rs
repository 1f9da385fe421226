//! The secret of a server, which its clients have to know.

use std::fmt::Display;
use std::path::Path;

/// Reads a secret from a file, where it is one line. On a command line everybody on the machine could
/// read it.
pub(crate) fn read(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let refused = |why: &dyn Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused(&"a token is one line of visible ASCII characters"));
    }
    Ok(Some(secret.to_owned()))
}
