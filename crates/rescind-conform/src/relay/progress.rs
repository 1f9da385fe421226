//! Conversations about progress, about cancels that are requests, and about requests that are never answered or can't be
//! cancelled.

use serde_json::{Value, json};

use super::play::Play;
use super::work::Work;

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

/// Sends the first event of a progress that belongs to a request, and waits until it has arrived.
fn begun(play: &mut Play<'_>, far: &Value) -> Option<()> {
    let params = json!({ "progressId": "p", "title": "work", "requestId": far });
    play.swapped().notify(&[("progressStart", params)]);
    play.barrier()
}

pub(super) fn progress_of_request(play: &mut Play<'_>) -> Option<()> {
    let (id, far) = play.called(9045)?;
    begun(play, &far)?;
    play.complete(&id, &far)
}

/// Cancels only the progress: its request goes on.
pub(super) fn progress_cancelled(play: &mut Play<'_>) -> Option<()> {
    let (id, cancel) = (play.id(9046), play.id(9047));
    let far = play.call(&id)?;
    begun(play, &far)?;
    let params = json!({ "progressId": "p" });
    let message = play.protocol().raw_request(&cancel, "cancel", params);
    play.send(&[message]);
    let arrived = play.arrives(None)?;
    play.answer(&arrived, &json!({ "result": {} }));
    play.answered(&cancel)?;
    play.complete(&id, &far)
}

/// Reports the progress of requests by the tokens with which they have arrived, in one write.
fn report(play: &mut Play<'_>, all: &[(u64, u64)]) {
    let reports = all.iter().map(|&(tag, progress)| {
        let params = json!({ "progressToken": play.token(tag), "progress": progress });
        ("notifications/progress", params)
    });
    let reports: Vec<_> = reports.collect();
    play.swapped().notify(&reports);
}

/// Reports progress before a cancel arrives, after it does and after the answer, and beside it that of a request that
/// goes on.
pub(super) fn token_after_cancel(play: &mut Play<'_>) -> Option<()> {
    let ((id, far), tag) = (play.called(9033)?, play.tag());
    let ((other, far_2), tag_2) = (play.called(9034)?, play.tag());
    report(play, &[(tag, 1), (tag_2, 1)]);
    play.barrier()?;
    play.cancelled(&id)?;
    report(play, &[(tag, 2), (tag_2, 2)]);
    play.finish_call(&far);
    report(play, &[(tag_2, 3)]);
    play.barrier()?;
    play.complete(&other, &far_2)
}

pub(super) fn late_of_many(play: &mut Play<'_>) -> Option<()> {
    let ids: Vec<Value> = (0..20).map(|index| play.id(9400 + index)).collect();
    let sent = ids.iter().map(|id| play.call(id).map(|far| (play.tag(), far)));
    let sent: Vec<_> = sent.collect::<Option<_>>()?;
    let cancels: Vec<String> = ids.iter().step_by(2).map(|id| play.cancel_text(id)).collect();
    play.send(&cancels);
    play.barrier()?;
    for (tag, far) in &sent {
        report(play, &[(*tag, 1)]);
        play.finish_call(far);
    }
    ids.iter().try_for_each(|id| play.answered(id))
}

pub(super) fn cancel_refused(play: &mut Play<'_>) -> Option<()> {
    let methods = play.protocol().dialect.uncancellable.methods.clone();
    for (id, method) in (9035..).zip(methods.iter()) {
        let id = play.id(id);
        let (_, params) = play.request_parts(Work::Unknown);
        let request = play.protocol().raw_request(&id, method, params);
        play.send(&[request]);
        let far = play.arrives(play.tag())?;
        play.cancelled(&id)?;
        play.finish_call(&far);
        play.barrier()?;
    }
    Some(())
}
