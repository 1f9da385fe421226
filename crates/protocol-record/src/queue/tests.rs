use super::*;

fn message(len: usize) -> Entry {
    Entry { t: 0, hop: 0, what: What::Message(Direction::Sent, None), len }
}

const COST: usize = size_of::<Entry>() + 100;

fn push(queue: &Queue, times: usize) {
    for _ in 0..times {
        queue.push(message(100), &[b'x'; 100]);
    }
}

#[test]
fn g08_what_waits_is_bounded_and_what_does_not_fit_is_counted() {
    let queue = Queue::new(10 * COST);
    push(&queue, 25);
    let mut batch = Batch::default();
    assert_eq!(queue.take(&mut batch), Ending::Open);
    assert_eq!(batch.entries.len(), 10);
    assert_eq!(batch.bytes.len(), 1000);
    let gap = batch.gap.unwrap();
    assert_eq!((gap.lines, gap.bytes), (15, 1500));
    assert_eq!(queue.seen(), 25);
}

#[test]
fn g08_what_is_being_written_counts_until_it_is_written() {
    let queue = Queue::new(10 * COST);
    push(&queue, 10);
    let mut batch = Batch::default();
    let _ = queue.take(&mut batch);
    push(&queue, 10);
    let _ = queue.take(&mut batch);
    assert_eq!((batch.entries.len(), batch.gap.unwrap().lines), (0, 10));
    push(&queue, 10);
    let _ = queue.take(&mut batch);
    assert_eq!((batch.entries.len(), batch.gap), (10, None));
}

#[test]
fn a_gap_is_one_and_stands_where_it_was() {
    let queue = Queue::new(11 * COST - 1);
    push(&queue, 10);
    queue.push(message(100), &[0; 100]);
    // It would fit, but not before what is missing.
    queue.push(Entry { len: 0, ..message(0) }, &[]);
    let mut batch = Batch::default();
    let _ = queue.take(&mut batch);
    assert_eq!((batch.entries.len(), batch.gap.unwrap().lines), (10, 2));
}

#[test]
fn nothing_is_kept_when_nothing_is_written_any_more() {
    let queue = Queue::new(10 * COST);
    push(&queue, 5);
    queue.give_up();
    push(&queue, 5);
    assert_eq!(queue.seen(), 10);
    queue.end(7);
    let mut batch = Batch::default();
    assert_eq!(queue.take(&mut batch), Ending::Ended(7));
    assert!(batch.is_empty());
}

#[test]
fn whoever_is_recorded_wakes_the_writer_only_when_it_sleeps_or_room_gets_scarce() {
    for (writer, cost, is_woken) in [
        (Writer::Awake, 100, false),
        (Writer::Lingers, 49, false),
        (Writer::Lingers, 50, true),
        (Writer::Sleeps, 1, true),
    ] {
        let mut state = State { writer, ..State::default() };
        state.waiting.cost = cost;
        assert_eq!(state.wakes_writer(100), is_woken, "{writer:?} {cost}");
    }
}
