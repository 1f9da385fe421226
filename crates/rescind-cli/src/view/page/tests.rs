use super::*;

#[test]
fn f68_data_of_a_peer_can_not_end_its_element() {
    let hostile = r#"{"method":"</script><script>alert(1)</script><!--"}"#;
    let embedded = embedded(hostile);
    assert!(!embedded.contains('<'), "{embedded}");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&embedded), value(hostile));
}

#[test]
fn only_the_script_and_the_style_of_the_page_may_run() {
    let (head, tail) = around();
    let page = format!("{head}{tail}");
    assert!(!page.contains("{{"), "everything is filled in");
    for (name, text) in [("script", SCRIPT), ("style", STYLE)] {
        let digest = STANDARD.encode(Sha256::digest(text));
        assert!(page.contains(&format!("{name}-src 'sha256-{digest}'")), "{name}");
    }
    // Nothing is asked of the network, nor could be.
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
}

/// Returns a page of so many requests, and the report on it. Each request has so many messages, each with a
/// whole text of this length.
fn page(
    name: &str,
    prepare: impl FnOnce(&mut Page),
    requests: u64,
    messages: usize,
    length: usize,
) -> (String, Vec<String>) {
    let path =
        std::env::temp_dir().join(format!("rescind-page-{}-{name}.html", std::process::id()));
    let mut page = Page::create(&path, None).unwrap();
    prepare(&mut page);
    let mut pairing = crate::view::pairing::Pairing::new(usize::MAX >> 4);
    let message = |id: u64, kind: &str| {
        let text = "ü".repeat(length);
        let part = json!({ "kind": kind, "id": id, "method": "m", "cancels": id });
        let message = json!({
            "t": id, "hop": "a", "dir": "sent", "bytes": 9, "parts": [part], "text": text,
        });
        json!({ "message": message }).to_string()
    };
    for id in 0..requests {
        for at in 0..messages {
            let json = message(id, if at == 0 { "request" } else { "cancel" });
            let line = serde_json::from_str(&json).unwrap();
            let numbers = vec![Some(id)];
            pairing.take(&line);
            page.line(&line, &numbers).unwrap();
        }
        page.row(&pairing.rest()[&id]).unwrap();
    }
    let notes = page.finish(Flaws::default(), Counts::default()).unwrap();
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (written, notes)
}

#[test]
fn g08_a_page_holds_only_so_many_requests_and_says_what_is_left_out() {
    let (written, notes) = page("requests", |page| page.room = 2, 5, 1, 0);
    assert_eq!(written.matches(r#""outcome":"#).count(), 2);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("3 more are left out"), "{notes:?}");
    assert!(page("all", |_| {}, 5, 1, 0).1.is_empty());
    assert_eq!(REQUESTS, 200_000, "docs/guide/viewing.md says so");
}

#[test]
fn g08_of_messages_a_page_holds_only_so_much() {
    let (written, notes) = page("texts", |_| {}, 1, 20, 5_000);
    assert_eq!(written.matches('ü').count(), MESSAGES * TEXT);
    assert_eq!(notes, ["messages that the page leaves out: 12"]);
    let almost = |page: &mut Page| page.text_room = 20;
    let (written, notes) = page("all-texts", almost, 9, 1, 4);
    assert_eq!(written.matches('ü').count(), 2 * 4, "two messages of eight bytes have room");
    assert_eq!(notes, ["messages that the page leaves out: 7"]);
    assert_eq!((MESSAGES, TEXT, TEXTS), (8, 2_000, 64 << 20), "docs/guide/viewing.md says so");
}

#[test]
fn requests_that_the_filter_leaves_out_take_no_room_from_the_others() {
    let choose = |page: &mut Page| {
        page.text_room = 20;
        page.filter = Some(Filter::parse("~id 8").unwrap());
    };
    let (written, notes) = page("chosen", choose, 9, 1, 4);
    assert_eq!(written.matches('ü').count(), 4, "the message of the last request is there");
    assert!(notes.is_empty(), "{notes:?}");
}
