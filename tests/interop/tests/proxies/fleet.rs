//! The proxies, as processes on ports of this machine alone.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rescind_interop::peers::proxy;

use crate::client::Version;

/// The time in which a proxy has to come up.
const COMES_UP_IN: Duration = Duration::from_secs(30);

/// The proxies, their configurations, and how each is run with one.
const PROXIES: [(&str, &str, &str, &[&str]); 3] = [
    ("nginx", "nginx.conf", include_str!("nginx.conf"), &["-c"]),
    ("haproxy", "haproxy.cfg", include_str!("haproxy.cfg"), &["-db", "-f"]),
    (
        "caddy",
        "Caddyfile",
        include_str!("Caddyfile"),
        &["run", "--adapter", "caddyfile", "--config"],
    ),
];

/// Proxies that end with this.
pub(crate) struct Fleet {
    running: Vec<Child>,
    /// The address of each name in the configurations. Some proxies need one for each version of HTTP.
    addresses: BTreeMap<String, SocketAddr>,
}

impl Fleet {
    /// Runs the proxies in front of a server. Returns `None` if one of them is not installed.
    pub(crate) fn new(server: SocketAddr) -> Option<Self> {
        let programs = PROXIES.iter().map(|(name, ..)| proxy(name)).collect::<Option<Vec<_>>>()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxies");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("it can be made");
        let mut fleet = Self { running: Vec::new(), addresses: BTreeMap::new() };
        // All ports are held until all are found, so none is found twice.
        let mut held = Vec::new();
        for name in PROXIES.iter().flat_map(|(_, _, text, _)| names(text)) {
            if name.contains('/') {
                let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
                let address = listener.local_addr().expect("it is bound");
                fleet.addresses.insert(name.to_owned(), address);
                held.push(listener);
            }
        }
        drop(held);
        for (program, (name, file, text, arguments)) in programs.into_iter().zip(PROXIES) {
            let mut text = text.replace("@server@", &server.to_string());
            text = text.replace("@folder@", &folder.to_string_lossy());
            for (name, address) in &fleet.addresses {
                text = text.replace(&format!("@{name}@"), &address.to_string());
            }
            let file = folder.join(file);
            fs::write(&file, text).expect("it can be written");
            let said =
                fs::File::create(folder.join(format!("{name}.log"))).expect("it can be made");
            let child = Command::new(&program[0])
                .args(arguments)
                .arg(&file)
                // Caddy keeps something there.
                .env("HOME", &folder)
                .env("XDG_DATA_HOME", &folder)
                .env("XDG_CONFIG_HOME", &folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(said)
                .spawn();
            fleet.running.push(child.expect("the proxy starts"));
        }
        fleet.await_all(&folder);
        Some(fleet)
    }

    /// Returns the address of a configuration, if it is one of a proxy.
    pub(crate) fn address(&self, place: &str, version: Version) -> Option<SocketAddr> {
        let number = if version == Version::Http1 { 1 } else { 2 };
        let of_version = self.addresses.get(&format!("{place}/{number}"));
        of_version.or_else(|| self.addresses.get(place)).copied()
    }

    fn await_all(&mut self, folder: &Path) {
        let begun = Instant::now();
        let names: Vec<_> = self.addresses.clone().into_iter().collect();
        for (name, address) in names {
            while TcpStream::connect(address).is_err() {
                let ended = self.running.iter_mut().any(|it| !matches!(it.try_wait(), Ok(None)));
                let said = PROXIES.map(|(name, ..)| {
                    fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default()
                });
                assert!(!ended && begun.elapsed() < COMES_UP_IN, "{name} is not up: {said:#?}");
                sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.running {
            // It may have ended.
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Returns the names between two signs `@`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('@').skip(1).step_by(2))
}
