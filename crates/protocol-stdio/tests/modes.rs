//! The mode of a shared stream stays as it was, and nothing blocks.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use protocol_stdio::NonBlocking;
use rustix::fs::{OFlags, fcntl_getfl};

fn is_blocking(stream: impl AsFd) -> bool {
    !fcntl_getfl(stream).unwrap().contains(OFlags::NONBLOCK)
}

/// Writes until nothing more fits, reads it all, and finds nothing more.
fn fills_and_drains(reader: &NonBlocking, writer: &NonBlocking) {
    let (mut reader, mut writer) = (reader, writer);
    let mut written = 0;
    let full = loop {
        match writer.write(&[7; 4096]) {
            Ok(bytes) => written += bytes,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let mut room = [0; 4096];
    while written > 0 {
        written -= reader.read(&mut room).unwrap();
    }
    assert_eq!(reader.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_socket_does_not_block_and_keeps_its_mode() {
    let (near, far) = UnixStream::pair().unwrap();
    let (reader, writer) = (NonBlocking::reader(&near), NonBlocking::writer(&far));
    fills_and_drains(&reader.unwrap(), &writer.unwrap());
    assert!(is_blocking(&near) && is_blocking(&far));
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_does_not_block_and_keeps_its_mode() {
    let (near, far) = rustix::pipe::pipe().unwrap();
    let (reader, writer) = (NonBlocking::reader(&near), NonBlocking::writer(&far));
    fills_and_drains(&reader.unwrap(), &writer.unwrap());
    assert!(is_blocking(&near) && is_blocking(&far));
}

/// The end is reported once every writer is gone, those that were opened here included.
#[cfg(target_os = "linux")]
#[test]
fn a_pipe_reports_its_end() {
    let (near, far) = rustix::pipe::pipe().unwrap();
    let (reader, writer) = (NonBlocking::reader(&near).unwrap(), NonBlocking::writer(&far));
    drop(far);
    assert_eq!((&reader).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(writer);
    assert_eq!((&reader).read(&mut [0]).unwrap(), 0);
}

/// A named pipe that is opened once more would miss its end, and a file never waits.
#[cfg(target_os = "linux")]
#[test]
fn files_and_named_pipes_are_left_alone() {
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(NonBlocking::reader(&file).is_none());
    let folder = std::env::temp_dir().join(format!("protocol-stdio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("named");
    // A program that makes it would hold the pipes of the other tests open for a moment.
    let owner = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    let named = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    assert!(NonBlocking::reader(&named).is_none());
    std::fs::remove_dir_all(folder).unwrap();
}
