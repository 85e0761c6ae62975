//! Reports to the leader: that this server is alive, and from where on it needs the journal.

use std::time::Duration;

use tokio::sync::watch;
use tonic::transport::Channel;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{self, ReportRequest};
use vetch_cluster::LogIndex;
use vetch_members::Leader;
use vetch_node::Node;
use vetch_node::cluster::ClusterStatus;
use vetch_node::journal::Tip;

use super::PeerDialer;

const REPORT_INTERVAL: Duration = Duration::from_secs(2);
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends a report at an interval until the node ends. A report that fails is followed by the next.
pub(crate) async fn report(node: Node, dialer: PeerDialer) {
    let Some(status) = node.cluster() else { return };
    let mut known: Option<(String, PeerClient<Channel>)> = None;
    loop {
        if let (Some(leader), Some(message)) = (remote_leader(&status), report_request(&node)) {
            if known.as_ref().is_none_or(|(url, _)| *url != leader.url) {
                known = connect(&dialer, &leader.url).map(|client| (leader.url.clone(), client));
            }
            if let Some((url, client)) = &mut known {
                let sent = tokio::time::timeout(REPORT_TIMEOUT, client.report(message)).await;
                if let Ok(Err(status)) = sent {
                    tracing::debug!(url, %status, "the leader did not accept a report");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(REPORT_INTERVAL) => {}
            _ = node.stopped() => return,
        }
    }
}

/// The leader, if it is another server.
///
/// Borrow once: a second `borrow()` while a guard is alive deadlocks against `send_modify` on the
/// journal thread.
fn remote_leader(status: &watch::Receiver<ClusterStatus>) -> Option<Leader> {
    let now = status.borrow();
    now.leader.clone().filter(|_| !now.is_leader)
}

fn connect(dialer: &PeerDialer, url: &str) -> Option<PeerClient<Channel>> {
    dialer.connect_lazy(url, |endpoint| endpoint.connect_timeout(REPORT_TIMEOUT)).map(PeerClient::new).ok()
}

fn report_request(node: &Node) -> Option<ReportRequest> {
    let (proof, report) = node.report()?;
    Some(ReportRequest {
        proof: Some(vetch::Proof { seq: proof.seq.get(), hash: proof.hash.to_vec() }),
        member: report.member,
        url: report.url,
        vote: report.vote.map(index_to_wire),
        keep: report.keep.map_or(0, |position| position.0),
    })
}

fn index_to_wire(index: LogIndex) -> vetch::Place {
    let Tip { epoch, seq, hash, next_rev } = index.tip;
    vetch::Place {
        position: index.position.0,
        epoch: epoch.get(),
        seq: seq.get(),
        hash: hash.to_vec(),
        next_rev,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Looks for the leader while its status changes all the time, as the journal's thread changes
    /// it.
    #[test]
    fn remote_leader_does_not_deadlock_with_status_changes() {
        let leader = Leader { member: 1, url: "http://10.0.0.1:2379".into() };
        let status = watch::Sender::new(ClusterStatus { leader: Some(leader), ..ClusterStatus::default() });
        let looking = status.subscribe();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let found = (0..200_000).filter(|_| remote_leader(&looking).is_some()).count();
            done.send(found).expect("the test waits");
        });
        let changing = std::thread::spawn(move || {
            while status.receiver_count() > 0 {
                status.send_modify(|status| status.index = status.index.next());
            }
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(200_000), "they wait for each other");
        changing.join().expect("it ends with its receiver");
    }
}
