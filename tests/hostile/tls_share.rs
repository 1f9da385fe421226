//! The most that rustls keeps for one connection, with the settings of `rescind serve`. It is no more than the formula
//! counts for it (G8, F47).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::sync::Arc;

use heap::Heap;
use protocol_websocket::TLS_BYTES;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
};

/// As `rescind serve` sets it.
const UNSENT_BYTES: usize = 16 << 10;
const MIB: usize = 1 << 20;

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn serving(config: &Arc<ServerConfig>) -> ServerConnection {
    let mut server = ServerConnection::new(config.clone()).unwrap();
    server.set_buffer_limit(Some(UNSENT_BYTES));
    server
}

/// Has a server read all of it, unless it takes no more.
fn feed(server: &mut ServerConnection, mut bytes: &[u8]) {
    while !bytes.is_empty() && server.read_tls(&mut bytes).is_ok_and(|read| read > 0) {
        if server.process_new_packets().is_err() {
            break;
        }
    }
}

#[test]
fn g08_the_share_of_tls_holds_whatever_a_client_sends_and_reads() {
    let (server_config, client_config) = configs();
    // The parts that are made once for a process are there now.
    drop(serving(&server_config));

    // A ClientHello of 64 KiB that is never whole, in records as long as can be.
    let heap = Heap::of_process();
    let mut server = serving(&server_config);
    let hello = [&[1, 0, 0xFF, 0xFF][..], &[0; 0xFFFF - 64]].concat();
    for piece in hello.chunks(16 << 10) {
        let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
        feed(&mut server, &[&[22, 3, 1][..], &length, piece].concat());
    }
    let unfinished = heap.peak() - hello.len();
    drop((server, hello));

    // Everything at its worst on one connection: answers that nobody reads, text that nobody takes, and a record behind it.
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(client_config, name).unwrap();
    client.set_buffer_limit(None);
    let mut server = serving(&server_config);
    let mut bytes = Vec::new();
    while server.is_handshaking() || client.is_handshaking() {
        bytes.clear();
        client.write_tls(&mut bytes).unwrap();
        feed(&mut server, &bytes);
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    client.writer().write_all(&vec![b'x'; MIB]).unwrap();
    let mut flood = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut flood).unwrap();
    }
    let text = vec![b'x'; MIB];
    drop(bytes);
    let heap = Heap::of_process();
    while server.writer().write(&text).unwrap() > 0 {}
    feed(&mut server, &flood);
    let flooded = heap.peak();
    assert!(server.reader().read(&mut [0]).unwrap() > 0, "there was text");

    println!("an unfinished handshake {unfinished}, a flood {flooded} of {TLS_BYTES}");
    assert!(unfinished <= TLS_BYTES, "{unfinished} of {TLS_BYTES}");
    assert!(flooded <= TLS_BYTES, "{flooded} of {TLS_BYTES}");
    assert!(flooded > UNSENT_BYTES, "{flooded}: nothing was kept");
}
