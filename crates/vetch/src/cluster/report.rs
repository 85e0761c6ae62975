//! Reporting: a server tells whoever writes that it is there, and from where on it needs the
//! journal.

use std::time::Duration;

use tokio::sync::watch;
use tonic::transport::Channel;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{self, ReportRequest};
use vetch_node::Node;
use vetch_node::cluster::{ClusterStatus, Writer};
use vetch_node::fence::Index;
use vetch_node::journal::Tip;

use super::Reach;

const EVERY: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells until the node ends. A report that fails is followed by the next.
pub(crate) async fn report(node: Node, others: Reach) {
    let Some(status) = node.cluster() else { return };
    let mut known: Option<(String, PeerClient<Channel>)> = None;
    loop {
        if let (Some(writer), Some(message)) = (elsewhere(&status), message(&node)) {
            if known.as_ref().is_none_or(|(url, _)| *url != writer.url) {
                known = connect(&others, &writer.url).map(|client| (writer.url.clone(), client));
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

/// The writer, if it is another server.
///
/// Looks once: who looks a second time while it still holds the first look waits for a change that
/// waits for the first, and the journal's thread, which makes the changes, with it.
fn elsewhere(status: &watch::Receiver<ClusterStatus>) -> Option<Writer> {
    let now = status.borrow();
    now.writer.clone().filter(|_| !now.is_writer)
}

fn connect(others: &Reach, url: &str) -> Option<PeerClient<Channel>> {
    others.lazily(url, |endpoint| endpoint.connect_timeout(PATIENCE)).map(PeerClient::new).ok()
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Looks for the writer while its status changes all the time, as the journal's thread changes
    /// it.
    #[test]
    fn who_looks_for_the_writer_is_in_nobodys_way() {
        let writer = Writer { member: 1, url: "http://10.0.0.1:2379".into() };
        let status = watch::Sender::new(ClusterStatus { writer: Some(writer), ..ClusterStatus::default() });
        let looking = status.subscribe();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let found = (0..200_000).filter(|_| elsewhere(&looking).is_some()).count();
            done.send(found).expect("somebody waits");
        });
        let changing = std::thread::spawn(move || {
            while status.receiver_count() > 0 {
                status.send_modify(|status| status.index += 1);
            }
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(200_000), "they wait for each other");
        changing.join().expect("it ends when nobody looks any more");
    }
}
