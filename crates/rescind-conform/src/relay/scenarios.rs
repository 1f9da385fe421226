//! The conversations with a relay. Ids are chosen so that none is equal to one that a relay would issue.

use protocol_core::Envelope;
use serde_json::{Value, json};

use super::message::has_id;
use super::play::Play;
use crate::malformed;

/// Calls with each id, and answers in the opposite order.
fn all_at_once(play: &mut Play<'_>, ids: &[Value]) -> Option<()> {
    let far: Vec<Value> = ids.iter().map(|id| play.call(id)).collect::<Option<_>>()?;
    far.iter().rev().for_each(|far| play.finish_call(far));
    ids.iter().try_for_each(|id| play.answered(id))
}

/// Returns the ids among these that requests can have in this protocol.
fn possible(play: &Play<'_>, ids: impl IntoIterator<Item = Value>) -> Vec<Value> {
    ids.into_iter().filter(|id| has_id(play.protocol(), id)).collect()
}

pub(super) fn ids_of_every_kind(play: &mut Play<'_>) -> Option<()> {
    let ids = [
        play.id(9001),
        json!(play.id(9001).to_string()),
        json!(0),
        json!("0"),
        json!(""),
        json!("é\"\\\u{1f600}"),
        json!(i32::MAX),
        json!(-7),
        play.id(9041),
    ];
    all_at_once(play, &possible(play, ids))
}

pub(super) fn large_ids(play: &mut Play<'_>) -> Option<()> {
    all_at_once(play, &[json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)])
}

pub(super) fn same_id_both_ways(play: &mut Play<'_>) -> Option<()> {
    if !play.is_both_ways() {
        return None;
    }
    let (id, far) = play.called(9002)?;
    let back = play.swapped().call(&id)?;
    play.cancelled(&id)?;
    play.swapped().finish_call(&back);
    play.confirm(&id, &far)?;
    play.swapped().answered(&id)
}

pub(super) fn cancel_live(play: &mut Play<'_>) -> Option<()> {
    // A second request, with the other JSON type of the same id, is not to be hit.
    let number = play.id(9003);
    let pairs = [
        (number.clone(), play.text_id(&number.to_string())),
        (play.text_id("é"), play.text_id("e")),
    ];
    for (id, other) in pairs {
        let far = play.call(&id)?;
        let untouched = play.call(&other)?;
        play.cancelled(&id)?;
        play.confirm_cancel(&far);
        play.complete(&id, &untouched)?;
        play.answered(&other)?;
    }
    Some(())
}

pub(super) fn cancel_twice(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9004)?;
    play.cancelled(&id)?;
    play.cancelled(&id)?;
    play.confirm(&id, &far)
}

pub(super) fn cancel_answered_with_result(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9005)?;
    play.cancelled(&id)?;
    play.complete(&id, &far)
}

pub(super) fn progress_after_cancel(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9006)?;
    play.cancelled(&id)?;
    play.swapped().notify(&[("$/progress", json!({ "token": id, "value": 1 }))]);
    play.confirm(&id, &far)
}

pub(super) fn cancel_unknown(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9007)?;
    // Among them the id of another JSON type, and that of the same request on the other side.
    let of_other_type = json!(id.to_string());
    let unknown = [play.id(9999), of_other_type, json!("no such"), json!(0), json!("")];
    let theirs = (far != id).then(|| far.clone());
    possible(play, unknown.into_iter().chain(theirs)).iter().for_each(|it| play.cancel(it));
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn cancel_answered(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9008)?;
    play.complete(&id, &far)?;
    play.cancel(&id);
    play.cancel(&far);
    Some(())
}

pub(super) fn cancel_malformed(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9009)?;
    let named = id.to_string();
    let mut forms = malformed::plain(play.protocol().cancel_member(), &named);
    forms.push(Some(format!("[{named}]")));
    let message = |params: &Option<String>| {
        malformed::message(params.as_deref(), |params| play.cancel_with(params))
    };
    let messages: Vec<String> = forms.iter().map(message).collect();
    play.send(&messages);
    play.barrier()?;
    play.complete(&id, &far)
}

