//! The program itself, over pipes: it responds to a committed vector line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "in")]
    input: Option<&'a RawValue>,
    #[serde(borrow, rename = "out")]
    output: Option<&'a RawValue>,
}

fn step(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rescind"));
    command.arg("step").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn g11_each_line_is_answered_before_the_next_is_read() {
    let vector = include_str!("../../../tests/vectors/acp/b09_cancel_in_the_same_read.jsonl");
    let mut program = step(&["--dialect", "acp", "--seed", "7"]).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    for line in vector.lines().skip(1) {
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        if let Some(expected) = line.output {
            // Blocks for ever if the program keeps its output back until its input ends.
            let mut actual = String::new();
            output.read_line(&mut actual).unwrap();
            assert_eq!(actual.strip_suffix('\n').unwrap(), expected.get());
        } else {
            writeln!(input, "{}", line.input.unwrap().get()).unwrap();
        }
    }
    drop(input);
    let mut rest = String::new();
    output.read_line(&mut rest).unwrap();
    assert_eq!(rest, "", "the end of standard input is not the end of the connection");
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_bad_line_is_a_usage_error_of_one_line() {
    let mut program = step(&[]).stderr(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all(b"{\"hold\": true}\n{\"cancle\": \"c1\"}\n").unwrap();
    let output = program.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("line 2, column 9: unknown field `cancle`"), "{message}");
    assert_eq!(message.lines().count(), 1);
    assert_eq!(output.stdout, b"");
}
