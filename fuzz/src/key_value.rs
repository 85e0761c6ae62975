//! Key-value requests all the way: translated as in the server, evaluated by the store, and back.

use prost::Message;
use vetch_api::pb;
use vetch_api::wire::WireMessage;
use vetch_store::range::RangeRun;
use vetch_store::request::{WriteRequest, WriteResponse};
use vetch_store::{Evaluated, Store};
use vetch_translate as translate;

use crate::replay::base;

const MAX_OPS: usize = 128;

/// Serves the message if it is one of the first five, which are the key-value service's.
pub(crate) fn serve(number: u8, bytes: &[u8]) {
    match number {
        0 => decoded(bytes, range),
        1 => decoded(bytes, |message| write(translate::put(message).map(WriteRequest::Put).ok())),
        2 => decoded(bytes, |message| {
            write(translate::delete_range(message).map(WriteRequest::DeleteRange).ok());
        }),
        3 => decoded(bytes, txn),
        4 => decoded(bytes, |message: pb::CompactionRequest| {
            write(Some(WriteRequest::Compact { revision: message.revision }));
        }),
        _ => {}
    }
}

fn decoded<M: Message + Default>(bytes: &[u8], serve: impl FnOnce(M)) {
    if let Ok(message) = M::decode(bytes) {
        serve(message);
    }
}

fn range(message: pb::RangeRequest) {
    let Ok(request) = translate::range(message) else { return };
    let store = base();
    let Ok(mut run) = RangeRun::new(request, store.visible()) else { return };
    while !run.step(&store, 2, 64).expect("nothing compacts") {}
    let count = run.count(&store).expect("nothing compacts");
    let found = run.finish(count);
    let kvs = found.kvs.len();
    let answer = translate::ranged(found, None).to_typed().expect("it can be decoded");
    assert_eq!((answer.kvs.len(), answer.count), (kvs, count));
}

fn txn(message: pb::TxnRequest) {
    let Ok(request) = translate::txn(message, MAX_OPS) else { return };
    if request.is_read_only()
        && let Ok(answer) = base().read_txn(&request)
    {
        translate::txn_done(answer, None).to_typed().expect("it can be decoded");
    }
    write(Some(WriteRequest::Txn(request)));
}

/// Evaluates on one store and replays on another, which must come out the same.
fn write(request: Option<WriteRequest>) {
    let Some(request) = request else { return };
    let mut store = base();
    let mut payload = Vec::new();
    let Ok(Evaluated { response, events, .. }) = store.evaluate(&request, &mut payload) else {
        assert!(payload.is_empty() && store.head() == base().head(), "a refusal changes nothing");
        return;
    };
    let mut again: Store = base();
    let replayed = again.replay(&payload).expect("just written");
    let replayed: Vec<_> = replayed.into_iter().flat_map(|replayed| replayed.events).collect();
    assert_eq!((replayed, again.head()), (events, store.head()));
    match response {
        WriteResponse::Put(put) => drop(translate::put_done(put, None).to_typed().expect("decodes")),
        WriteResponse::DeleteRange(done) => drop(translate::deleted(done, None).to_typed().expect("decodes")),
        WriteResponse::Txn(done) => drop(translate::txn_done(done, None).to_typed().expect("decodes")),
        _ => {}
    }
}
