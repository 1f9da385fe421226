//! Children of ten kinds, many at once. Each loses its process, its handles or its runtime at a
//! random moment. Nothing is left of any child, no call is unsettled, and it takes no longer than
//! the graces.
//!
//! `CHILDREN=5000 CHILDREN_SEED=7 cargo test --release -p rescind-children-suite --test torture`

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::env;
use std::time::{Duration, Instant};

use protocol_async::SentRequest;
use protocol_child::{ChildCommand, ChildConnection, Stderr};
use protocol_core::Shutdown;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use serde_json::Value;
use smol::LocalExecutor;
use support::{Connect, Mark, eventually, on_smol, on_tokio, our_children, soon};

/// Answers each request with its id.
const SERVER: &str = r#"sed -u -n 's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":\1}/p'"#;

/// The kinds of children, with the script of each. `SERVER` stands for one that responds.
const KINDS: [(&str, &str); 10] = [
    ("a server", "exec SERVER"),
    ("a server behind a wrapper", "SERVER; true"),
    ("a server beside its wrapper", "SERVER <&0 & wait"),
    ("a server that dies", "SERVER <&0 & read line <&-; sleep 0.0MOMENT; exit 3"),
    ("a wrapper that dies and leaves a holder of its pipes", "sleep 1000 & exit 3"),
    ("one that reads nothing", "exec sleep 1000"),
    ("one that is deaf to its input and to SIGTERM", "trap '' TERM; sleep 1000; sleep 1000"),
    ("one that floods stderr", "yes | head -c 500000 >&2; exec SERVER"),
    ("one that floods stdout", r#"yes '{"jsonrpc":"2.0","method":"n"}' | head -c 500000; SERVER"#),
    ("one that closes its output and lives on", "exec >&-; sleep 1000"),
];

/// The harm that a child meets.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Killed,
    Terminated,
    GroupKilled,
    HandlesDropped,
    Abandoned,
    ShutDown,
}

const BLOWS: [Blow; 6] = [
    Blow::Killed,
    Blow::Terminated,
    Blow::GroupKilled,
    Blow::HandlesDropped,
    Blow::Abandoned,
    Blow::ShutDown,
];

/// Those that are there at the same time.
const AT_ONCE: u64 = 20;

/// A stream of numbers that is the same for the same seed: `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// One child from its beginning to its end.
async fn live(connect: Connect, seed: u64, mark: &Mark) {
    let mut random = Random(seed);
    let (kind, script) = KINDS[usize::try_from(random.below(10)).unwrap()];
    let moment = Duration::from_micros(random.below(60_000));
    let script = script.replace("SERVER", SERVER).replace("MOMENT", &random.below(6).to_string());
    let stderr = match random.below(3) {
        0 => Stderr::Discard,
        1 => Stderr::Last { bytes: 100 },
        _ => Stderr::Lines(Box::new(|_| {})),
    };
    let grace = Duration::from_millis(100 + random.below(100));
    let command = ChildCommand::new(mark.shell(&script)).grace(grace).stderr(stderr);
    let blow = BLOWS[usize::try_from(random.below(6)).unwrap()];
    let what = format!("{kind}, {blow:?} after {moment:?}, seed {seed}");

    let child = connect(command).unwrap();
    let process = child.process.clone();
    let calls: Vec<SentRequest<Value>> =
        (0..random.below(5)).map(|_| child.peer.call("work", ())).collect();
    smol::Timer::after(moment).await;
    let kept = strike(child, blow);
    if matches!(blow, Blow::HandlesDropped) {
        // A call that is still in flight holds the connection; a dropped call cancels.
        drop(calls);
    } else {
        for call in calls {
            let _ = soon(&what, call).await;
        }
    }
    drop(kept);
    soon(&what, process.exit()).await.unwrap();
}

/// Strikes the child. Returns its handles, unless they were dropped.
fn strike(child: ChildConnection, blow: Blow) -> Option<ChildConnection> {
    let process = Pid::from_raw(i32::try_from(child.process.id()).unwrap()).unwrap();
    // It may be dead already, or deaf.
    let _ = match blow {
        Blow::Killed => kill_process(process, Signal::KILL),
        Blow::Terminated => {
            let sent = kill_process(process, Signal::TERM);
            child.peer.shutdown(Shutdown::CancelAll);
            sent
        }
        Blow::GroupKilled => {
            getpgid(Some(process)).and_then(|group| kill_process_group(group, Signal::KILL))
        }
        Blow::HandlesDropped => return None,
        Blow::Abandoned => {
            child.peer.shutdown(Shutdown::Abandon);
            Ok(())
        }
        Blow::ShutDown => {
            child.peer.shutdown(Shutdown::CancelAll);
            Ok(())
        }
    };
    Some(child)
}

/// All of them, so many at once.
async fn torture(connect: Connect) {
    let (children, seed) =
        (from_environment("CHILDREN", 200), from_environment("CHILDREN_SEED", 1));
    let mark = Mark::new();
    let begun = Instant::now();
    let executor = LocalExecutor::new();
    let lives: Vec<_> = (0..AT_ONCE)
        .map(|lane| {
            let mark = &mark;
            executor.spawn(async move {
                for number in (lane..children).step_by(AT_ONCE as usize) {
                    live(connect, seed * 1_000_003 + number, mark).await;
                }
            })
        })
        .collect();
    executor
        .run(async {
            for life in lives {
                life.await;
            }
        })
        .await;
    mark.assert_gone();
    println!("{children} children in {:?}", begun.elapsed());
}

/// The runtimes run one after the other: processes left by one would be taken for the other's.
#[test]
fn f32_f60_of_many_children_nothing_is_left() {
    support::run_on_tokio(torture(on_tokio));
    smol::block_on(torture(on_smol));
    eventually("no zombie and no watchdog is left", || our_children().is_empty());
}
