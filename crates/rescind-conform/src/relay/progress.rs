//! Conversations in which cancels are requests, and may name a progress.

use serde_json::{Value, json};

use super::envelope;
use super::play::Play;

pub(super) fn acknowledged(play: &mut Play<'_>) -> Option<()> {
    let (id, other) = (play.id(9042), play.id(9043));
    let answered = play.call(&other)?;
    play.complete(&other, &answered)?;
    let far = play.call(&id)?;
    for named in [&id, &other, &play.id(9044)] {
        play.cancel(named);
        play.barrier()?;
    }
    play.cancel(&id);
    play.confirm(&id, &far)
}

/// The first event of a progress that belongs to a request.
fn begun(play: &Play<'_>, far: &Value) -> String {
    let params = json!({ "progressId": "p", "title": "work", "requestId": far });
    play.note_back("progressStart", &params)
}

pub(super) fn progress_of_request(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9045)?;
    let begun = begun(play, &far);
    play.send_back(&[begun]);
    play.barrier()?;
    play.complete(&id, &far)
}

/// The request goes on: only its progress is cancelled.
pub(super) fn progress_cancelled(play: &mut Play<'_>) -> Option<()> {
    let (id, cancel) = (play.id(9046), play.id(9047));
    let far = play.call(&id)?;
    let begun = begun(play, &far);
    play.send_back(&[begun]);
    play.barrier()?;
    let params = json!({ "progressId": "p" });
    let message = envelope::request(play.protocol(), &cancel, "cancel", &params);
    play.send(&[message]);
    let arrived = play.arrives_as("cancel")?;
    play.answer(&arrived, &json!({ "result": {} }));
    play.answered(&cancel)?;
    play.complete(&id, &far)
}