/// Cancels from the callee, whose cancel names an id of its own direction (B13).
pub(super) fn cancel_from_the_wrong_side(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9010)?;
    play.swapped().cancel(&far);
    play.swapped().cancel(&id);
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn cancel_before_request(play: &mut Play<'_>) -> Option<()> {
    let id = play.id(9011);
    let (request, tag) = play.request_text(&id);
    let cancel = play.cancel_text(&id);
    play.send(&[cancel, request]);
    let far = play.arrives(tag)?;
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn cancel_in_the_same_write(play: &mut Play<'_>) -> Option<()> {
    let id = play.id(9012);
    let (request, tag) = play.request_text(&id);
    let cancel = play.cancel_text(&id);
    play.send(&[request, cancel]);
    settle_if_forwarded(play, tag)?;
    play.answered(&id)
}

/// Confirms the cancel of a request that was forwarded. The relay may withdraw a request that is cancelled in
/// the same write.
fn settle_if_forwarded(play: &mut Play<'_>, tag: u64) -> Option<()> {
    play.barrier()?;
    if let Some(far) = play.arrived(tag) {
        play.confirm_cancel(&far);
    }
    Some(())
}

pub(super) fn id_reused_at_once(play: &mut Play<'_>) -> Option<()> {
    let id = play.id(9013);
    let ((first, one), (second, two)) = (play.request_text(&id), play.request_text(&id));
    let cancel = play.cancel_text(&id);
    play.send(&[first, cancel, second]);
    settle_if_forwarded(play, one)?;
    finish_if_forwarded(play, two)
}

fn finish_if_forwarded(play: &mut Play<'_>, tag: u64) -> Option<()> {
    play.arrived(tag).iter().for_each(|far| play.finish_call(far));
    play.barrier()
}

pub(super) fn crossing(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9014)?;
    play.finish_call(&far);
    play.cancel(&id);
    play.answered(&id)
}

pub(super) fn id_reused_after_answer(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9015)?;
    play.cancelled(&id)?;
    play.confirm(&id, &far)?;
    // The second use is as live as the first, and the old cancel is not its own.
    let far = play.call(&id)?;
    play.barrier()?;
    play.finish_call(&far);
    play.barrier()
}

pub(super) fn duplicate_id(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9016)?;
    let (twin, tag) = play.request_text(&id);
    play.send(&[twin]);
    play.barrier()?;
    play.finish_call(&far);
    finish_if_forwarded(play, tag)
}

