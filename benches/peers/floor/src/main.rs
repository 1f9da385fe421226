//! The least that a pipe, a runtime and `serde_json` cost: a loop made by hand for this one job.

use bench_harness::handmade::{self, Client, Framing};
use bench_harness::{Cancelling, Linked, Peer, Pipe, Tokio, measure};

enum Handmade {}

impl Peer for Handmade {
    const NAME: &'static str = "hand-made loop";
    const CANCELLING: Cancelling = Cancelling::Answered;
    type Runtime = Tokio;
    type Client = Client;

    async fn serve(pipe: Pipe, _limit: usize) {
        handmade::serve(pipe).await;
    }

    async fn connect(pipe: Pipe, _limit: usize) -> Client {
        Client::connect::<Tokio>(pipe, Framing::Line)
    }
}

fn main() {
    measure::<Linked<Handmade>>(0);
}
