//! The things that a handler can do beside its response, and their effects.

use std::time::Duration;

use protocol_async::{CallError, Failure, Options};
use protocol_core::{CallOptions, CloseReason, Config, Dialect, Framing};
use serde_json::{Value, json};
use smol::channel::unbounded;

use super::{
    Router, TICK, acp, against_far, cancel_line, cancelled_line, error_line, is_pending,
    request_line, result_line, run, sleep, spawn,
};
use crate::pipe::ENDLESS;

#[test]
fn f37_an_error_of_serde_tells_the_peer_nothing_and_the_host_everything() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, troubles) = unbounded();
        spawn(async move {
            let router = Router::new()
                .on_trouble(move |trouble| {
                    let protocol_router::Trouble::Failed { failure, .. } = trouble else {
                        return;
                    };
                    told.try_send((trouble.to_string(), failure.reason().to_string())).unwrap();
                })
                .request("leak", async |(): (), _| {
                    let secret = json!({ "token": "hunter2" });
                    Ok(serde_json::from_value::<Vec<u32>>(secret["token"].clone())?)
                })
                .request("file", async |(): (), _| {
                    Ok(std::fs::read_to_string("/hunter2/is/not/there")?)
                })
                .request("own", async |(): (), _| Err::<(), _>(Failure::internal("hunter2")));
            router.serve(&incoming).await;
        });
        for (id, method) in [(1, "leak"), (2, "file"), (3, "own")] {
            far.send(&[&request_line(id, method)]).await;
            far.expect(&error_line(id, -32603, "internal error")).await;
            let (text, reason) = troubles.recv().await.unwrap();
            assert!(text.starts_with(&format!("the handler of {method:?} failed: ")), "{text}");
            // A message of serde's may quote anything; the others are the host's own words.
            assert_eq!(text.contains("hunter2"), id == 3, "{text}");
            assert_eq!(reason.contains("hunter2"), id != 2, "{reason}");
        }
    });
}

/// Neither an answer that does not fit nor an error around one of serde's.
#[test]
fn f37_the_text_of_trouble_quotes_nobody() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (told, troubles) = unbounded();
        spawn(async move {
            let router = Router::new()
                .on_trouble(move |trouble| told.try_send(trouble.to_string()).unwrap())
                .request("answer", async |(): (), cx| Ok(cx.call::<u8>("ask", ()).await?))
                .request("error", async |(): (), cx| {
                    cx.call::<u8>("ask", ()).await.map_err(Failure::internal)
                })
                .request("around", async |(): (), cx| {
                    let answer: Value = cx.call("ask", ()).await?;
                    let error = serde_json::from_value::<u8>(answer).unwrap_err();
                    Err::<(), _>(std::io::Error::other(error).into())
                })
                .request("unwrapped", async |(): (), cx| {
                    let answer: Value = cx.call("ask", ()).await?;
                    Ok(serde_json::from_value::<u8>(answer).unwrap())
                });
            router.serve(&incoming).await;
        });
        let refused = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"hunter2"}}"#;
        let secret = |id| result_line(id, "\"hunter2\"");
        for (id, method, answer, text) in [
            (1, "answer", secret(1), "the result of a call does not fit"),
            (2, "error", refused.to_owned(), "error -5"),
            (3, "around", secret(3), "JSON at line 0 column 0"),
            (4, "unwrapped", secret(4), "panicked"),
        ] {
            far.send(&[&request_line(id, method)]).await;
            far.expect(&request_line(id, "ask")).await;
            far.send(&[&answer]).await;
            let expected = format!("the handler of {method:?} failed: {text}");
            assert_eq!(troubles.recv().await.unwrap(), expected);
            assert!(!far.line().await.unwrap().contains("hunter2"));
        }
    });
}

#[test]
fn f38_run_until_cancelled_gives_what_a_handler_gives() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        async fn work(answer: Result<u8, Failure>, wait: bool) -> Result<u8, Failure> {
            if wait {
                std::future::pending::<()>().await;
            }
            answer
        }
        spawn(async move {
            let router = Router::new()
                .request("done", async |(): (), cx| {
                    cx.cancellation().run_until_cancelled(work(Ok(42), false)).await
                })
                .request("fails", async |(): (), cx| {
                    let failure = protocol_async::RpcError::new(-5, "no").into();
                    let done =
                        cx.cancellation().run_until_cancelled(work(Err(failure), false)).await?;
                    Ok(done)
                })
                .request("waits", async |(): (), cx| {
                    cx.cancellation().run_until_cancelled(work(Ok(1), true)).await
                });
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "done"), &request_line(2, "fails")]).await;
        far.expect(&result_line(1, "42")).await;
        far.expect(&error_line(2, -5, "no")).await;
        far.send(&[&request_line(3, "waits"), &cancel_line(3)]).await;
        far.expect(&cancelled_line(3)).await;
    });
}

