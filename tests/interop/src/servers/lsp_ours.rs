//! A language server of three methods, with `lsp-types`.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Mutex;

use lsp_types::notification::{DidOpenTextDocument, Notification};
use lsp_types::request::{HoverRequest, Initialize, Request};
use lsp_types::{
    DidOpenTextDocumentParams, Hover, HoverContents, InitializeResult, MarkedString, Uri,
};
use protocol_router::{Method, Router};

struct Lsp<R>(PhantomData<R>);

impl<R: Request> Method for Lsp<R> {
    const NAME: &'static str = R::METHOD;
    type Params = R::Params;
    type Result = R::Result;
}

/// The open documents.
pub type Documents = Mutex<HashMap<Uri, String>>;

/// The server: `server().serve(&protocol_tokio::stdio(config).incoming).await`.
pub fn server() -> Router<Documents> {
    Router::with_state(Documents::default())
        .on_request::<Lsp<Initialize>, _>(async |_, _| Ok(InitializeResult::default()))
        .notification(DidOpenTextDocument::METHOD, async |opened: DidOpenTextDocumentParams, cx| {
            let document = opened.text_document;
            cx.state().lock().unwrap().insert(document.uri, document.text);
            Ok(())
        })
        .on_request::<Lsp<HoverRequest>, _>(async |asked, cx| {
            let uri = asked.text_document_position_params.text_document.uri;
            let text = cx.state().lock().unwrap().get(&uri).cloned();
            let contents = |text| HoverContents::Scalar(MarkedString::String(text));
            Ok(text.map(|text| Hover { contents: contents(text), range: None }))
        })
}