pub(super) fn odd_spelling(play: &mut Play<'_>) -> Option<()> {
    let (one, two) = (play.text_id("é/1"), play.id(9017));
    let (first, tag) = play.request_text(&one);
    let (second, tag_2) = play.request_text(&two);
    let second = second.replace(r#""text":"hé""#, r#""text":1e2"#);
    play.send(&[respelled(&first), second]);
    let (far, far_2) = (play.arrives(tag)?, play.arrives(tag_2)?);
    let cancels = [&one, &two].map(|id| respelled(&play.cancel_text(id)));
    play.send(&cancels);
    play.barrier()?;
    play.confirm_cancel(&far_2);
    let answer = play.answer_text(&far, &json!({ "result": play.result(&far) }));
    play.swapped().send(&[respelled(&answer)]);
    play.answered(&one)?;
    play.answered(&two)
}

/// Returns the same message with its members in the opposite order, spaces between them, and needless escapes.
fn respelled(message: &str) -> String {
    let message: Value = serde_json::from_str(message).expect("it is one of ours");
    let members = message.as_object().into_iter().flatten().rev();
    let spelled: Vec<String> =
        members.map(|(name, value)| format!(r#" "{name}" : {}"#, escaped(value))).collect();
    format!("{{{} }}", spelled.join(" ,"))
}

/// Escapes slashes, letters that are not of ASCII, and the first letter of a text that stands alone.
fn escaped(value: &Value) -> String {
    let text = value.to_string().replace('é', "\\u00e9").replace('/', "\\/");
    let first = value.as_str().and_then(|text| text.chars().next());
    match first.filter(char::is_ascii_lowercase) {
        Some(first) => text.replacen(first, &format!("\\u{:04x}", u32::from(first)), 1),
        None => text,
    }
}

pub(super) fn batches(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9018)?;
    let cancel = play.cancel_text(&id);
    let (one, _) = play.request_text(&play.id(9019));
    let (two, _) = play.request_text(&play.id(9020));
    // One at a time: each is refused as a whole.
    for batch in [format!("[{one},{two}]"), format!("[{cancel}]"), "[]".into()] {
        play.send(&[batch]);
        play.barrier()?;
    }
    play.complete(&id, &far)
}

pub(super) fn stray_answers(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9021)?;
    for stray in possible(play, [json!(1_000_000), json!("stray"), Value::Null]) {
        play.finish_call(&stray);
    }
    if play.protocol().dialect.envelope == Envelope::JsonRpc {
        let without_id = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no id"}}"#;
        play.swapped().send(&[without_id.into()]);
    }
    play.complete(&id, &far)?;
    play.confirm_cancel(&far);
    play.finish_call(&far);
    Some(())
}

pub(super) fn answer_under_other_type(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9022)?;
    let other = far.as_str().map_or_else(|| json!(far.to_string()), |text| json!(text.len()));
    play.answer(&other, &json!({ "result": "of nothing" }));
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn malformed_answers(play: &mut Play<'_>) -> Option<()> {
    let answers = match play.protocol().dialect.envelope {
        Envelope::Dap => {
            [json!({ "success": "yes" }), json!({ "success": null }), json!({ "body": {} })]
        }
        _ => [
            json!({ "result": 1, "error": { "code": 1, "message": "both" } }),
            json!({ "error": { "code": "-32800", "message": "code as a string" } }),
            json!({ "error": "no object" }),
        ],
    };
    for (id, answer) in (9023..).zip(answers) {
        let far = play.call(&play.id(id))?;
        play.answer(&far, &answer);
        play.barrier()?;
    }
    Some(())
}

pub(super) fn errors_with_data(play: &mut Play<'_>) -> Option<()> {
    let id = play.text_id(&play.id(9026).to_string());
    let far = play.call(&id)?;
    let error = json!({ "code": -32000, "message": "é", "data": { "requestId": far } });
    play.answer(&far, &json!({ "error": error }));
    play.answered(&id)
}

pub(super) fn garbage(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9027)?;
    for text in [
        r#"{"jsonrpc":"2.0","id":}"#,
        "true",
        "{}",
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"{"jsonrpc":"2.0","method":"cut","params":{"#,
    ] {
        play.send(&[text.into()]);
    }
    let not_utf8 = b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}";
    let text = String::from_utf8_lossy(not_utf8).into_owned();
    let bytes = play.protocol().framed(&[not_utf8]);
    play.send_bytes(&[format!("not UTF-8: {text}")], bytes);
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn notifications(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9028)?;
    // Tokens are numbers of their own, even where they look like an id.
    let tokens = [far.clone(), id.clone(), json!(id.to_string())];
    let report = |token| ("$/progress", json!({ "token": token, "value": { "kind": "report" } }));
    let mut notes: Vec<(&str, Value)> = tokens.map(report).into();
    notes.extend((0..50).map(|index| ("note", json!({ "n": index }))));
    // A debugger has no events to tell its adapter.
    if play.protocol().dialect.envelope != Envelope::Dap {
        play.notify(&notes);
    }
    notes.push(("session/cancel", json!({ "sessionId": "a" })));
    play.swapped().notify(&notes);
    play.barrier()?;
    play.complete(&id, &far)
}