#[test]
fn f42_a_nested_call_has_a_parent_and_a_deadline() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new().request("outer", async |ms: (u64,), cx| {
                let options = CallOptions::default().timeout(Duration::from_millis(ms.0));
                match cx.call_with::<()>("inner", (), options).await {
                    Err(CallError::TimedOut { .. }) => Ok("timed out"),
                    other => Ok(other.map(|()| "done")?),
                }
            });
            router.serve(&incoming).await;
        });
        let outer = |id: u64, ms: u64| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"outer","params":[{ms}]}}"#)
        };
        far.send(&[&outer(1, 30)]).await;
        far.expect(&request_line(1, "inner")).await;
        let (mut cancelled, mut answered) = (false, false);
        for _ in 0..2 {
            let line = far.line().await.unwrap();
            cancelled |= line == cancel_line(1);
            answered |= line == result_line(1, "\"timed out\"");
        }
        assert!(cancelled && answered);
        far.send(&[&outer(2, 1_000_000_000)]).await;
        far.expect(&request_line(2, "inner")).await;
        far.send(&[&cancel_line(2)]).await;
        far.expect(&cancel_line(2)).await;
        far.send(&[&cancelled_line(2)]).await;
        far.expect(&error_line(2, -32800, "Request cancelled")).await;
    });
}

