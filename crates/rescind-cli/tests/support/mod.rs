//! The program under test, run with a deadline, and a peer that speaks to its standard streams.

#[cfg(unix)]
pub(crate) mod listening;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// A server that reports when it works, and responds with a result once it is cancelled.
pub(crate) const STUBBORN: [&str; 3] = [
    "sh",
    "-c",
    r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
    read line; echo '{"jsonrpc":"2.0","method":"working"}'
    read line; echo '{"jsonrpc":"2.0","id":2,"result":"done"}'; read line; true"#,
];

/// Longer than anything takes on a loaded machine. A wait of this length would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Does something with each item, with so many of them at once: most of what is tested here waits.
pub(crate) fn at_once<T: Send>(
    count: usize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    does: impl Fn(T) + Sync,
) {
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while let Some(item) = next() {
                    does(item);
                }
            });
        }
    });
}

/// A program that is killed when it takes too long, or the test fails.
pub(crate) struct Program {
    child: Child,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl From<Child> for Program {
    fn from(child: Child) -> Self {
        Self { child }
    }
}

impl Program {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The output of a run of the program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// Runs `rescind` to its end.
pub(crate) fn rescind<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Said {
    rescind_with(arguments, &[])
}

pub(crate) fn rescind_with<S: AsRef<str>>(
    arguments: impl IntoIterator<Item = S>,
    environment: &[(&str, &str)],
) -> Said {
    let mut running = Running::start(arguments, environment);
    running.end()
}

/// Runs `rescind conform` to its end, whenever that is. Its patience bounds each wait, and the machine decides how many
/// there are.
pub(crate) fn conform<S: AsRef<str>>(arguments: impl IntoIterator<Item = S> + Clone) -> Said {
    let run = || {
        let mut running = Running::start(arguments.clone(), &[]);
        running.program.child.wait().unwrap();
        running.end()
    };
    judged(run, |said| said.stdout.clone())
}

/// Runs `rescind conform` until all its verdicts are clear, five times at most: a machine may be too slow to tell.
pub(crate) fn judged<T>(mut run: impl FnMut() -> T, stdout: impl Fn(&T) -> String) -> T {
    let mut ended = run();
    for _ in 1..5 {
        if !stdout(&ended).contains(" unclear, ") {
            break;
        }
        ended = run();
    }
    ended
}

/// A run of `rescind` whose standard error is read as it comes.
pub(crate) struct Running {
    program: Program,
    begun: Instant,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: String,
}

impl Running {
    pub(crate) fn start<S: AsRef<str>>(
        arguments: impl IntoIterator<Item = S>,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(RESCIND);
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command.envs(environment.iter().copied());
        command.args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let program = Program { child };
        Self { program, begun, stdout: lines(stdout), stderr: lines(stderr), seen: String::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Waits for a line of standard error with all of these in it.
    pub(crate) fn says(&mut self, parts: &[&str]) -> String {
        loop {
            let line = match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(_) => panic!("no line with {parts:?} after:\n{}", self.seen),
            };
            self.seen.push_str(&line);
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
        }
    }

    pub(crate) fn end(&mut self) -> Said {
        let code = self.program.wait().code();
        let took = self.begun.elapsed();
        let mut stderr = std::mem::take(&mut self.seen);
        stderr.extend(self.stderr.iter());
        Said { code, stdout: self.stdout.iter().collect(), stderr, took }
    }
}

pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
            if send.send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    receive
}

/// Returns a terminal, and the program's end of it.
#[cfg(target_os = "linux")]
pub(crate) fn terminal() -> (std::fs::File, std::os::fd::OwnedFd) {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    // Who has our side, too, keeps the terminal from being closed.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    // To a session leader it would become the terminal, and its end would end these tests by SIGHUP.
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let mut options = std::fs::File::options();
    let theirs = options.read(true).write(true).custom_flags(flags).open(name.to_str().unwrap());
    (std::fs::File::from(ours), theirs.unwrap().into())
}

/// Sends it the signal.
#[cfg(unix)]
pub(crate) fn signal(id: u32, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    rustix::process::kill_process(id, signal).unwrap();
}

/// A dialect as a peer of the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    JsonRpc,
    Acp,
    Lsp,
}

impl Dialect {
    pub(crate) const ALL: [Self; 3] = [Self::JsonRpc, Self::Acp, Self::Lsp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "jsonrpc",
            Self::Acp => "acp",
            Self::Lsp => "lsp",
        }
    }

    /// Returns the cancel of a request, where there is one.
    pub(crate) fn cancel(self, id: u64) -> Option<Value> {
        let (method, params) = match self {
            Self::JsonRpc => return None,
            Self::Acp => ("$/cancel_request", json!({ "requestId": id })),
            Self::Lsp => ("$/cancelRequest", json!({ "id": id })),
        };
        Some(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    fn frame(self, message: &str) -> String {
        match self {
            Self::Lsp => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
            Self::JsonRpc | Self::Acp => format!("{message}\n"),
        }
    }

    fn read(self, stream: &mut impl BufRead) -> Option<Value> {
        let mut line = String::new();
        let mut length = None;
        while stream.read_line(&mut line).ok()? > 0 {
            let text = std::mem::take(&mut line);
            match (self, text.trim_end()) {
                (Self::Lsp, "") => {
                    let mut message = vec![0; length?];
                    stream.read_exact(&mut message).ok()?;
                    return serde_json::from_slice(&message).ok();
                }
                (Self::Lsp, header) => {
                    length = header.strip_prefix("Content-Length: ")?.parse().ok();
                }
                (_, message) => return serde_json::from_str(message).ok(),
            }
        }
        None
    }
}

/// `rescind serve` under test.
pub(crate) struct Server {
    pub(crate) dialect: Dialect,
    program: Program,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    stderr: Receiver<String>,
}

impl Server {
    pub(crate) fn start(runtime: &str, dialect: Dialect) -> Self {
        let mut command = Command::new(RESCIND);
        command.args(["serve", "--runtime", runtime, "--dialect", dialect.name()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, output) = channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            while let Some(message) = dialect.read(&mut stdout) {
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        Self { dialect, program: Program { child }, input, output, stderr: lines(stderr) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Writes the messages in one write.
    pub(crate) fn send_text<S: AsRef<str>>(&mut self, messages: impl IntoIterator<Item = S>) {
        let messages: Vec<String> =
            messages.into_iter().map(|message| self.dialect.frame(message.as_ref())).collect();
        self.input.as_mut().unwrap().write_all(messages.concat().as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, messages: impl IntoIterator<Item = Value>) {
        self.send_text(messages.into_iter().map(|message| message.to_string()));
    }

    pub(crate) fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send([request(id, method, params)]);
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let cancel = self.dialect.cancel(id).expect("the dialect has a cancel");
        self.send([cancel]);
    }

    pub(crate) fn receive(&self) -> Value {
        self.output.recv_timeout(PATIENCE).expect("a message")
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.program.wait().code()
    }

    /// Hangs up and waits for the end. Returns the exit code, the rest of its messages, and its complaints.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        self.input = None;
        let code = self.program.wait().code();
        (code, self.output.iter().collect(), self.stderr.iter().collect())
    }
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    match params {
        Value::Null => json!({ "jsonrpc": "2.0", "id": id, "method": method }),
        params => json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
    }
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Returns the response to a request that was cancelled.
pub(crate) fn cancelled(id: u64) -> Value {
    let error = json!({ "code": -32800, "message": "Request cancelled" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
