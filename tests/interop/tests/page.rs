//! The page of `rescind view --html`, in headless Chromium. It is loaded, filtered and driven by keys, with 100,000
//! messages, and with a recording of a peer that would like to run a script in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rescind_interop::browser::{Chromium, DevTools};
use rescind_interop::peers::{chromium, rescind};
use serde_json::{Value, json};

/// The real sessions that are committed with the command line.
const RECORDINGS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/rescind-cli/tests/recordings");

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("it can be made");
    directory
}

/// A page that was made of a recording, and is shown.
struct Shown {
    tools: DevTools,
    directory: PathBuf,
    _browser: Chromium,
}

impl Shown {
    /// Makes a page of a recording, and shows it.
    async fn of(name: &str, recording: &Path) -> Option<Self> {
        let command = chromium()?;
        let directory = directory(name);
        let page = directory.join("page.html");
        let made =
            Command::new(rescind()).arg("view").arg(recording).arg("--html").arg(&page).output();
        let made = made.expect("rescind runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let browser = Chromium::open(&command, name, "about:blank");
        let mut tools = DevTools::attach(&browser).await;
        tools.show("light", 1400, 900).await;
        let url = format!("file://{}", page.display());
        tools.command("Page.navigate", json!({ "url": url })).await;
        tools.until("document.documentElement?.dataset.ready === 'yes'").await;
        Some(Self { tools, directory, _browser: browser })
    }

    /// Returns the texts of the rows that are drawn, without the bars.
    async fn rows(&mut self) -> Vec<String> {
        // They are drawn in the next frame.
        let script = "new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() => then(
            [...document.querySelectorAll('#rows .row')]
                .map((row) => [row.ariaRowIndex, row.children[0].textContent, row.children[1].textContent].join(' '))))))";
        let rows = self.tools.evaluate(script).await;
        let rows = rows.as_array().expect("it is an array").iter();
        rows.map(|row| row.as_str().expect("it is text").to_owned()).collect()
    }

    /// Types into a field of the filters, or chooses there.
    async fn fill(&mut self, id: &str, value: &str) {
        let script = format!(
            "{{ const field = document.getElementById({id:?});
               field.value = {value:?};
               field.dispatchEvent(new Event('input', {{ bubbles: true }})); }}"
        );
        self.tools.evaluate(&script).await;
    }

    async fn text(&mut self, id: &str) -> String {
        let text = self.tools.evaluate(&format!("document.getElementById({id:?}).innerText")).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Nothing went wrong in the page, and it asked for nothing but itself.
    fn is_quiet(&self) {
        for event in &self.tools.events {
            let method = event["method"].as_str().unwrap_or_default();
            assert_ne!(method, "Runtime.exceptionThrown", "{event}");
            assert_ne!(method, "Log.entryAdded", "{event}");
            if method == "Network.requestWillBeSent" {
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                assert!(url.starts_with("file://") || url == "about:blank", "{event}");
            }
        }
    }
}

/// A recording of these lines.
fn written(name: &str, lines: &[Value]) -> PathBuf {
    let path = directory(name).join("session.jsonl");
    let mut text = String::new();
    let hops = json!([
        { "t": 0, "hop": "up", "role": "server", "dialect": "lsp" },
        { "t": 0, "hop": "down", "role": "client", "dialect": "lsp" },
    ]);
    let head = json!({ "recording": {
        "version": 1, "by": "rescind", "program": "server", "start": "2026-11-22T11:02:33.517760Z",
        "part": 1, "payloads": "kept", "hops": hops,
    }});
    let end = json!({ "end": { "t": 9_000, "lines": lines.len(), "dropped": 0 } });
    for line in [&head].into_iter().chain(lines).chain([&end]) {
        text.push_str(&format!("{line}\n"));
    }
    fs::write(&path, text).expect("it can be written");
    path
}

fn message(t: u64, hop: &str, dir: &str, part: &Value) -> Value {
    json!({ "message": { "t": t, "hop": hop, "dir": dir, "bytes": 90, "parts": [part] } })
}

fn verdict(t: u64, hop: &str, why: &str, id: u64) -> Value {
    json!({ "verdict": { "t": t, "hop": hop, "verdict": "violation", "why": why, "id": id } })
}