#[test]
fn f42_a_context_says_what_was_asked() {
    run(async {
        let mut config = Config::server(Dialect::ABP);
        config.dialect.framing = Framing::Newline;
        let (_peer, incoming, mut far) = against_far(config, ENDLESS);
        let (told, asked) = unbounded();
        spawn(async move {
            let router = Router::new()
                .request("initialize", async |_: Value, _| Ok(json!({})))
                .request("print", async move |_: Value, cx| {
                    cx.progress(json!({ "progress": 1 })).await?;
                    let options = cx.options().map(|options| options.get().to_owned());
                    let params = cx.params().map(|params| params.get().to_owned());
                    let asked = (cx.method().to_string(), cx.handle().is_some(), params, options);
                    told.try_send(asked).unwrap();
                    Ok(())
                });
            router.serve(&incoming).await;
        });
        let message = |kind: &str, id: u8, payload: &str| {
            format!(r#"{{"type":"{kind}","id":{id},"timestamp":0,"payload":{payload}}}"#)
        };
        far.send(&[&message("initialize", 0, "{}")]).await;
        far.line().await.unwrap();
        let options = r#"{"progressToken":"p"}"#;
        let call = format!(r#"{{"capability":"print","params":[1],"options":{options}}}"#);
        far.send(&[&message("capabilities/call", 1, &call)]).await;
        let (method, has_handle, params, given) = asked.recv().await.unwrap();
        assert_eq!((&*method, has_handle), ("print", true));
        assert_eq!((params.as_deref(), given.as_deref()), (Some("[1]"), Some(options)));
        let progress = far.line().await.unwrap();
        assert!(progress.contains(r#""capabilities/progress""#), "{progress}");
        assert!(progress.contains(r#"{"progress":1,"progressToken":"p"}"#), "{progress}");
    });
}

#[test]
fn f42_progress_goes_by_the_token_that_the_peer_named() {
    run(async {
        let (_peer, incoming, mut far) =
            against_far(Config::server(Dialect::MCP_2025_06_18), ENDLESS);
        spawn(async move {
            let router = Router::new().request("count", async |_: Value, cx| {
                for progress in 1..=2 {
                    cx.progress(json!({ "progress": progress, "total": 2 })).await?;
                }
                Ok(json!({}))
            });
            router.serve(&incoming).await;
        });
        let count = |id: u64, params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"count","params":{params}}}"#)
        };
        far.send(&[&count(1, r#"{"_meta":{"progressToken":7}}"#)]).await;
        for progress in 1..=2 {
            let line = far.line().await.unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["method"], "notifications/progress");
            let expected = json!({ "progressToken": 7, "progress": progress, "total": 2 });
            assert_eq!(line["params"], expected);
        }
        far.expect(&result_line(1, "{}")).await;
        // A request without a token wants no progress.
        for (id, params) in [(2, "{}"), (3, r#"{"_meta":{"progressToken":null}}"#)] {
            far.send(&[&count(id, params)]).await;
            far.expect(&result_line(id, "{}")).await;
        }
    });
}

#[test]
fn f42_notify_waits_for_room() {
    run(async {
        let mut config = acp();
        config.limits.unsent_bytes = 1_000;
        let (peer, incoming, mut far) = against_far(config, 64);
        spawn(async move {
            let router = Router::new().request("stream", async |(): (), cx| {
                for chunk in 0..100 {
                    cx.notify("chunk", (chunk, "x".repeat(400))).await?;
                }
                Ok("done")
            });
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "stream")]).await;
        for chunk in 0..100 {
            let line = far.line().await.unwrap();
            assert!(line.contains(&format!(r#""params":[{chunk},"#)), "{line}");
        }
        far.expect(&result_line(1, "\"done\"")).await;
        // A message that will never fit is refused, and so is every one once the connection is
        // closed.
        assert_eq!(
            peer.notify("n", ["x".repeat(2_000)]).await,
            Err(protocol_core::Refusal::TooLarge)
        );
        far.close();
        peer.closed().await;
        assert!(peer.notify("n", ()).await.is_err());
    });
}

#[test]
fn f42_work_beside_a_handler_outlives_it() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let (go, gone) = unbounded::<()>();
        let (told, seen) = unbounded();
        let (ended, reason) = unbounded();
        spawn(async move {
            let router =
                Router::new().on_trouble(|_| ()).request("begin", async move |(): (), cx| {
                    let (gone, told, later) = (gone.clone(), told.clone(), cx.clone());
                    cx.spawn(async move {
                        gone.recv().await.unwrap();
                        told.try_send("spawned".to_owned()).unwrap();
                        // From one that has begun, another.
                        let told = told.clone();
                        let asked = later.peer().call::<u8>("ask", ());
                        later.spawn(async move {
                            told.try_send(format!("{:?}", asked.await?)).unwrap();
                            Ok(())
                        });
                        Ok(())
                    });
                    cx.spawn(async { panic!("on purpose") });
                    Ok("begun")
                });
            ended.try_send(router.serve(&incoming).await).unwrap();
        });
        far.send(&[&request_line(1, "begin")]).await;
        far.expect(&result_line(1, "\"begun\"")).await;
        go.try_send(()).unwrap();
        assert_eq!(seen.recv().await.unwrap(), "spawned");
        far.expect(&request_line(1, "ask")).await;
        far.send(&[&result_line(1, "9")]).await;
        assert_eq!(seen.recv().await.unwrap(), "9");
        far.send(&[&request_line(2, "begin")]).await;
        far.expect(&result_line(2, "\"begun\"")).await;
        far.close();
        sleep(TICK).await;
        assert!(reason.is_empty(), "the work beside is not done");
        go.try_send(()).unwrap();
        assert_eq!(reason.recv().await.unwrap(), CloseReason::PeerGone);
    });
}

#[test]
fn g07_a_call_lost_by_what_cancelled_its_request_responds_as_cancelled() {
    run(async {
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        spawn(async move {
            let router = Router::new()
                .request("work", async |(): (), cx| Ok(cx.call::<Value>("ask", ()).await?));
            router.serve(&incoming).await;
        });
        far.send(&[&request_line(1, "work")]).await;
        assert!(far.line().await.unwrap().contains("ask"));
        far.close();
        far.expect(&cancelled_line(1)).await;
    });
}

/// The far end reads nothing until it has hung up, and then all that was answered.
#[test]
fn f43_what_was_answered_is_written_when_serve_returns() {
    run(async {
        let mut options = Options::new(acp());
        options.patience = TICK * 1_000;
        let (_peer, incoming, mut far) = against_far(options, 8);
        let (ended, reason) = unbounded();
        let (told, served) = unbounded();
        spawn(async move {
            let router = Router::new().request("big", async move |(): (), _| {
                told.try_send(()).unwrap();
                Ok("x".repeat(1_000))
            });
            let reason = router.serve(&incoming).await;
            assert!(!is_pending(&mut incoming.peer().flushed()).await);
            ended.try_send(reason).unwrap();
        });
        for id in 1..=5 {
            far.send(&[&request_line(id, "big")]).await;
            served.recv().await.unwrap();
        }
        far.close();
        sleep(TICK / 10).await;
        assert!(reason.is_empty(), "nobody has read a byte");
        for id in 1..=5 {
            far.expect(&result_line(id, &format!("{:?}", "x".repeat(1_000)))).await;
        }
        assert_eq!(reason.recv().await.unwrap(), CloseReason::PeerGone);
    });
}
