//! TLS, by rustls: who a server is, and whom a client trusts.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_http::connect::ServerStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::address::Address;
use crate::input;
use crate::socket::Stream;

/// Bytes that wait to be sent below a WebSocket, as text and once more encrypted. Above it the WebSocket waits, whose
/// own buffer is bounded too.
const UNSENT_BYTES: usize = 16 << 10;

/// The certificate that a server shows its clients.
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// The chain of certificates in one file, the key of the first in another, both in PEM.
    pub(crate) fn new(certificates: &Path, key: &Path) -> Result<Self, String> {
        let chain = certificates_in(certificates)?;
        let secret = PrivateKeyDer::from_pem_slice(&text(key)?);
        let secret = secret.map_err(|error| refused(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| refused(certificates, &error))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let accepted = self.0.accept_with(stream, |tls| tls.set_buffer_limit(Some(UNSENT_BYTES)));
        Ok(Box::new(accepted.await?))
    }
}

/// The issuers whose certificates a client takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those signed by the issuers that this machine trusts.
    System,
    /// Those signed by the issuers in this file, and no others.
    Only(PathBuf),
}

impl Trust {
    /// Returns the issuers that are trusted of a server there, which are those in the file if there is one.
    ///
    /// # Errors
    ///
    /// There is a file, and nothing at the address that shows a certificate.
    pub(crate) fn of(file: Option<&Path>, address: &Address) -> Result<Self, String> {
        match file {
            Some(_) if !address.is_secure => Err("--ca is for wss:// and https://".into()),
            Some(file) => Ok(Self::Only(file.into())),
            None => Ok(Self::System),
        }
    }

    /// Makes a client of TLS, which offers these protocols.
    pub(crate) fn client(&self, protocols: &[&[u8]]) -> io::Result<Client> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(self.roots().map_err(io::Error::other)?)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Client(TlsConnector::from(Arc::new(config))))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match self {
            // Some of a machine's may be of a kind that is not read here.
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::Only(file) => {
                for certificate in certificates_in(file)? {
                    roots.add(certificate).map_err(|error| refused(file, &error))?;
                }
            }
        }
        Ok(roots)
    }
}

/// A client of TLS, with the certificates that it takes.
pub(crate) struct Client(TlsConnector);

impl Client {
    /// Makes a stream of TLS, to a server of this name.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> io::Result<ServerStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let bound = |tls: &mut ClientConnection| tls.set_buffer_limit(Some(UNSENT_BYTES));
        let stream = self.0.connect_with(name, stream, bound).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(ServerStream { stream: Box::new(stream), is_http2 })
    }
}

fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(file)?).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(refused(file, &"there is no certificate"))
        }
        certificates => certificates.map_err(|error| refused(file, &error)),
    }
}

/// Returns a file of PEM, which may have comments that are no UTF-8.
fn text(file: &Path) -> Result<Vec<u8>, String> {
    input::bytes(file, input::DESCRIPTION).map_err(|error| refused(file, &error))
}

fn refused(file: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", file.display())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn g08_what_waits_below_a_websocket_is_bounded() {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let taken = |tls: &mut ClientConnection| tls.writer().write(&[0; 1 << 20]).unwrap();
        tls.set_buffer_limit(Some(UNSENT_BYTES));
        assert_eq!([taken(&mut tls), taken(&mut tls)], [UNSENT_BYTES, 0]);
    }
}
