//! Reporting: a server tells whoever writes that it is there, and from where on it needs the journal.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{self, ReportRequest};
use vetch_node::Node;
use vetch_node::fence::Index;
use vetch_node::journal::Tip;

const EVERY: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells until the node ends. A report that fails is followed by the next.
pub(crate) async fn report(node: Node) {
    let Some(status) = node.cluster() else { return };
    let mut known: Option<(String, PeerClient<Channel>)> = None;
    loop {
        let writer = status.borrow().writer.clone().filter(|_| !status.borrow().is_writer);
        if let (Some(writer), Some(message)) = (writer, message(&node)) {
            if known.as_ref().is_none_or(|(url, _)| *url != writer.url) {
                known = connect(&writer.url).map(|client| (writer.url.clone(), client));
            }
            if let Some((url, client)) = &mut known {
                let told = tokio::time::timeout(PATIENCE, client.report(message)).await;
                if let Ok(Err(status)) = told {
                    tracing::debug!(url, %status, "the writer did not take a report");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            _ = node.stopped() => return,
        }
    }
}

fn connect(url: &str) -> Option<PeerClient<Channel>> {
    let endpoint = Endpoint::from_shared(url.to_string()).ok()?;
    Some(PeerClient::new(endpoint.connect_timeout(PATIENCE).connect_lazy()))
}

fn message(node: &Node) -> Option<ReportRequest> {
    let (proof, report) = node.report()?;
    Some(ReportRequest {
        proof: Some(vetch::Proof { seq: proof.seq, hash: proof.hash.to_vec() }),
        member: report.member,
        url: report.url,
        vote: report.vote.map(place),
        keep: report.keep.map_or(0, |position| position.0),
    })
}

fn place(index: Index) -> vetch::Place {
    let Tip { epoch, seq, hash, next_rev } = index.tip;
    vetch::Place { position: index.position.0, epoch, seq, hash: hash.to_vec(), next_rev }
}
