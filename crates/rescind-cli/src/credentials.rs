//! Credentials: the secret that a client shows and a listener asks for, and the certificates that a client takes.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::address::Address;
use crate::input;
use crate::process::option;
use crate::tls::Trust;

/// The credentials of a client. The command has an argument `connect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CredentialArgs {
    /// Show the secret in this file, one line, as a bearer token
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,

    /// Of a `wss://` or `https://` server, take only a certificate that is signed by one in this file, of PEM [default:
    /// those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,
}

impl CredentialArgs {
    /// Returns the secret that is shown, if there is one.
    pub(crate) fn token(&self) -> Result<Option<String>, String> {
        token(self.token_file.as_deref())
    }

    /// Returns the issuers whose certificates are taken of a server there.
    pub(crate) fn trust(&self, address: &Address) -> Result<Trust, String> {
        Trust::of(self.ca.as_deref(), address)
    }

    /// Returns the arguments that these options were read from.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        let token = option("--token-file", self.token_file.as_ref().map(|file| file.display()));
        token.chain(option("--ca", self.ca.as_ref().map(|file| file.display())))
    }
}

/// Reads a secret from a file, where it is one line. On a command line everybody on the machine could
/// read it, and so they could in a file that others can read.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<String>, String> {
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
