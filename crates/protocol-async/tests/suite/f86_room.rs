//! F86 and F89: waiters are first come, first served, and one is woken.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use protocol_async::hub::{Hub, Messages};
use protocol_async::{Incoming, Peer};
use protocol_core::{Config, Dialect, InputBuffer, Refusal, Timestamp};

/// A task that counts how often it was woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Task {
    fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn connection(unsent_messages: usize) -> (Hub, Peer, Incoming) {
    let mut config = Config::client(Dialect::ACP_V1);
    config.limits.unsent_messages = unsent_messages;
    Hub::new(config, || Timestamp::ZERO)
}

/// Writes everything that waits, and returns its methods.
fn written(hub: &Hub) -> Vec<String> {
    let mut out = Messages::default();
    let _ = hub.poll_output(Waker::noop(), &mut out);
    let lines = String::from_utf8(out.bytes().to_vec()).unwrap();
    let method = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        message["method"].as_str().unwrap().to_owned()
    };
    lines.lines().map(method).collect()
}

fn poll<F: Future>(future: &mut Pin<&mut F>, task: &Arc<Task>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(task.clone())))
}

#[test]
fn f86_a_later_notification_overtakes_none_that_waits() {
    let (hub, peer, _incoming) = connection(1);
    peer.try_notify("0", ()).unwrap();
    let tasks: Vec<Arc<Task>> = (0..4).map(|_| Arc::default()).collect();
    let mut one = pin!(peer.notify("1", ()));
    let mut two = pin!(peer.notify("2", ()));
    let mut three = pin!(peer.notify("3", ()));
    assert!(poll(&mut one, &tasks[1]).is_pending());
    assert!(poll(&mut two, &tasks[2]).is_pending());
    let mut wire = written(&hub);
    // There is room now, and the first in the queue has not taken it yet.
    assert_eq!(tasks[1].wakes(), 1);
    assert_eq!(peer.try_notify("late", ()), Err(Refusal::OutboxFull));
    assert!(poll(&mut three, &tasks[3]).is_pending());
    assert!(poll(&mut two, &tasks[2]).is_pending());
    assert_eq!(tasks[2].wakes() + tasks[3].wakes(), 0, "one is woken");
    assert!(poll(&mut one, &tasks[1]).is_ready());
    for (notified, task) in [(&mut two, &tasks[2]), (&mut three, &tasks[3])] {
        wire.extend(written(&hub));
        assert_eq!(task.wakes(), 1);
        assert!(poll(notified, task).is_ready());
    }
    wire.extend(written(&hub));
    assert_eq!(wire, ["0", "1", "2", "3"]);
    peer.try_notify("4", ()).unwrap();
}

#[test]
fn f86_who_leaves_the_queue_passes_its_turn_on() {
    let (hub, peer, _incoming) = connection(1);
    peer.try_notify("0", ()).unwrap();
    let [first, second] = [(); 2].map(|()| Arc::<Task>::default());
    let mut one = Box::pin(peer.notify("1", ()));
    let mut two = pin!(peer.notify("2", ()));
    assert!(poll(&mut one.as_mut(), &first).is_pending());
    assert!(poll(&mut two, &second).is_pending());
    written(&hub);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(one);
    assert_eq!(second.wakes(), 1);
    assert!(poll(&mut two, &second).is_ready());
    assert_eq!(written(&hub), ["2"]);
}

#[test]
fn f86_who_waits_for_room_learns_of_the_end() {
    let (hub, peer, _incoming) = connection(1);
    peer.try_notify("0", ()).unwrap();
    let task = Arc::<Task>::default();
    let mut notified = pin!(peer.notify("1", ()));
    let mut ready = pin!(peer.ready());
    assert!(poll(&mut notified, &task).is_pending());
    assert!(poll(&mut ready, &task).is_pending());
    drop(hub);
    assert_eq!(poll(&mut notified, &task), Poll::Ready(Err(Refusal::Closed)));
    assert!(poll(&mut ready, &task).is_ready());
}

#[test]
fn f86_tasks_that_wait_until_they_may_try_again_do_not_keep_each_other_awake() {
    let (hub, peer, _incoming) = connection(1);
    peer.try_notify("0", ()).unwrap();
    let send = async |method| {
        while peer.try_notify(method, ()) == Err(Refusal::OutboxFull) {
            peer.ready().await;
        }
    };
    let tasks = [(); 2].map(|()| Arc::<Task>::default());
    let mut sending = [Box::pin(send("1")), Box::pin(send("2"))];
    for (sending, task) in sending.iter_mut().zip(&tasks) {
        assert!(poll(&mut sending.as_mut(), task).is_pending());
    }
    let mut wire = written(&hub);
    for is_sent in [true, true, false] {
        // Each turn polls the tasks that are awake, until they are asleep.
        let mut polls = 0;
        while let Some(awake) = tasks.iter().position(|task| task.0.swap(0, SeqCst) > 0) {
            let _ = poll(&mut sending[awake].as_mut(), &tasks[awake]);
            polls += 1;
            assert!(polls < 8, "they wake each other");
        }
        let before = wire.len();
        wire.extend(written(&hub));
        assert_eq!(wire.len() > before, is_sent);
    }
    assert_eq!(wire, ["0", "1", "2"]);
}

#[test]
fn f86_who_may_try_again_comes_after_those_whose_message_waits() {
    let (hub, peer, _incoming) = connection(1);
    peer.try_notify("0", ()).unwrap();
    assert_eq!(peer.try_notify("1", ()), Err(Refusal::OutboxFull));
    let [first, second] = [(); 2].map(|()| Arc::<Task>::default());
    let mut ready = pin!(peer.ready());
    let mut notified = Box::pin(peer.notify("1", ()));
    assert!(poll(&mut ready, &first).is_pending());
    assert!(poll(&mut notified.as_mut(), &second).is_pending());
    written(&hub);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert!(poll(&mut ready, &first).is_pending());
    drop(notified);
    assert_eq!(first.wakes(), 1);
    assert!(poll(&mut ready, &first).is_ready());
}

#[test]
fn f89_one_worker_is_woken_for_an_arrival() {
    let (hub, _peer, incoming) = connection(8);
    let tasks: Vec<Arc<Task>> = (0..128).map(|_| Arc::default()).collect();
    let workers: Vec<Incoming> = tasks.iter().map(|_| incoming.clone()).collect();
    let mut waiting: Vec<_> = workers.iter().map(|worker| Box::pin(worker.receive())).collect();
    for (worker, task) in waiting.iter_mut().zip(&tasks) {
        assert!(poll(&mut worker.as_mut(), task).is_pending());
    }
    let woken = || tasks.iter().map(|task| task.wakes()).collect::<Vec<_>>();
    let arrive = || {
        let mut input = InputBuffer::new();
        input.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
        let _ = hub.receive(&mut input);
    };
    arrive();
    assert_eq!((woken()[0], woken().iter().sum()), (1, 1), "only the first waiter is woken");
    arrive();
    assert_eq!((woken()[1], woken().iter().sum()), (1, 2));
    // One that is dropped before it takes its arrival passes it on.
    drop(waiting.remove(0));
    assert_eq!((woken()[2], woken().iter().sum()), (1, 3));
    assert!(poll(&mut waiting[0].as_mut(), &tasks[1]).is_ready());
    assert!(poll(&mut waiting[1].as_mut(), &tasks[2]).is_ready());
    drop(hub);
    assert!(tasks[3..].iter().all(|task| task.wakes() == 1), "all learn of the end");
}
