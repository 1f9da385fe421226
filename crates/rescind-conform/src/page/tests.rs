//! The pages of checks, and the tables that they are made of.

use std::collections::BTreeSet;

use crate::{
    CHECKS, CLIENT_CHECKS, Clause, Family, Known, RELAY_CHECKS, client_page, page, relay_page,
};

/// The id, the witness and the clauses of a check.
type Row = (&'static str, &'static str, &'static [Clause]);

#[test]
fn the_pages_name_each_check_with_its_sources_and_its_witness() {
    let servers = CHECKS.iter().map(|check| (check.id, check.witness, check.clauses));
    let clients = CLIENT_CHECKS.iter().map(|check| (check.id, check.witness, check.clauses));
    let relays = RELAY_CHECKS.iter().map(|check| (check.id, check.witness, check.clauses));
    let all: [(String, Vec<Row>); 3] = [
        (page(), servers.collect()),
        (client_page(), clients.collect()),
        (relay_page(), relays.collect()),
    ];
    for (page, checks) in all {
        assert_eq!(page.matches("\n### `").count(), checks.len());
        for (id, witness, clauses) in checks {
            let (_, section) = page.split_once(&format!("### `{id}`\n")).expect(id);
            let section = section.split("\n### `").next().unwrap_or_default();
            assert!(section.contains(witness), "{id}");
            for clause in clauses {
                let named = clause.families.iter().all(|family| section.contains(family.as_str()));
                assert!(named && section.contains(clause.source), "{id}");
            }
        }
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
    for check in CHECKS.iter() {
        assert!(!check.steps.is_empty() && !check.rules.is_empty(), "{}", check.id);
    }
    for check in CLIENT_CHECKS {
        assert!(!check.steps.is_empty() && !check.rules.is_empty(), "{}", check.id);
    }
    for (id, clauses) in all {
        for &family in Family::ALL {
            let clauses = clauses.iter().filter(|clause| clause.families.contains(&family));
            assert!(clauses.count() <= 1, "{id} has two clauses for {}", family.as_str());
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
