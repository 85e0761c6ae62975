//! The question that stands before every linearizable read at a server that does not write: how far
//! must its state have come?

use std::time::{Duration, Instant};

use tonic::Status;
use tonic::transport::Channel;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{ReadIndexRequest, ReadIndexResponse};
use vetch_node::Node;
use vetch_node::cluster::{MOMENT, Question};
use vetch_node::fence::Index;
use vetch_node::journal::{Position, Tip};

use crate::grpc::stand_in::{StandIn, Way};

/// After a question that was refused, or without anybody to ask: the change that is due is mostly
/// heard of sooner.
const PAUSE: Duration = Duration::from_millis(20);

/// Carries the questions of the reads here to whoever writes, one after another, until the node
/// ends.
pub async fn carry_questions(node: Node, stand_in: StandIn) {
    let Some(mut questions) = node.questions() else { return };
    let (mut last, mut took) = (0, Duration::ZERO);
    loop {
        let question = tokio::select! {
            question = questions.next() => question,
            _ = node.stopped() => None,
        };
        let Some(mut question) = question else { return };
        // Those who were answered together ask again together: one question for all of them, unless
        // a question takes no longer than they would be waited for.
        if question.reads() * 2 < last && took > MOMENT {
            tokio::time::sleep(MOMENT).await;
            questions.join(&mut question);
        }
        last = question.reads();
        let asked = Instant::now();
        carry(&node, &stand_in, question).await;
        took = asked.elapsed();
    }
}

/// Asks until there is an answer or nobody waits for it any more. It is the same to the reads who
/// answers, and when.
async fn carry(node: &Node, stand_in: &StandIn, mut question: Question) {
    while question.is_wanted() {
        let (way, changed) = stand_in.way();
        match way {
            Way::Here => {
                question.ask_here();
                return tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Way::There(channel) => {
                tokio::pin!(changed);
                let asked = tokio::select! {
                    asked = ask(node, channel) => asked,
                    // Whoever was asked may never answer.
                    () = &mut changed => continue,
                };
                match asked {
                    Ok(index) => return question.answer(index),
                    Err(error) => tracing::debug!(%error, "the writer gave no read index"),
                }
                let _ = tokio::time::timeout(PAUSE, changed).await;
            }
            Way::Nowhere => drop(tokio::time::timeout(PAUSE, changed).await),
        }
    }
}

async fn ask(node: &Node, channel: Channel) -> Result<Index, Status> {
    let request = ReadIndexRequest { to: Some(super::writer(node)?) };
    from_wire(&PeerClient::new(channel).read_index(request).await?.into_inner())
}

pub(super) fn to_wire(index: &Index) -> ReadIndexResponse {
    ReadIndexResponse {
        position: index.position.0,
        epoch: index.tip.epoch,
        number: index.tip.seq,
        hash: index.tip.hash.to_vec(),
        next_revision: index.tip.next_rev,
    }
}

fn from_wire(answer: &ReadIndexResponse) -> Result<Index, Status> {
    let hash = answer.hash.as_slice().try_into().map_err(|_| Status::internal("a hash has 32 bytes"))?;
    let tip = Tip { epoch: answer.epoch, seq: answer.number, hash, next_rev: answer.next_revision };
    Ok(Index { position: Position(answer.position), tip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_arrives_as_it_was_sent() {
        let tip = Tip { epoch: 3, seq: 9, hash: [5; 32], next_rev: 77 };
        let index = Index { position: Position(11), tip };
        assert_eq!(from_wire(&to_wire(&index)).unwrap(), index);
        let short = ReadIndexResponse { hash: b"short".to_vec(), ..to_wire(&index) };
        assert!(from_wire(&short).is_err());
    }
}
