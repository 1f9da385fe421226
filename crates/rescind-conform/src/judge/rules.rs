//! The rules that records are judged by, each with what judges it.

use super::response::{in_time, made, once, own_result, repeated, same_result, undisturbed};
use super::*;

/// Returns the first rule that is broken, or else the first that nothing can be said of.
pub(crate) fn judge(play: &Play<'_>, rules: &[Rule]) -> Option<(Rule, Fault)> {
    let faults = || rules.iter().filter_map(|rule| Some((*rule, rule.breaks(play).err()?)));
    let is_broken = |(_, fault): &(Rule, Fault)| matches!(fault, Fault::Broken(_));
    faults().find(is_broken).or_else(|| faults().next())
}

/// Returns whether a server that breaks this rule is excused by doing the same in the run without the cancels.
///
/// The other rules ask for an effect of the cancel, or are about something else.
pub(crate) fn is_excused_by_control(play: &Play<'_>, rule: Rule) -> bool {
    match rule {
        Rule::Ended(_) => play.wants_answers(),
        Rule::EndedAs(_, end) => end == WorkEnd::Finished,
        rule => rule.is_excused(),
    }
}

/// Defines the rules. Beside each stands what returns the fault, and whether a server that breaks it is excused by doing the
/// same without the cancels.
macro_rules! rules {
    (|$play:ident| $($(#[$about:meta])* $rule:ident$(($($given:ident: $kind:ty),+))? => $does:expr $(, excused = $excused:literal)?;)*) => {
        /// A rule that is judged of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$about])* $rule$(($($kind),+))?,)*
        }

        impl Rule {
            fn breaks(self, $play: &Play<'_>) -> Result<(), Fault> {
                match self {
                    $(Self::$rule$(($($given),+))? => $does,)*
                }
            }

            fn is_excused(self) -> bool {
                match self {
                    $($(Self::$rule { .. } => $excused,)?)*
                    _ => false,
                }
            }
        }
    };
}

rules! { |play|
    /// A cancelled request ended as the protocol wants: one answer under its id, or none at all.
    Ended(name: Name) => ended(play, made(play, name)?);
    /// If it was answered, then by a result or as cancelled.
    AnsweredAsCancelled(name: Name) => as_cancelled(play, made(play, name)?), excused = true;
    /// A request was answered once under its id, and not as cancelled.
    Undisturbed(name: Name) => undisturbed(play, made(play, name)?), excused = true;
    /// A request was answered once under its id, whatever the answer.
    AnsweredOnce(name: Name) => once(play, made(play, name)?), excused = true;
    /// The server is seen to have read a cancel. It answered the request, or the other, which was sent later, or it cancelled
    /// what it had asked of us.
    CancelRead(name: Name, later: Name) => {
        let (id, later) = (&made(play, name)?.id, &made(play, later)?.id);
        holds_if(play.session.has_read_cancel(id, later), || {
            format!("nothing says that the cancel of request {id} was read")
        })
    };
    /// It was not worked on to its end: it is answered as cancelled, or with its result before the other.
    /// That was asked first, and takes half as long or as long.
    Honoured(cancelled: Name, before: Name) => honoured(play, cancelled, before);
    /// If it is answered with a result, then with as much of it as another was that is like it and was not cancelled.
    Whole(cancelled: Name, like: Name) => whole(play, made(play, cancelled)?, made(play, like)?);
    /// These requests have results of the form that a request has which is like them.
    SameResult(names: &'static [Name], like: Name) => {
        let like = made(play, like)?;
        names.iter().try_for_each(|name| same_result(play, made(play, *name)?, like))
    }, excused = true;
    /// A request has the result of two that are like it, if these have equal ones.
    Repeated(name: Name, alike: [Name; 2]) => {
        let [one, again] = [made(play, alike[0])?, made(play, alike[1])?];
        repeated(play, made(play, name)?, [one, again])
    }, excused = true;
    /// A request has not the result of another, which asked for something else than this one and two that are like it.
    OwnResult(name: Name, alike: [Name; 2], other: Name) => {
        let [one, again] = [made(play, alike[0])?, made(play, alike[1])?];
        own_result(play, made(play, name)?, [one, again], made(play, other)?)
    }, excused = true;
    /// No request was answered twice, and every one at least once where the protocol wants that.
    AllEnded => all_ended(play);
    /// No cancelled request is over only with the next message.
    Unprompted => holds_if(!play.is_prompted, || {
        "a cancelled request is answered only once something else is sent".into()
    }), excused = true;
    /// Those that were not cancelled were answered once, and not as cancelled.
    OthersUndisturbed => (play.crowd.iter())
        .filter(|made| made.cancelled_at.is_none())
        .try_for_each(|made| undisturbed(play, made)), excused = true;
    /// Each next request was answered.
    NextAnswered => next_answered(play), excused = true;
    /// Nothing was said under an id, which is a text where the protocol has no numbers.
    NothingUnder(token: &'static str) => nothing_under(play, &play.token(token)), excused = true;
    /// While malformed cancels were sent that are notifications and merely name nothing, every answer was to a
    /// request.
    MalformedUnanswered => stray(play, |at| play.silent.contains(&at)), excused = true;
    /// No progress of a request once the server had read its cancel.
    NoProgressAfter(name: Name) => progress::none_after(play, made(play, name)?);
    /// Every report of progress but those of this request is of one that has no response yet, and tells of more than the last.
    ProgressOfOthers(name: Name) => progress::of_others(play, made(play, name)?), excused = true;
    /// There is progress of a request after the cancel of another.
    ProgressGoesOn(name: Name, other: Name) => {
        progress::goes_on(play, made(play, name)?, made(play, other)?)
    }, excused = true;
    /// The end of each progress of a request was reported.
    ProgressEnded(name: Name) => progress::ended(play, made(play, name)?), excused = true;
    /// Everything that the server wrote is a message that it may write, and every answer one to a request.
    Clean => clean(play).and_then(|()| stray(play, |_| true));
    /// Each message of the server has the number after that of the one before.
    SeqCounts => seq_counts(play), excused = true;
    /// A request was refused as an unknown method.
    UnknownMethod(name: Name) => unknown_method(play, made(play, name)?);
    /// The server cancelled what it had asked of us.
    TheirsCancelled => theirs_cancelled(play);
    /// The server did not take our cancel for one of its own request: it asked on, and said nothing.
    TheirsUndisturbed => match theirs_cancelled(play) {
        Err(_) => Ok(()),
        Ok(()) => Err("the server has taken it for a cancel of its own request".into()),
    }, excused = true;
    /// Each of many cancelled requests ended as the others, and as the protocol wants.
    EachAsOthers => each_as_others(play);
    /// The server took and did as many slow requests at once as before the cancels.
    SameCapacity => same_capacity(play), excused = true;
    /// A request was answered before another, which was begun first and takes its time.
    Before(name: Name, other: Name) => before(play, made(play, name)?, made(play, other)?), excused = true;
    /// A request that the server made for one that was not cancelled was not cancelled.
    TheirsKept(name: Name) => theirs_kept(play, name);
    /// A request was answered long before the time was over that another takes, which was cancelled just before.
    Soon(name: Name, cancelled: Name) => soon(play, made(play, name)?, made(play, cancelled)?), excused = true;
    /// A request had no result when another, which was sent after it, was answered.
    AtWorkUntil(name: Name, other: Name) => at_work_until(play, made(play, name)?, made(play, other)?);
    /// Stopped work ended as the protocol wants, and its stops were answered so if they are requests.
    StopAnswered(name: Name) => work::stop_answered(play, name), excused = true;
    /// Something is reported of work before its end, or of a request that reports progress.
    Reports(name: Name) => work::reported(play, name), excused = true;
    /// The end of stopped work says that it was stopped.
    StopHonoured(name: Name) => work::stop_honoured(play, name);
    /// Work that nobody stopped went on to its end, which does not say that it was stopped.
    WorkFinished(name: Name) => work::finished(play, name), excused = true;
    /// Stopped work ended before other work that was begun before it, and takes as long.
    StoppedBefore(name: Name, other: Name) => work::stopped_before(play, name, other);
    /// The stop of work was read while this work ran, which may be the same. If it was not, nothing was seen.
    StoppedWhile(name: Name, running: Name) => work::stopped_while(play, name, running);
    /// Nothing was reported of work after its end, and its status is what it was then.
    QuietAfter(name: Name) => work::quiet_after(play, name), excused = true;
    /// Nothing was reported under a token of ours after the response to its request.
    QuietAfterResponse(name: Name) => work::quiet_after_response(play, name), excused = true;
    /// A prompt was accepted, or is answered as cancelled.
    Accepted(name: Name) => work::accepted(play, made(play, name)?), excused = true;
    /// Something under the id of a request says that it was cancelled.
    SaysCancelled(name: Name) => {
        let made = made(play, name)?;
        let said = says_cancelled(play, made);
        if !said && play.was_late() {
            in_time(play, made)?;
        }
        holds_if(said, || format!("nothing says that {made} was cancelled"))
    };
    /// The witness tells that the work of a request ended so.
    EndedAs(name: Name, end: WorkEnd) => ended_as(made(play, name)?, play.witnessed.get(&name), end);
    /// The server ended by itself after its input had.
    Exited => has_ended(play).map(drop);
    /// The server ended when it was told to.
    ExitedOnRequest => has_ended(play).map(drop), excused = true;
    /// It left nothing running.
    NoOrphan => holds_if(has_ended(play)?, || {
        let subject = play.subject();
        format!("something that {subject} had started was left, and had to be ended")
    });
    /// The cancel was acknowledged, with whether there was something to cancel.
    Acknowledged(name: Name, cancelled: bool) => acknowledged(play, made(play, name)?, cancelled);
    /// Each cancel is answered once, where they are requests.
    CancelsAnswered => cancels_answered(play);
    /// The client cancelled no request twice.
    CancelledOnce => client::cancelled_once(play);
    /// Every cancel names a request that was made before it, though perhaps as another type.
    NamesRequest => play.session.cancels().try_for_each(|(at, id)| client::names_request(play, at, id));
    /// Every cancel names its request by the id as it was written.
    NamedAsWritten => play.session.cancels().try_for_each(|(_, id)| client::as_written(play, id));
    /// The held request was not cancelled.
    NotCancelled => client::not_cancelled_from(play, 0);
    /// The held request was not cancelled once its answer had been read.
    NotCancelledAfterAnswer => client::not_cancelled_after_answer(play);
    /// The held request was still in flight in the end: the client has cancelled it.
    StillInFlight => client::still_in_flight(play);
    /// No two requests in flight had one id, and in the protocols that forbid it no two at all.
    IdsUnique => client::ids_unique(play);
}
