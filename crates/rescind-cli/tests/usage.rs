//! Wrong usage is one line that names the option or the byte, and exit code 2.

use crate::support::rescind;

fn one_line(arguments: &[&str]) -> String {
    let said = rescind(arguments);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{arguments:?}: {said:?}");
    assert!(said.stderr.starts_with("error: "), "{said:?}");
    said.stderr
}

#[track_caller]
fn names(arguments: &[&str], part: &str) {
    let line = one_line(arguments);
    assert!(line.contains(part), "{part:?} is not in {line:?}");
}

#[test]
fn options_are_named() {
    names(&["call"], "<METHOD>");
    names(&["call", "--bogus", "m"], "'--bogus'");
    names(&["call", "--cancel-aftr", "1s", "m"], "'--cancel-after'");
    names(
        &["call", "--dialect", "esperanto", "m"],
        "'esperanto' for '--dialect <NAME>': there are jsonrpc, acp, lsp, mcp, abp, dap, erlmcp, \
         and revisions of them: see rescind dialects",
    );
    names(&["call", "--cancel-after", "soon", "m"], "--cancel-after <DUR>");
    names(&["call", "--timeout", "-1s", "m"], "-1");
    names(&["serve", "--runtime", "steam"], "--runtime <NAME>");
    names(&["serve", "--color", "mauve"], "--color <WHEN>");
    names(&["fetch"], "'fetch'");
    names(
        &["call", "m", "{}", "clangd"],
        "'clangd' found; `--` stands before the command of a server",
    );
}

#[test]
fn an_option_without_effect_is_refused() {
    for option in
        [&["--cwd", "/"][..], &["--env", "A=1"], &["--exit-grace", "1s"], &["--leave-detached"]]
    {
        names(&[&["replay", "f"], option].concat(), "--against");
        names(&[&["call", "m", "--connect", "ws://[::1]:1"], option].concat(), option[0]);
    }
}

#[test]
fn f63_a_duration_is_a_century_at_most() {
    for option in ["--timeout", "--cancel-after", "--grace"] {
        for duration in ["300000000000y", "36526d", "18446744073709551615s"] {
            let said = format!("'{duration}' for '{option} <DUR>': longer than a century");
            names(&["call", option, duration, "m"], &said);
        }
    }
    names(&["relay", "--answer-after-end", "101y", "--", "m"], "longer than a century");
    names(&["relay", "--deadline", "101y", "--", "m"], "longer than a century");
    for option in ["--timeout", "--cancel-after", "--grace"] {
        let said = rescind(["call", option, "36525d", "echo", "[1]"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
    }
}

#[test]
fn a_request_is_asked_to_take_some_time() {
    for (what, option) in [("server", "--slow-time"), ("client", "--ask-time")] {
        for time in ["0", "0s", "999us"] {
            let said = format!("'{time}' for '{option} <DUR>': shorter than a millisecond");
            names(&["conform", what, option, time, "--", "true"], &said);
        }
    }
}

#[test]
fn bytes_are_named() {
    names(&["call", "m", "{\"a\":\n 1,b}"], "[PARAMS_JSON]': not JSON at byte 9: key must be");
    names(&["call", "m", "{\"a\":1} x"], "not JSON at byte 8: trailing characters");
    names(&["call", "m", "7"], "params must be a JSON array or object");
    names(&["call", "m", ""], "not JSON at byte 0");
}

#[test]
fn files_and_lines_are_named() {
    names(&["call", "--open", "/no/such/file", "m"], "--open /no/such/file: ");
    let path = std::env::temp_dir().join(format!("rescind-usage-{}.jsonl", std::process::id()));
    std::fs::write(&path, "{\"method\":\"m\"}\n\n{\"method\":7}\n").unwrap();
    names(&["call", "--open", path.to_str().unwrap(), "m"], ", line 3: ");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn f64_a_program_that_does_not_start_is_named_and_is_no_wrong_usage() {
    for command in ["call", "relay"] {
        let method: &[&str] = if command == "call" { &["m"] } else { &[] };
        let said = rescind([&[command], method, &["--", "/no/such/program"]].concat());
        assert_eq!((said.code, said.stderr.lines().count()), (Some(6), 1), "{said:?}");
        assert!(said.stderr.starts_with("error: can't start /no/such/program: "), "{said:?}");
    }
}

#[test]
fn options_for_a_program_are_refused_where_none_is_started() {
    let connect = ["conform", "server", "--connect", "ws://127.0.0.1:1"];
    let listen = ["conform", "client", "--listen", "ws://127.0.0.1:0"];
    for option in
        [&["--cwd", "/"][..], &["--env", "A=b"], &["--exit-grace", "1s"], &["--leave-detached"]]
    {
        names(&[&connect[..], option].concat(), option[0]);
        names(&[&listen[..], option].concat(), option[0]);
    }
}

#[test]
fn help_of_a_test_names_each_exit_code() {
    for of in ["server", "client", "relay"] {
        let said = rescind(["conform", of, "--help"]);
        let words = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("3 ended by a signal, or its caller is gone"), "{of}: {said:?}");
    }
}

#[test]
fn help_is_help_and_no_error() {
    for arguments in [&["--help"][..], &["call", "--help"], &["serve", "-h"], &["--version"]] {
        let said = rescind(arguments);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(!said.stdout.is_empty());
    }
    let said = rescind([""; 0]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("Usage:"), "no command at all asks for help: {said:?}");
}

#[test]
fn f66_dialects_have_a_page_of_their_own_and_swamp_no_other() {
    for command in ["call", "relay", "serve", "step"] {
        for help in ["-h", "--help"] {
            let said = rescind([command, help]);
            assert!(!said.stdout.contains("mcp-2025-11-25"), "{command} {help}: {said:?}");
            assert!(said.stdout.contains("rescind dialects"), "{command} {help}: {said:?}");
        }
    }
    let said = rescind(["dialects"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    for dialect in protocol_core::Dialect::PRESETS {
        let mut names = said.stdout.lines().filter_map(|line| line.split_whitespace().next());
        assert!(names.any(|name| name == dialect.name), "{} is not in {said:?}", dialect.name);
    }
    let families: Vec<Vec<&str>> = said
        .stdout
        .split("\n\n")
        .skip(1)
        .map(|family| family.lines().filter_map(|line| line.split('-').next()?.split(' ').next()))
        .map(Iterator::collect)
        .collect();
    assert!(families.len() > 3, "an empty line between families: {said:?}");
    for family in families {
        assert!(family.iter().all(|name| *name == family[0]), "{family:?} in {said:?}");
    }
}
