//! One who looks around: lists of leases, alarms and members, status, the keys of leases. All of it
//! goes into the history.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use vetch_api::pb;
use vetch_check::{Alarm, Leased, Listed, Listing};

use super::clients::{Place, connect};
use super::shared::Shared;
use crate::client::Client;
use vetch_testkit::random::Rng;

/// Between two looks: often enough to meet every fault, seldom enough to be judged soon.
const PAUSE: Duration = Duration::from_millis(40);

pub(super) async fn around(shared: Arc<Shared>, mut rng: Rng) {
    let mut place = Place::new(shared.new_client());
    while let Some(client) = connect(&shared, &mut place).await {
        while !shared.stopped() {
            tokio::time::sleep(PAUSE).await;
            let look = tokio::time::timeout(shared.plan.request_timeout, look(&shared, &client, &mut rng));
            if !matches!(look.await, Ok(Ok(()))) {
                tokio::time::sleep(shared.plan.pause_after_failure).await;
                break;
            }
        }
    }
}

async fn look(shared: &Shared, client: &Client, rng: &mut Rng) -> Result<(), Status> {
    let called = shared.now();
    let (header, listing) = match rng.below(5) {
        0 => leases(client).await?,
        1 => alarms(client).await?,
        2 => members(client).await?,
        3 => status(client).await?,
        _ => return keys_of_a_lease(shared, client).await,
    };
    let returned = shared.now();
    let revision = Some(shared.saw_header(header.as_ref())).filter(|_| !is_without_revision(&listing));
    // A server of several answers for itself, but for what only the writer knows.
    let own = matches!(listing, Listing::Alarms { .. } | Listing::Status { .. });
    let linearizable = !(own && shared.in_cluster());
    let listed = Listed { called, returned, revision, linearizable, listing };
    shared.note(|notes| notes.history.listed.push(listed));
    Ok(())
}

/// Headers of member lists name no revision.
fn is_without_revision(listing: &Listing) -> bool {
    matches!(listing, Listing::Members { .. })
}

type Looked = Result<(Option<pb::ResponseHeader>, Listing), Status>;

async fn leases(client: &Client) -> Looked {
    let response = client.lease.clone().lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner();
    let ids = response.leases.iter().map(|lease| lease.id).collect();
    Ok((response.header, Listing::Leases { ids }))
}

/// NOSPACE is left out: servers raise it by themselves, and no client here raises any.
async fn alarms(client: &Client) -> Looked {
    let response = client.maintenance.clone().alarm(pb::AlarmRequest::default()).await?.into_inner();
    let raised = response.alarms.iter().filter(|alarm| alarm.alarm != pb::AlarmType::Nospace as i32);
    let alarms = raised.map(|alarm| Alarm { member: alarm.member_id, kind: alarm.alarm }).collect();
    Ok((response.header, Listing::Alarms { alarms }))
}

async fn members(client: &Client) -> Looked {
    let request = pb::MemberListRequest { linearizable: true };
    let response = client.cluster.clone().member_list(request).await?.into_inner();
    let ids = response.members.iter().map(|member| member.id).collect();
    Ok((response.header, Listing::Members { ids }))
}

async fn status(client: &Client) -> Looked {
    let response = client.maintenance.clone().status(pb::StatusRequest {}).await?.into_inner();
    let pb::StatusResponse { db_size, db_size_in_use, leader, raft_term: term, .. } = response;
    Ok((response.header, Listing::Status { db_size, db_size_in_use, leader, term }))
}

/// What hangs on one of the leases there are.
async fn keys_of_a_lease(shared: &Shared, client: &Client) -> Result<(), Status> {
    let all = client.lease.clone().lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner();
    let Some(id) = all.leases.last().map(|lease| lease.id) else { return Ok(()) };
    let called = shared.now();
    let request = pb::LeaseTimeToLiveRequest { id, keys: true };
    let response = client.lease.clone().lease_time_to_live(request).await?.into_inner();
    let returned = shared.now();
    let revision = shared.saw_header(response.header.as_ref());
    // Less than nothing is left of a lease that is gone.
    if response.ttl >= 0 {
        let mut keys: Vec<Vec<u8>> = response.keys.iter().map(|key| key.to_vec()).collect();
        keys.sort();
        shared.note(|notes| notes.history.leased.push(Leased { called, returned, id, revision, keys }));
    }
    Ok(())
}
