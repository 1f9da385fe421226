//! The fallback: its failure is the response.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_async::{Arrival, Failure, Responder, RpcError};
use protocol_router::{Context, Router};

use crate::wire::{against_far, cancel, notification, request, result};

type Kept = Mutex<Option<Responder>>;
type Troubles = Arc<Mutex<Vec<String>>>;

/// Serves each method of a request in another way, and returns the router and the trouble it reports.
fn router() -> (Router<Kept>, Troubles) {
    let troubles = Troubles::default();
    let reported = troubles.clone();
    let router = Router::with_state(Kept::default())
        .on_trouble(move |trouble| reported.lock().unwrap().push(trouble.to_string()))
        .fallback(async |arrival, cx| {
            let Arrival::Request(request, responder) = arrival else {
                return Err(RpcError::new(-7, "nobody's").into());
            };
            match request.method.as_str() {
                "fails" => Err(RpcError::new(-5, "no such thing").into()),
                "later" => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    drop(responder);
                    Err(RpcError::new(-6, "later").into())
                }
                "misfits" => {
                    let (_,): (String,) = request.params()?;
                    Ok(())
                }
                "breaks" => Err(std::io::Error::other("a secret"))?,
                "stops" => Ok(cx.cancellation().unless_cancelled(std::future::pending()).await?),
                "asks" => cx.call::<()>("ask", ()).await.map_err(Failure::from),
                "forgets" => Ok(()),
                "panics" => panic!("on purpose"),
                "responds" => {
                    responder.cast().respond(1);
                    Err(RpcError::new(-8, "too late").into())
                }
                _ => {
                    *cx.state().lock().unwrap() = Some(responder);
                    Err(RpcError::new(-9, "kept").into())
                }
            }
        });
    (router, troubles)
}

#[tokio::test]
async fn f95_the_failure_of_a_fallback_is_the_response() {
    let (incoming, mut far) = against_far();
    let (router, troubles) = router();
    tokio::spawn(async move { router.serve(&incoming).await });
    let reported = || std::mem::take(&mut *troubles.lock().unwrap());
    for (id, method, expected, trouble) in [
        (1, "fails", [r#""code":-5"#, r#""message":"no such thing""#], None),
        (2, "later", [r#""code":-6"#, r#""message":"later""#], None),
        (3, "misfits", [r#""code":-32602"#, "at line 1 column"], Some("invalid params of")),
        (4, "breaks", [r#""code":-32603"#, "internal error"], Some("a secret")),
        (5, "panics", [r#""code":-32603"#, "panicked"], Some("panicked")),
    ] {
        far.send(&[request(id, method)]).await;
        far.expect(&[&format!(r#""id":{id}"#), expected[0], expected[1]]).await;
        let told = reported();
        assert_eq!(told.len(), usize::from(trouble.is_some()), "{method}: {told:?}");
        assert!(told.first().is_none_or(|told| told.contains(trouble.unwrap())), "{told:?}");
    }
    far.send(&[request(6, "stops"), cancel(6)]).await;
    far.expect(&[r#""id":6"#, "-32800"]).await;
    far.send(&[request(7, "forgets")]).await;
    far.expect(&[r#""id":7"#, "no response from the handler of forgets"]).await;
    assert!(reported().is_empty());
}

#[tokio::test]
async fn f95_a_failure_for_which_there_is_no_response_is_reported() {
    let (incoming, mut far) = against_far();
    let (router, troubles) = router();
    let reported = || std::mem::take(&mut *troubles.lock().unwrap());
    let state = router.clone().request("give up", async |_: (usize,), cx| {
        cx.state().lock().unwrap().take();
        Ok(2)
    });
    tokio::spawn(async move { state.serve(&incoming).await });
    far.send(&[request(1, "responds")]).await;
    far.expect(&[&result(1, "1")]).await;
    assert!(reported().concat().contains("-8"));
    far.send(&[notification("unknown", 1), request(2, "keeps"), request(3, "give up")]).await;
    // The responder outlives its handler, so it responds when it is dropped, as ever.
    far.expect(&[r#""id":2"#, "no response from the handler of keeps"]).await;
    far.expect(&[&result(3, "2")]).await;
    let told = reported().concat();
    assert!(told.contains("-7") && told.contains("-9"), "{told}");
}

#[tokio::test]
async fn f95_a_fallback_that_is_dropped_responds() {
    let (incoming, mut far) = against_far();
    let router = Router::new().fallback(async |arrival, cx| {
        let _arrival = arrival;
        cx.notify("begun", ()).await?;
        std::future::pending::<Result<(), Failure>>().await
    });
    let served = tokio::spawn(async move { router.serve(&incoming).await });
    far.send(&[request(1, "waits")]).await;
    far.expect(&["begun"]).await;
    served.abort();
    far.expect(&[r#""id":1"#, "no response from the handler of waits"]).await;
}

#[tokio::test]
async fn g07_a_call_lost_by_what_cancelled_its_request_is_no_trouble() {
    for is_fallback in [false, true] {
        let (incoming, mut far) = against_far();
        let (router, troubles) = router();
        let asks = async |_: (usize,), cx: Context<Kept>| Ok(cx.call::<()>("ask", ()).await?);
        let router = if is_fallback { router } else { router.request("asks", asks) };
        tokio::spawn(async move { router.serve(&incoming).await });
        far.send(&[request(1, "asks")]).await;
        far.expect(&["\"ask\""]).await;
        let rest = far.rest().await;
        assert!(rest.len() == 1 && rest[0].contains("-32800"), "{rest:?}");
        assert_eq!(*troubles.lock().unwrap(), [""; 0], "fallback: {is_fallback}");
    }
}
