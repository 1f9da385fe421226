//! docs/conformance.md, -clients.md and -relays.md are the tables of checks; `BLESS=1` rewrites them. And what holds for the table itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use crate::{
    CHECKS, CLIENT_CHECKS, Clause, Family, Known, RELAY_CHECKS, client_page, page, relay_page,
};

#[test]
fn the_pages_are_current() {
    let pages = [
        ("conformance.md", include_str!("servers.txt"), page()),
        ("conformance-clients.md", include_str!("clients.txt"), client_page()),
        ("conformance-relays.md", include_str!("relays.txt"), relay_page()),
    ];
    for (name, head, checks) in pages {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let page = format!("{head}\n{}\n", checks.trim_end());
        if env::var_os("BLESS").is_some() {
            fs::write(&path, &page).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap() == page, "{name}: BLESS=1 rewrites it");
    }
}

#[test]
fn each_check_has_a_name_of_its_own_and_one_clause_a_protocol() {
    let servers = CHECKS.iter().map(|check| (check.id, check.clauses));
    let clients = CLIENT_CHECKS.iter().map(|check| (check.id, check.clauses));
    let relays = RELAY_CHECKS.iter().map(|check| (check.id, check.clauses));
    let all: Vec<(&str, &[Clause])> = servers.chain(clients).chain(relays).collect();
    let ids: BTreeSet<&str> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), all.len());
    for check in CHECKS {
        assert!(!check.steps.is_empty() && !check.rules.is_empty(), "{}", check.id);
    }
    for check in CLIENT_CHECKS {
        assert!(!check.steps.is_empty() && !check.rules.is_empty(), "{}", check.id);
    }
    for (id, clauses) in all {
        for family in Family::ALL {
            let clauses = clauses.iter().filter(|clause| clause.families.contains(&family));
            assert!(clauses.count() <= 1, "{id} has two clauses for {}", family.name());
        }
    }
}

#[test]
fn a_list_of_known_failures_names_checks() {
    assert!(Known::read("id/large # all of Node\n\n", "").is_ok());
    assert!(Known::read("id/huge", "").unwrap_err().contains("id/huge"));
    let relays: Vec<&str> = RELAY_CHECKS.iter().map(|check| check.id).collect();
    assert!(Known::read_among(&relays, "relay-cancel/live", "relay-form/ids").is_ok());
    assert!(Known::read_among(&relays, "id/large", "").unwrap_err().contains("id/large"));
}
