//! Chromium without a window.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A browser that shows one page, until this is dropped.
#[derive(Debug)]
pub struct Chromium {
    process: Child,
    /// Holds its profile, and what it says.
    folder: PathBuf,
}

/// For a machine without a display, where everybody may be root; and nothing is asked of the
/// network that no page asks for.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
];

impl Chromium {
    /// Opens a page. `name` is one that no other browser has at the same time.
    ///
    /// # Panics
    ///
    /// If the browser does not start.
    #[must_use]
    pub fn open(command: &[String], name: &str, url: &str) -> Self {
        let folder = format!("rescind-chromium-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let said = fs::File::create(folder.join("said")).expect("a file can be made");
        let process = Command::new(&command[0])
            .args(&command[1..])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("--enable-logging=stderr")
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("Chromium starts");
        Self { process, folder }
    }

    /// Returns its output so far, for a page that reports nothing.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Its other processes end when they miss it, and may still write there.
        for _ in 0..50 {
            if fs::remove_dir_all(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
