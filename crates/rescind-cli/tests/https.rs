//! `https://`: TLS under MCP over HTTP, with HTTP/2 where the server takes it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use protocol_http::server::{Server, ServerOptions};
use protocol_router::Router;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::connect::{Client, NEWEST};
use crate::support::{PATIENCE, Said, rescind};
use crate::tls::Identity;

/// An event of a server.
#[derive(Debug, PartialEq, Eq)]
enum Report {
    /// A connection has opened, on which this protocol was agreed on.
    Opened(Option<Vec<u8>>),
    Cancelled(String),
}

/// A server over TLS. Its tool `wait` takes until it is cancelled, and any other returns at once.
struct Serving {
    url: String,
    reports: Receiver<Report>,
}

impl Serving {
    /// Starts a server that takes these protocols.
    fn start(identity: &Identity, protocols: &[&str]) -> Self {
        let chain = CertificateDer::pem_file_iter(identity.file("certificate")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                chain.map(Result::unwrap).collect(),
                PrivateKeyDer::from_pem_file(identity.file("key")).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
        let (tell, reports) = channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve(listener, acceptor, &tell));
        });
        Self { url, reports }
    }

    fn report(&self) -> Report {
        self.reports.recv_timeout(PATIENCE).unwrap()
    }
}

async fn serve(listener: std::net::TcpListener, acceptor: TlsAcceptor, tell: &Sender<Report>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let told = tell.clone();
    let router = Router::new()
        .request("server/discover", async |_: Value, _| {
            Ok(json!({ "supportedVersions": [NEWEST], "capabilities": {}, "ttlMs": 0, "cacheScope": "public" }))
        })
        .request("tools/call", move |params: Value, cx| {
            let told = told.clone();
            async move {
                cx.progress(json!({ "progress": 0 })).await?;
                if params["name"] == "wait" {
                    let forever = std::future::pending::<()>();
                    if let Err(cancelled) = cx.cancellation().unless_cancelled(forever).await {
                        let _ = told.send(Report::Cancelled(cancelled.cause.to_string()));
                        return Err(cancelled.into());
                    }
                }
                Ok(json!({ "content": [], "resultType": "complete" }))
            }
        });
    let server = Server::new(ServerOptions::default(), move |_peer, incoming| {
        let router = router.clone();
        async move { _ = router.serve(&incoming).await }
    });
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, server, tell) = (acceptor.clone(), server.clone(), tell.clone());
        tokio::spawn(async move {
            // A client may not trust us.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            let _ = tell.send(Report::Opened(protocol));
            server.serve_connection(stream).await;
        });
    }
}

/// Calls a tool of a server, which has to have this certificate.
fn call(url: &str, identity: &Identity, more: &[&str], tool: &str) -> Said {
    let ca = identity.file("certificate");
    let first = ["call", "--connect", url, "--ca", &ca, "--dialect", "mcp-2026-07-28-http"];
    let meta = json!({ "progressToken": 1 });
    let params = json!({ "name": tool, "arguments": {}, "_meta": meta }).to_string();
    rescind([&first, more, &["tools/call", &params]].concat())
}

#[test]
fn call_speaks_tls_and_the_best_protocol_that_the_server_takes() {
    let identity = Identity::new("https-call", &["localhost"]);
    for (taken, agreed) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let server = Serving::start(&identity, taken);
        let said = call(&server.url, &identity, &[], "echo");
        assert_eq!(said.code, Some(0), "{taken:?}: {said:?}");
        assert_eq!(server.report(), Report::Opened(agreed.map(<[u8]>::to_vec)));
        let cancel = ["--cancel-on", "notifications/progress"];
        let said = call(&server.url, &identity, &cancel, "wait");
        assert_eq!(said.code, Some(3), "{taken:?}: {said:?}");
        let cancelled = server.reports.iter().find(|it| !matches!(it, Report::Opened(_)));
        assert_eq!(cancelled, Some(Report::Cancelled("peer".into())), "{taken:?}");
    }
}

#[test]
fn a_relay_cancels_by_a_reset_and_its_connection_of_http2_goes_on() {
    let identity = Identity::new("https-relay", &["localhost"]);
    let server = Serving::start(&identity, &["h2", "http/1.1"]);
    let ca = identity.file("certificate");
    let mut client = Client::start(&server.url, NEWEST, &["--ca", &ca]);
    for id in 1..=3 {
        client.call(id, "wait", &json!({}));
        assert_eq!(client.receive()["params"]["progressToken"], id);
        client.cancel(id);
    }
    client.call(4, "echo", &json!({}));
    assert_eq!(client.response()["id"], 4);
    assert_eq!(client.end().0, Some(0));
    let mut reports: Vec<_> = (0..5).map(|_| server.report()).collect();
    reports.sort_by_key(|report| matches!(report, Report::Cancelled(_)));
    // The first connection is the one that finds out whether the server is there.
    let opened = || Report::Opened(Some(b"h2".to_vec()));
    let cancelled = || Report::Cancelled("peer".into());
    assert_eq!(reports, [opened(), opened(), cancelled(), cancelled(), cancelled()]);
    assert!(server.reports.try_recv().is_err());
}

#[test]
fn a_client_takes_no_certificate_of_another_server_and_no_plain_server() {
    let (identity, other) =
        (Identity::new("https-own", &["localhost"]), Identity::new("https-other", &["localhost"]));
    let server = Serving::start(&identity, &["h2"]);
    let said = call(&server.url, &other, &[], "echo");
    assert_eq!(said.code, Some(6), "{said:?}");
    assert!(said.stderr.contains("certificate"), "{said:?}");
    let ca = other.file("certificate");
    for more in [&["--ca", &ca][..], &[]] {
        let said = rescind([&["relay", "--connect", &server.url], more].concat());
        assert_eq!(said.code, Some(6), "{said:?}");
        assert!(said.stderr.contains("certificate"), "{said:?}");
    }
    let plain = crate::http::Serving::start(&[]);
    let url = plain.url().replace("http:", "https:");
    assert_eq!(call(&url, &identity, &[], "echo").code, Some(6));
}
