//! Confirm: waits for the proof that nothing newer exists than what this server is about to answer
//! from. How the proof is found is in `cluster/read_index`.

use std::time::Duration;

use vetch_seeded_bugs::Bug;

use crate::cluster::{Cluster, Retry};
use crate::error::NodeError;
use crate::state::NodeState;

/// Between two attempts of a read, while there is no leader.
const RETRY_DELAY: Duration = Duration::from_millis(5);

impl NodeState {
    /// Returns once everything that was acknowledged anywhere before the call is visible here. At
    /// once without a cluster.
    pub(crate) async fn confirm(&self) -> Result<(), NodeError> {
        match &self.cluster {
            None => Ok(()),
            // Boxed, because the future of every read would have room for it.
            Some(cluster) => Box::pin(self.confirm_in(cluster)).await,
        }
    }

    async fn confirm_in(&self, cluster: &Cluster) -> Result<(), NodeError> {
        if vetch_seeded_bugs::on(Bug::ReadUnconfirmed) && !self.is_following() {
            return Ok(());
        }
        let outcome = tokio::time::timeout(self.config.request_timeout, async {
            loop {
                // The leader may change while a read waits.
                let outcome = match self.is_following() {
                    false => cluster.reads.at_leader().await?,
                    true => cluster.reads.at_follower().await?,
                };
                if outcome.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        });
        let outcome = outcome.await.unwrap_or(Err(NodeError::Timeout));
        if outcome.is_err() {
            self.metrics.reads.unconfirmed.add(1);
        }
        outcome
    }

    /// The same for what only the leader knows, the time that leases have left. Refused if another
    /// server leads now.
    pub(crate) async fn confirm_leading(&self) -> Result<(), NodeError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if self.is_following() {
            return Err(NodeError::LeaderChanged);
        }
        match tokio::time::timeout(self.config.request_timeout, cluster.reads.at_leader()).await {
            Ok(outcome) => outcome?.map(drop).map_err(|Retry| NodeError::LeaderChanged),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}