/// Every way in which requests end, one of them nested.
fn varied() -> Vec<Value> {
    let request = |id: u64, method: &str| json!({ "kind": "request", "id": id, "method": method });
    let cancel = |id: u64| json!({ "kind": "cancel", "cancels": id, "method": "$/cancelRequest" });
    let result = |id: u64| json!({ "kind": "result", "id": id });
    let error = |id: u64, code: i64| json!({ "kind": "error", "id": id, "code": code });
    vec![
        message(100, "up", "received", &request(1, "prompt")),
        message(110, "down", "sent", &request(1, "prompt")),
        message(300, "down", "received", &request(7, "ask")),
        message(310, "up", "sent", &request(7, "ask")),
        message(900, "up", "received", &result(7)),
        message(910, "down", "sent", &result(7)),
        message(1_000, "up", "received", &cancel(1)),
        message(1_010, "down", "sent", &cancel(1)),
        message(2_000, "down", "received", &error(1, -32800)),
        message(2_010, "up", "sent", &error(1, -32800)),
        message(2_100, "down", "sent", &request(2, "slow")),
        message(2_200, "down", "sent", &cancel(2)),
        json!({ "verdict": { "t": 2_900, "hop": "down", "verdict": "settled", "id": 2, "outcome": "timed_out", "cause": "deadline" } }),
        message(5_000, "down", "received", &result(2)),
        verdict(5_001, "down", "late_response", 2),
        message(5_100, "down", "sent", &request(3, "broken")),
        message(5_300, "down", "received", &error(3, -32603)),
        message(6_000, "down", "sent", &request(4, "hangs")),
    ]
}

#[tokio::test]
async fn the_page_shows_what_the_recording_holds() {
    let recording = written("varied-recording", &varied());
    let Some(mut shown) = Shown::of("varied", &recording).await else { return };
    let tree = [
        "2 ▾prompt ← up",
        "3 ▾prompt → down",
        "4 ▾ask ← down",
        "5 ask → up",
        "6 slow → down",
        "7 broken → down",
        "8 hangs → down",
    ];
    assert_eq!(shown.rows().await, tree);
    assert_eq!(shown.text("count").await, "7 of 7 requests");

    // By method, outcome, duration, mark and text; what a match was made for is shown with it.
    shown.fill("method", "ask").await;
    assert_eq!(shown.rows().await, &tree[..4]);
    assert_eq!(shown.text("count").await, "2 of 7 requests");
    shown.tools.evaluate("document.querySelector('button[type=reset]').click()").await;
    shown.tools.until("document.getElementById('count').value === '7 of 7 requests'").await;
    shown.fill("slow", "2").await;
    assert_eq!(shown.text("count").await, "1 of 7 requests", "what never ended took long");
    shown.fill("slow", "").await;
    shown.fill("search", "DEADLINE").await;
    assert_eq!(shown.rows().await, ["2 slow → down"]);
    shown.fill("search", "").await;
    shown.tools.evaluate("document.querySelector('[value=unanswered]').click()").await;
    assert_eq!(shown.rows().await, ["2 hangs → down"]);
    shown.tools.evaluate("document.querySelector('[value=unanswered]').click()").await;
    shown.tools.evaluate("document.querySelector('[value=late]').click()").await;
    assert_eq!(shown.rows().await, ["2 slow → down"]);
    let marks =
        "[...document.querySelectorAll('#rows .when i')].map((it) => it.className).join(' ')";
    assert_eq!(shown.tools.evaluate(marks).await, "bar after cancel tail late");
    shown.is_quiet();
}

#[tokio::test]
async fn the_page_is_driven_by_keys_alone() {
    let recording = written("keys-recording", &varied());
    let Some(mut shown) = Shown::of("keys", &recording).await else { return };
    let active =
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))
        ?.querySelector('.method').textContent ?? ''";

    // Tab leads through everything there is, and at last to the requests.
    let mut passed = vec![];
    for _ in 0..20 {
        shown.tools.press(&["Tab"]).await;
        let id =
            shown.tools.evaluate("document.activeElement.id || document.activeElement.name").await;
        passed.push(id.as_str().unwrap_or_default().to_owned());
        if passed.last().is_some_and(|id| id == "requests") {
            break;
        }
    }
    for id in ["theme", "help", "search", "method", "slow", "outcome", "requests"] {
        assert!(passed.iter().any(|it| it == id), "{id}: {passed:?}");
    }

    shown.tools.press(&["ArrowDown", "ArrowDown", "ArrowDown"]).await;
    assert_eq!(shown.tools.evaluate(active).await, "▾ask");
    assert!(shown.text("detail").await.contains("Made on its behalf"));
    shown.tools.press(&["ArrowLeft"]).await;
    assert_eq!(shown.tools.evaluate(active).await, "▸ask", "it is closed");
    assert_eq!(shown.rows().await.len(), 6);
    shown.tools.press(&["ArrowLeft"]).await;
    assert_eq!(shown.tools.evaluate(active).await, "▾prompt", "what it was made for");
    shown.tools.press(&["End"]).await;
    assert_eq!(shown.tools.evaluate(active).await, "hangs");
    shown.tools.press(&["Home", "n", "n"]).await;
    assert_eq!(shown.tools.evaluate(active).await, "slow", "the next that was cancelled");
    assert!(shown.text("detail").await.contains("late answer at"));
    shown.tools.press(&["Enter"]).await;
    assert_eq!(shown.tools.evaluate("document.activeElement.id").await, "details");
    shown.tools.press(&["+", "+"]).await;
    assert!(shown.text("span").await.starts_with("Shown: "), "a closer look");
    shown.tools.press(&["0"]).await;
    assert_eq!(shown.text("span").await, "");
    shown.tools.press(&["/", "a", "s", "k", "Escape"]).await;
    assert_eq!(shown.text("count").await, "2 of 7 requests", "it was typed");
    assert_eq!(shown.tools.evaluate("document.activeElement.id").await, "requests");
    shown.tools.press(&["?"]).await;
    assert_eq!(shown.tools.evaluate("document.getElementById('keyboard').open").await, true);
    shown.is_quiet();
}

