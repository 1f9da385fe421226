//! The steps of checks, each with what does it.

use super::Play;
use super::items::Item;
use crate::check::{Id, Name, WorkEnd};
use crate::judge::rules::Rule;
use crate::stop::Stop;

impl Play<'_> {
    /// Does all steps, up to one that can't be done.
    pub(crate) fn perform(&mut self, steps: &[Step]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| step.perform(self))
    }
}

/// Defines the steps. Beside each stands what does it.
macro_rules! steps {
    (|$play:ident| $($(#[$about:meta])* $step:ident$(($($given:ident: $kind:ty),+))? => $does:expr;)*) => {
        /// One step of the runner.
        #[derive(Clone, Copy, Debug)]
        pub enum Step {
            $($(#[$about])* $step$(($($kind),+))?,)*
        }

        impl Step {
            fn perform(self, $play: &mut Play<'_>) -> Result<(), Stop> {
                match self {
                    $(Self::$step$(($($given),+))? => $does,)*
                }
            }
        }
    };
}

steps! { |play|
    /// Sends these in one write.
    Send(items: &'static [Item]) => play.send(items, false);
    /// Sends these so that all of them wait in one read of the server's.
    OneRead(items: &'static [Item]) => play.send(items, true);
    /// Waits until the server is seen to be at work on a request.
    Started(name: Name) => play.wait_until_started(name);
    /// Waits until a request or work has gone on for so many hundredths of the time that another has taken.
    Partway(name: Name, hundredths: u32, like: Name) => play.wait_partway(name, hundredths, like);
    /// Waits until it is answered.
    Answered(name: Name) => play.wait_for_answer(name);
    /// Waits for the answer to a cancelled request; where none is owed, for the next request's.
    Over(name: Name) => match play.wants_answers() {
        true => play.wait_for_answer(name),
        false => play.next(),
    };
    /// Makes a request that is done at once, and waits for its answer.
    Next => play.next();
    /// Waits until a cancelled request is over. It is over once it is answered, or once the server has done the
    /// same work in full since then and answered the next request.
    Settled(name: Name) => play.settle(name);
    /// Cancels a slow request, and sends nothing more until it is over. Tried again, for longer, if it is over only with
    /// the next message.
    Alone(name: Name) => play.settle_alone(name);
    /// Does the same slow work from its beginning to its end, without a cancel.
    Natural(name: Name) => {
        play.send(&[Item::Slow(name, Id::Fresh)], false)?;
        play.answering(|play| play.wait_for_answer(name))
    };
    /// Sends each cancel that merely names nothing, and the next request after each.
    MalformedCancels(name: Name) => play.malformed_cancels(name);
    /// Does the same with cancels whose params are not allowed, or can't be read by everybody.
    UnreadableCancels => play.unreadable_cancels();
    /// Sends this many quick requests in one write, each followed by its cancel. Then waits until all are
    /// answered, or the next request is.
    Burst(count: usize) => play.burst(count);
    /// So many requests that are done at once in one write, then cancels of half of them, chosen by the seed.
    HalfCancelled(count: usize) => play.half_cancelled(count);
    /// Makes slow requests, and cancels each after another part of the time that it takes.
    AnyMoment => play.any_moment();
    /// Stops reading, asks for more than fits into what is between the two, and for these; reads again.
    OutputFull(items: &'static [Item]) => play.output_full(items);
    /// The server's requests are left unanswered from here on.
    HoldReverse => play.hold_reverse();
    /// Waits for what says that the cancel of a request was read. The other was sent after it.
    CancelRead(name: Name, later: Name) => play.wait_until_cancel_read(name, later);
    /// Ends the check if the cancel of a request has had no effect: its protocol may let a server ignore it.
    Heeded(name: Name) => play.is_heeded(name);
    /// Waits until the cancel of a request is acknowledged, where the protocol wants that.
    CancelAnswered(name: Name) => play.wait_until_acknowledged(name);
    /// The server's input ends; waits until its output does.
    End => {
        play.session.end_input();
        play.end("its input")
    };
    /// Tells a language server to exit, and waits until its output ends.
    Exit => {
        play.send(&[Item::Notification("exit")], false)?;
        play.end("it was told to exit")
    };
    /// Makes so many slow requests one after the other, and cancels each once it is at work.
    EachCancelled(count: usize) => play.each_cancelled(count);
    /// Makes five slow requests, and cancels three of them in one write.
    CancelledTogether => play.cancelled_together();
    /// Sees how many slow requests the server takes at once, cancels so many, and sees it again.
    Capacity(cancels: usize) => play.compare_capacity(cancels);
    /// Waits until the server asks something of us for a request.
    AskedFor(name: Name) => play.wait_until_asked_for(name);
    /// Waits until work is seen to run, and learns its name where the server gives that.
    WorkStarted(name: Name) => play.wait_until_work_started(name);
    /// Waits until work has ended.
    WorkOver(name: Name) => play.wait_until_work_over(name);
    /// Waits until stopped work is over: it has ended, or the server has done other work since.
    WorkSettled(name: Name) => play.settle_work(name);
    /// Does the same work to its end where no end says whether it was a stop, to compare with that.
    WorkWhole(name: Name) => play.compare_work(name);
    /// Answers every open request of the agent with the outcome `cancelled`.
    AnswerAsCancelled => play.answer_as_cancelled();
    /// Answers what the server had asked of us and has cancelled. It is answered as cancelled, or with a response that has
    /// crossed the cancel where the protocol wants none.
    AnswerWithdrawn => play.answer_withdrawn();
    /// Asks the witness until it tells how the work of a request ended.
    Witnessed(name: Name) => play.ask_witness(name);
    /// Does the same of a request that is known to have ended so. A witness that says otherwise proves nothing.
    Tells(name: Name, end: WorkEnd) => play.trust_witness(name, end);
    /// Ends the check unless two requests have results of one form.
    Repeats(name: Name, other: Name) => play.compare_results(name, other, true);
    /// Ends the check if they have.
    Differs(name: Name, other: Name) => play.compare_results(name, other, false);
    /// Ends the check unless a request is answered as cancelled.
    SaidCancelled(name: Name) => play.said_cancelled(name);
    /// Makes a slow request that takes half of the time, and waits for its answer. If it is refused, that may be because
    /// cancelled work still holds its place, so it is made again after a pause.
    Half(name: Name) => play.half(name);
    /// Waits for as long as a slow request takes.
    Pause => {
        play.pause();
        Ok(())
    };
    /// Does all of these.
    All(steps: &'static [Step]) => play.perform(steps);
    /// Does these steps again where nobody can ask for a request that takes long enough: a cancel may come too late for
    /// one of them. Over with the first round that could be done, or the first in which the rule holds.
    ///
    /// In the end come a cancelled request, and one that was sent with its cancel. Answered first, this says that the cancel was
    /// read in time. A round in which it is not says nothing against the server.
    Rounds(steps: &'static [Step], until: Option<Rule>, in_time: Option<(Name, Name)>) => play.rounds(steps, until, in_time);
    /// From the beginning on the client's request that opens the session is held.
    HoldOpening => play.serve(|serving| serving.holds_opening = true);
    /// From the beginning on nothing is declared that the protocol lets a server declare.
    DeclareNothing => play.serve(|serving| serving.declares = false);
    /// Waits until a request of the client's is held.
    Held => play.hold();
    /// Pulls the trigger, if there is one, and waits until the held request is cancelled.
    Cancelled => play.wait_for_cancel();
    /// Pulls the trigger, if there is one, and lets the client read that; then waits twice as long as it took it
    /// to cancel.
    MayCancel => play.let_it_cancel();
    /// Ends the check if the held request is cancelled already: then nobody knows what the client had read.
    NotYetCancelled => play.is_not_yet_cancelled();
    /// Does the same as `Next`, but a client that ends as it does when nothing is wrong has shown as much.
    NextOrEnd => play.next_or_end();
}
