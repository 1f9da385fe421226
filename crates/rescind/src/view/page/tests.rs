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
    let page = format!("{}{}", head(), tail());
    assert!(!page.contains("{{"), "everything is filled in");
    for (name, text) in [("script", SCRIPT), ("style", STYLE)] {
        let digest = STANDARD.encode(Sha256::digest(text));
        assert!(page.contains(&format!("{name}-src 'sha256-{digest}'")), "{name}");
    }
    // Nothing is asked of the network, nor could be.
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
}
