//! Completions and manual pages know every command and option.

use std::fs;

use crate::support::rescind;

/// Returns the commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = rescind(["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // The description of one goes on in lines that are further in.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.filter(|name| *name != "help").map(Into::into).collect();
    assert!(names.len() >= 10, "{names:?}");
    names
}

#[test]
fn completions_know_every_command_and_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = rescind(["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{shell}");
        for command in commands() {
            assert!(said.stdout.contains(&command), "{shell}: {command}");
        }
        assert!(said.stdout.contains("cancel-after-notifications"), "{shell}");
        assert!(!said.stdout.contains("supervise"), "{shell}: nobody is meant to start it");
        // The other two complete no values.
        let values = ["bash", "fish", "zsh"].contains(&shell);
        assert!(!values || said.stdout.contains("mcp-2025-11-25"), "{shell}");
    }
    let said = rescind(["completions", "csh"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
}

#[test]
fn manual_pages_know_every_command_and_option() {
    let page = rescind(["man"]);
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""));
    assert!(page.stdout.contains(".TH rescind 1"), "{page:?}");
    let directory = std::env::temp_dir().join(format!("rescind-man-{}", std::process::id()));
    let said = rescind(["man", directory.to_str().unwrap()]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "", ""));
    for command in commands() {
        assert!(page.stdout.contains(&format!("rescind\\-{command}(1)")), "{command}");
        let own = fs::read_to_string(directory.join(format!("rescind-{command}.1"))).unwrap();
        assert!(own.contains(&format!(".TH rescind-{command} 1")), "{own}");
    }
    let call = fs::read_to_string(directory.join("rescind-call.1")).unwrap();
    assert!(call.contains(r"\-\-cancel\-after\-notifications"), "{call}");
    let file = directory.join("rescind.1");
    let said = rescind(["man", file.to_str().unwrap()]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
    fs::remove_dir_all(directory).unwrap();
}