pub(super) fn byte_by_byte(play: &mut Play<'_>) -> Option<()> {
    let id = play.text_id("é");
    let (request, tag) = play.request_text(&id);
    let bytes = play.protocol().framed(std::slice::from_ref(&request));
    let (last, first) = bytes.split_last()?;
    for &byte in first {
        play.send_bytes(&[], vec![byte]);
    }
    play.send_bytes(&[request], vec![*last]);
    let far = play.arrives(tag)?;
    play.complete(&id, &far)
}

/// Calls with a request in each spelling, in which `{}` is the message and `{n}` its length.
fn each_spelled(play: &mut Play<'_>, spellings: &[&str]) -> Option<()> {
    let mut sent = Vec::new();
    for (id, spelling) in (9030..).zip(spellings) {
        let id = play.id(id);
        let (request, tag) = play.request_text(&id);
        let spelled = spelling.replace("{n}", &request.len().to_string()).replace("{}", &request);
        play.send_bytes(&[request], spelled.into_bytes());
        sent.push((id, tag));
    }
    for (id, tag) in sent {
        let far = play.arrives(tag)?;
        play.complete(&id, &far)?;
    }
    Some(())
}

pub(super) fn blank_lines(play: &mut Play<'_>) -> Option<()> {
    each_spelled(play, &["\n\r\n{}\r\n\n"])
}

pub(super) fn header_spellings(play: &mut Play<'_>) -> Option<()> {
    let spellings = [
        "content-length: {n}\r\n\r\n{}",
        "CONTENT-LENGTH:{n}\r\n\r\n{}",
        "Content-Length:   {n}\r\n\r\n{}",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: {n}\r\n\r\n{}",
        "Content-Length: {n}\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n{}",
        "Content-Length: {n}\n\n{}",
        "\r\nContent-Length: {n}\r\n\r\n{}",
        "Content-Length: 000{n}\r\n\r\n{}",
    ];
    each_spelled(play, &spellings)
}

pub(super) fn large_message(play: &mut Play<'_>) -> Option<()> {
    let id = play.id(9040);
    let large = "é".repeat(5 << 19);
    let (method, mut params) = play.request_parts(play.work());
    params["_meta"]["text"] = json!(large);
    let request = play.protocol().raw_request(&id, method, &params);
    play.send(&[request]);
    let far = play.arrives(play.tag())?;
    let mut result = play.result(&far);
    match result.as_array_mut() {
        Some(items) => items.push(json!(large)),
        None => result["_meta"]["text"] = json!(large),
    }
    play.answer(&far, &json!({ "result": result }));
    play.answered(&id)
}

pub(super) fn many(play: &mut Play<'_>) -> Option<()> {
    let ids: Vec<Value> = (0..200).map(|index| play.id(9100 + index)).collect();
    let (messages, tags): (Vec<_>, Vec<_>) = ids.iter().map(|id| play.request_text(id)).unzip();
    play.send(&messages);
    let far: Vec<Value> = tags.iter().map(|&tag| play.arrives(tag)).collect::<Option<_>>()?;
    let cancels: Vec<String> = ids.iter().step_by(3).map(|id| play.cancel_text(id)).collect();
    play.send(&cancels);
    play.barrier()?;
    for (index, far) in far.iter().enumerate().rev() {
        match index % 3 {
            0 => play.confirm_cancel(far),
            _ => play.finish_call(far),
        }
    }
    ids.iter().try_for_each(|id| play.answered(id))
}

pub(super) fn caller_hangs_up(play: &mut Play<'_>) -> Option<()> {
    let far = play.call(&play.id(9301))?;
    play.hang_up();
    play.cancelled_or_ended(&far)?;
    play.confirm_cancel(&far);
    Some(())
}

pub(super) fn callee_hangs_up(play: &mut Play<'_>) -> Option<()> {
    let id = play.id(9302);
    play.call(&id)?;
    play.swapped().hang_up();
    play.answered(&id)
}
