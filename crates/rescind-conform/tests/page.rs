//! docs/conformance.md is the table of checks; `BLESS=1` rewrites it. And what holds for the table itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use rescind_conform::{CHECKS, Family, Known, page};

const HEAD: &str = include_str!("page.head.txt");

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let page = format!("{HEAD}\n{}\n", page().trim_end());
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), page, "BLESS=1 rewrites it");
}

#[test]
fn each_check_has_a_name_of_its_own_and_one_clause_a_protocol() {
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(ids.len(), CHECKS.len());
    for check in CHECKS {
        assert!(!check.steps.is_empty() && !check.rules.is_empty(), "{}", check.id);
        for family in Family::ALL {
            let clauses = check.clauses.iter().filter(|clause| clause.families.contains(&family));
            assert!(clauses.count() <= 1, "{} has two clauses for {}", check.id, family.name());
        }
    }
}

#[test]
fn a_list_of_known_failures_names_checks() {
    assert!(Known::read("id/large # all of Node\n\n", "").is_ok());
    assert!(Known::read("id/huge", "").unwrap_err().contains("id/huge"));
}