/// The least contrast of any text with what is behind it (WCAG 2.2, 1.4.3).
const CONTRAST: &str = r"(() => {
    const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = (colour) => {
        const [r, g, b] = channels(colour).slice(0, 3)
            .map((it) => it / 255).map((it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (channels(colour)[3] !== 0) return colour;
        }
    };
    let least = [99, ''];
    for (const node of document.querySelectorAll('body *')) {
        const isText = [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim() !== '');
        if (!isText || !node.checkVisibility() || node.matches('option, script')) continue;
        const [one, other] = [light(getComputedStyle(node).color), light(ground(node))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < least[0]) least = [contrast, `${node.className} ${node.textContent}`];
    }
    return least;
})()";

#[tokio::test]
async fn the_page_can_be_read_in_both_themes_by_everybody() {
    let recording = written("themes-recording", &varied());
    let Some(mut shown) = Shown::of("themes", &recording).await else { return };
    shown.tools.press(&["n"]).await;
    for theme in ["light", "dark"] {
        shown.tools.show(theme, 1400, 900).await;
        let least = shown.tools.evaluate(CONTRAST).await;
        assert!(least[0].as_f64() >= Some(4.5), "{theme}: {least}");
        shown.rows().await;
        let path = shown.directory.join(format!("{theme}.png"));
        shown.tools.picture(&path).await;
        println!("{}", path.display());
    }
    // The user's choice stands before the system's.
    shown.tools.press(&["t"]).await;
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    assert_eq!(shown.tools.evaluate(ground).await, "rgb(255, 255, 255)");

    let tree = shown.tools.command("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().expect("it has nodes");
    let of = |role: &str| -> Vec<&str> {
        let nodes = nodes.iter().filter(|it| it["ignored"] == false && it["role"]["value"] == role);
        nodes.map(|it| it["name"]["value"].as_str().unwrap_or_default()).collect()
    };
    assert_eq!(of("treegrid"), ["Requests"]);
    assert_eq!(of("searchbox"), ["Search"]);
    for role in ["button", "checkbox", "combobox", "spinbutton", "columnheader", "image"] {
        let names = of(role);
        assert!(!names.is_empty() && !names.contains(&""), "{role}: {names:?}");
    }
    let rows = nodes.iter().filter(|it| it["role"]["value"] == "row");
    let levels = rows.filter_map(|it| {
        let properties = it["properties"].as_array()?;
        properties.iter().find(|it| it["name"] == "level")?["value"]["value"].as_u64()
    });
    assert_eq!(levels.collect::<Vec<_>>(), [1, 2, 3, 4, 1, 1, 1]);

    // On paper it is light, and all rows are there.
    let printed = shown.tools.command("Page.printToPDF", json!({})).await;
    assert!(printed["data"].as_str().is_some_and(|it| it.len() > 10_000));
    shown.is_quiet();
}

#[tokio::test]
async fn f68_what_a_peer_wrote_never_runs() {
    let attacks = [
        "</script><script>window.ran = 1</script>",
        "<img src=x onerror='window.ran = 2'>",
        "<!--<script>",
        "\"'><svg onload=window.ran=3>",
        "javascript:window.ran=4",
        "a\u{202e}b\u{0}c\u{2028}d",
    ];
    let mut lines = vec![];
    for (at, attack) in attacks.iter().enumerate() {
        let t = 100 * (at as u64 + 1);
        let part = json!({ "kind": "request", "id": attack, "method": attack });
        let mut asked = message(t, "down", "sent", &part);
        asked["message"]["text"] = json!({ "id": attack, "params": attack }).to_string().into();
        lines.push(asked);
        lines.push(json!({ "verdict": { "t": t + 9, "hop": "down", "verdict": "settled", "id": attack, "outcome": "timed_out", "cause": attack } }));
    }
    lines.insert(
        0,
        json!({ "opened": { "t": 1, "hop": attacks[0], "role": "server", "dialect": attacks[1] } }),
    );
    let recording = written("hostile-recording", &lines);
    let Some(mut shown) = Shown::of("hostile", &recording).await else { return };
    let rows = shown.rows().await;
    assert_eq!(rows.len(), attacks.len());
    assert!(rows[0].contains(attacks[0]), "it is text: {rows:?}");
    assert!(rows[5].contains("a\\u202eb\\u0000c\\u2028d"), "what is not seen is shown: {rows:?}");
    for _ in attacks {
        shown.tools.press(&["Escape", "ArrowDown"]).await;
        assert!(!shown.text("detail").await.is_empty());
    }
    let found = "[window.ran ?? 0, document.scripts.length, document.querySelectorAll('img, svg, body > script ~ script ~ *').length]";
    assert_eq!(shown.tools.evaluate(found).await, json!([0, 2, 0]));
    shown.is_quiet();

    // Were there a way in, a script would not run all the same.
    let forced = "{ const script = document.createElement('script');
        script.textContent = 'window.ran = 5';
        document.body.append(script);
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 6\">'); }
        new Promise((then) => setTimeout(() => then(window.ran ?? 0), 200))";
    assert_eq!(shown.tools.evaluate(forced).await, 0);
}

/// As many messages as that, four a request.
fn busy(messages: u64) -> Vec<Value> {
    let mut lines = vec![];
    for id in 0..messages / 4 {
        let t = id * 400;
        let request =
            json!({ "kind": "request", "id": id, "method": format!("method/{}", id % 40) });
        let answer = json!({ "kind": "result", "id": id });
        lines.push(message(t, "up", "received", &request));
        lines.push(message(t + 10, "down", "sent", &request));
        lines.push(message(t + 300, "down", "received", &answer));
        lines.push(message(t + 310, "up", "sent", &answer));
    }
    lines
}

/// Milliseconds: to load, of a frame while it is scrolled (half of them, and 19 of 20), to search, to look closer.
async fn times(shown: &mut Shown) -> [f64; 5] {
    let script = "(async () => {
        const frame = () => new Promise((then) => requestAnimationFrame(() => then(performance.now())));
        const took = async (work) => { const begin = performance.now(); work(); await frame(); await frame(); return performance.now() - begin; };
        const grid = document.getElementById('requests');
        const frames = [];
        let last = await frame();
        for (let at = 0; at < 120; at++) {
            grid.scrollTop = grid.scrollHeight * (at * 37 % 120) / 120;
            const now = await frame();
            frames.push(now - last);
            last = now;
        }
        frames.sort((one, other) => one - other);
        const search = document.getElementById('search');
        search.value = 'method/7';
        const searched = await took(() => search.dispatchEvent(new Event('input', { bubbles: true })));
        const closer = await took(() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true })));
        const load = performance.getEntriesByType('navigation')[0].duration;
        return [load, frames[60], frames[114], searched, closer];
    })()";
    let times = shown.tools.evaluate(script).await;
    [0, 1, 2, 3, 4].map(|at| times[at].as_f64().expect("it is a number"))
}

