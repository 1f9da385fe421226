//! What holds without any runtime.

use std::io::Read;
use std::process::Command;
use std::thread;

use protocol_child::{ChildCommand, Pushed, Spawned, spawn};

use crate::suite::hasty;
use crate::support::{Mark, eventually, on_tokio, run_on_tokio};

fn stubborn(mark: &Mark) -> ChildCommand {
    hasty(mark.shell("sh -c 'sleep 1000; true'; true"))
}

#[test]
fn f60_dropping_needs_no_runtime() {
    let mark = Mark::new();
    let Spawned { owner, stdin, stdout, .. } = spawn(stubborn(&mark)).unwrap();
    let process = owner.process().clone();
    drop((stdin, stdout));
    thread::spawn(move || drop(owner)).join().unwrap();
    assert!(!process.wait().unwrap().success());
    assert_eq!(process.pushed(), Pushed::Terminated);
    mark.assert_gone();
}

#[test]
fn f60_a_panic_ends_the_process() {
    let mark = Mark::new();
    let spawned = spawn(stubborn(&mark)).unwrap();
    let process = spawned.owner.process().clone();
    let panicked = thread::spawn(move || {
        let _spawned = spawned;
        panic!("a host's mistake");
    });
    assert!(panicked.join().is_err());
    process.wait().unwrap();
    mark.assert_gone();
}

#[test]
fn f60_a_runtime_that_goes_takes_its_processes_along() {
    let mark = Mark::new();
    let child = run_on_tokio(async { on_tokio(stubborn(&mark)).unwrap() });
    child.process.wait().unwrap();
    mark.assert_gone();
}

#[test]
fn f60_outside_a_runtime_nothing_is_left_running() {
    let mark = Mark::new();
    let command = stubborn(&mark);
    assert!(thread::spawn(move || on_tokio(command)).join().is_err(), "tokio panics");
    eventually("it is ended all the same", || mark.alive().is_empty());
}

#[test]
fn a_command_that_can_not_be_started_is_an_error() {
    let error = spawn(Command::new("/no/such/program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn its_output_can_be_read_by_anyone() {
    let mut echo = Command::new("echo");
    echo.arg("hello");
    let mut spawned = spawn(echo).unwrap();
    let mut said = String::new();
    spawned.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello\n");
    assert!(spawned.owner.process().wait().unwrap().success());
}
