//! The heap of a connection over the adapter's real streams: standard streams that are pipes, sockets
//! or files, and the pipes of a child process. It stays under the formula of `Options::memory`.
//!
//! This program starts itself once more as the server, so it has no harness.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(not(unix))]
fn main() {
    println!("skipped: the streams are those of Unix");
}

#[cfg(unix)]
fn main() {
    match std::env::var("SERVER").as_deref() {
        Ok(kind) => unix::serve(kind),
        Err(_) => unix::judge(),
    }
}

#[cfg(unix)]
mod unix {
    use std::env;
    use std::fs::{DirEntry, File};
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{self, Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use heap::Heap;
    use protocol_async::{Arrival, Options};
    use protocol_core::{Config, Dialect};
    use serde_json::value::to_raw_value;

    /// The messages of a flood.
    const FLOOD: usize = 20_000;
    /// The bytes of a file that is read on a thread, beside the two buffers of `pipe_bytes`. They are those of
    /// `std::io::stdin` and `stdout`, and those that the thread takes.
    const THREADS: usize = 16 << 10;

    fn options() -> Options {
        let mut config = Config::server(Dialect::JSON_RPC);
        config.limits.message_bytes = 8 << 10;
        config.limits.header_bytes = 256;
        config.limits.id_bytes = 64;
        config.limits.calls = 64;
        config.limits.requests = 64;
        config.limits.unsent_bytes = 16 << 10;
        config.limits.unsent_messages = 128;
        config.limits.batch_members = 64;
        config.limits.abandoned_ids = 16;
        config.limits.early_cancels = 16;
        let mut options = Options::new(config);
        options.inbox_bytes = 16 << 10;
        options.work_requests = 32;
        options.work_bytes = 16 << 10;
        options.response_bytes = 16 << 10;
        options.result_bytes = 16 << 10;
        options.pipe_bytes = 4 << 10;
        options
    }

    /// Makes the executor's thread and the reactor, which every connection shares.
    fn warm_up() {
        smol::block_on(smol::spawn(async {
            smol::Timer::after(Duration::from_millis(1)).await;
            let (mut near, far) = smol::net::unix::UnixStream::pair().unwrap();
            smol::io::AsyncWriteExt::close(&mut near).await.unwrap();
            drop(far);
        }));
    }

    /// Serves the flood on standard streams, sends more than anybody reads, and reports the heap.
    pub(super) fn serve(kind: &str) {
        warm_up();
        let memory = options().memory();
        let heap = Heap::of_process();
        let connection = protocol_smol::stdio(options());
        let params = to_raw_value(&["x".repeat(1 << 10)]).unwrap();
        let (mut taken, mut blocked) = (0, 0);
        smol::block_on(async {
            while let Ok(arrival) = connection.incoming.receive().await {
                taken += 1;
                blocked = blocked.max(threads_that_block());
                let _ = connection.peer.try_notify_raw("n", Some(&params));
                if let Arrival::Request(_, responder) = arrival {
                    responder.answer(Ok(to_raw_value("done").unwrap()));
                }
            }
        });
        drop(connection);
        let most = memory.total() + if kind == "file" { 2 * (4 << 10) + THREADS } else { 0 };
        let peak = heap.peak();
        eprintln!("{kind}: {peak} bytes at most, {most} by the formula, {taken} taken");
        assert!(taken > 0, "the flood arrives: {taken}");
        // Elsewhere it takes a thread to read a pipe.
        if cfg!(target_os = "linux") {
            assert_eq!(blocked > 0, kind == "file", "{kind}: {blocked} threads block");
        }
        assert!(peak <= most, "{kind}: {peak} bytes were held\n{memory}");
        process::exit(0);
    }

    /// Counts smol's threads that block.
    fn threads_that_block() -> usize {
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
        let name = |task: std::io::Result<DirEntry>| {
            std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
        };
        tasks.filter_map(name).filter(|name| name.starts_with("blocking")).count()
    }

    pub(super) fn judge() {
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut child = server("pipe", input, output);
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        flood(stdin, stdout, drop);
        ends(child);

        let (near, far) = UnixStream::pair().unwrap();
        let stdin = Stdio::from(OwnedFd::from(far.try_clone().unwrap()));
        let child = server("socket", stdin, Stdio::from(OwnedFd::from(far)));
        let writer = near.try_clone().unwrap();
        flood(writer, near, |writer| writer.shutdown(Shutdown::Write).unwrap());
        ends(child);

        let path = env::temp_dir().join(format!("f98-{}", process::id()));
        let mut file = File::create(&path).unwrap();
        (0..FLOOD).for_each(|id| file.write_all(message(id).as_bytes()).unwrap());
        let child = server("file", Stdio::from(File::open(&path).unwrap()), Stdio::null());
        ends(child);
        std::fs::remove_file(&path).unwrap();

        f98_the_pipes_of_a_child_stay_under_the_formula();
        println!("f98: all streams stay under the formula");
    }

    fn server(kind: &str, input: Stdio, output: Stdio) -> Child {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env("SERVER", kind).stdin(input).stdout(output).spawn().unwrap()
    }

    fn ends(mut child: Child) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Some(status) = child.try_wait().unwrap() {
                return assert!(status.success(), "{status}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        panic!("the server does not end");
    }

    fn message(id: usize) -> String {
        let text = "x".repeat(id % 2_000);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":["{text}"]}}"#) + "\n"
    }

    /// Writes a flood before a byte is read. Then reads until the end.
    fn flood<W: Write>(mut writer: W, mut reader: impl Read, end: impl FnOnce(W)) {
        (0..FLOOD).for_each(|id| writer.write_all(message(id).as_bytes()).unwrap());
        end(writer);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert!(!all.is_empty());
    }

    /// One child sends more than anybody takes. Another reads nothing.
    fn f98_the_pipes_of_a_child_stay_under_the_formula() {
        let flood =
            r#"yes '{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}' | head -n 200000"#;
        for (name, line) in [("floods", flood), ("reads nothing", "sleep 1000")] {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            let mut options = options();
            options.patience = Duration::from_millis(50);
            let memory = options.memory();
            warm_up();
            let heap = Heap::of_process();
            let child = protocol_smol::ChildCommand::new(command).grace(Duration::from_millis(50));
            let child = protocol_smol::child(child, options).unwrap();
            let params = to_raw_value(&["x".repeat(1 << 10)]).unwrap();
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until {
                let _ = child.peer.try_notify_raw("n", Some(&params));
            }
            let peak = heap.peak();
            println!("a child that {name}: {peak} bytes at most");
            assert!(peak <= memory.total(), "{name}: {peak} bytes\n{memory}");
            drop((child.peer, child.incoming));
            smol::block_on(child.process.exit()).unwrap();
        }
    }
}