#[tokio::test]
async fn a_hundred_thousand_messages_are_smooth() {
    let few = written("few-recording", &busy(1_000));
    let many = written("many-recording", &busy(100_000));
    let Some(mut few) = Shown::of("few", &few).await else { return };
    let few = times(&mut few).await;
    let Some(mut many) = Shown::of("many", &many).await else { return };
    assert_eq!(many.text("count").await, "50,000 of 50,000 requests");
    let nodes = many.tools.evaluate("document.querySelectorAll('*').length").await;
    assert!(nodes.as_u64() < Some(1_000), "only what can be seen is in the document: {nodes}");
    let took = times(&mut many).await;
    println!(
        "load, frame p50, frame p95, search, closer in ms: {few:.1?} for 1,000 messages, {took:.1?} for 100,000"
    );
    let [load, half, most, search, closer] = took;
    assert!(load < 20_000.0 && search < 5_000.0 && closer < 5_000.0, "{took:?}");
    // A hundred times as much is no more work to scroll.
    assert!(half < 3.0 * few[1] + 20.0 && most < 3.0 * few[2] + 50.0, "{few:?} {took:?}");
    many.is_quiet();
}

#[tokio::test]
async fn the_page_takes_real_sessions() {
    for name in ["clangd", "acp", "everything", "pyright"] {
        let recording = Path::new(RECORDINGS).join(name).with_extension("jsonl");
        let Some(mut shown) = Shown::of(name, &recording).await else { return };
        assert!(!shown.rows().await.is_empty());
        // To be looked at by eye; that of pyright in the light is docs/images/page.png.
        shown.tools.press(&["Escape", "n"]).await;
        for theme in ["light", "dark"] {
            shown.tools.show(theme, 1200, 760).await;
            shown.rows().await;
            let path = shown.directory.join(format!("{theme}.png"));
            shown.tools.picture(&path).await;
            println!("{}", path.display());
        }
        shown.is_quiet();
    }
}
