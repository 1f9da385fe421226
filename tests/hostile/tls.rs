//! A certificate for this machine, and a client that trusts nothing else.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The paths of a certificate and its key, and the configuration of a client that trusts them.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) trust: Arc<ClientConfig>,
}

/// The same for all tests.
pub(crate) fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let file = |name: &str, pem: String| {
            let file = directory.join(name);
            std::fs::write(&file, pem).unwrap();
            file.to_str().unwrap().to_owned()
        };
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let trust = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Identity {
            certificate: file("certificate", made.cert.pem()),
            key: file("key", made.signing_key.serialize_pem()),
            trust: Arc::new(trust),
        }
    })
}
