//! Load for an etcd that is about to be killed: several clients at once, until the server is gone.
//!
//! What is asked comes from the generators of the differential trial (keys, transactions, leases,
//! compactions) and of the auth trial (users, roles, and requests by those who may and who may
//! not), with alarms in between.

use tokio::task::JoinSet;
use tonic::{Code, Status};
use vetch_api::pb;

use crate::auth::{self, Ask};
use crate::client::Client;
use crate::differential::{Generator, Request, World};
use vetch_testkit::random::Rng;

/// Clients of either kind.
const CLIENTS: u64 = 4;
/// Requests of a client at most, so that every revision can be looked at afterwards.
const REQUESTS: usize = 500;
/// Alarms are raised for a member that does not exist, so that no server lowers them by itself.
pub(super) const ALARMED: u64 = 7;

/// What not every round has.
#[derive(Clone, Copy)]
struct Rare {
    compactions: bool,
    alarms: bool,
}

/// Starts the clients. They end with the server, or when they have said enough.
pub(super) async fn start(endpoint: &str, seed: u64, with_auth: bool) -> anyhow::Result<JoinSet<()>> {
    // Compactions and alarms have etcd's database catch up, so some rounds are without.
    let rare = Rare { compactions: seed.is_multiple_of(2), alarms: seed % 4 < 2 };
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let seed = seed.wrapping_mul(1_000).wrapping_add(number);
        if with_auth {
            let side = auth::Side::connect(endpoint).await?;
            clients.spawn(ask_as_users(side, seed));
        } else {
            let client = Client::connect(endpoint).await?;
            clients.spawn(ask(client, seed, rare));
        }
    }
    Ok(clients)
}

async fn ask_as_users(mut side: auth::Side, seed: u64) {
    let mut generator = auth::Generator::default();
    for step in 0..REQUESTS {
        let request = generator.request(&mut Rng::for_step(seed, step));
        if !is_wanted(&request.ask) {
            continue;
        }
        let outcome = side.send(&request).await;
        if outcome.starts_with("refused: Unavailable") || outcome.contains("transport error") {
            return;
        }
        generator.learn(&request, &outcome);
    }
}

/// Nothing that takes long, nothing that has etcd's database catch up, and root has to be let in
/// afterwards.
fn is_wanted(ask: &Ask) -> bool {
    match ask {
        Ask::Watch { .. } | Ask::Lock(_) | Ask::Defragment | Ask::Snapshot | Ask::Hash | Ask::HashKv => false,
        Ask::UserAdd(user) => user.name != "root" || user.password == "pw",
        Ask::Password(user) => user.name != "root",
        _ => true,
    }
}

async fn ask(client: Client, seed: u64, rare: Rare) {
    let mut world = World::default();
    for step in 0..REQUESTS {
        let mut rng = Rng::for_step(seed, step);
        if rng.percent(1) && rare.alarms {
            raise_and_lower(&client, &mut rng).await;
        }
        let request = Generator { sane: rng.percent(80), rng, world: &world }.request();
        if !rare.compactions && matches!(request, Request::Compact(_)) {
            continue;
        }
        match send(&client, request).await {
            Ok(Some(header)) => world.revision = header.revision,
            Ok(None) => {}
            Err(status) if status.code() == Code::Unavailable || status.message().contains("transport") => {
                return;
            }
            Err(_) => {}
        }
    }
}

/// Sends what changes something.
async fn send(client: &Client, request: Request) -> Result<Option<pb::ResponseHeader>, Status> {
    let (mut kv, mut lease) = (client.kv.clone(), client.lease.clone());
    match request {
        Request::Put(put) => Ok(kv.put(put).await?.into_inner().header),
        Request::DeleteRange(delete) => Ok(kv.delete_range(delete).await?.into_inner().header),
        Request::Txn(txn) => Ok(kv.txn(txn).await?.into_inner().header),
        Request::Compact(compaction) => Ok(kv.compact(compaction).await?.into_inner().header),
        Request::Grant(grant) => Ok(lease.lease_grant(grant).await?.into_inner().header),
        Request::Revoke(revoke) => Ok(lease.lease_revoke(revoke).await?.into_inner().header),
        _ => Ok(None),
    }
}

/// Others go on meanwhile, and are refused. Mostly it is lowered again.
async fn raise_and_lower(client: &Client, rng: &mut Rng) {
    let alarm = rng.weighted(&[(3, 1), (1, 2)]);
    for action in [1, 2] {
        let request = pb::AlarmRequest { action, member_id: ALARMED, alarm };
        let _ = client.maintenance.clone().alarm(request).await;
        tokio::time::sleep(std::time::Duration::from_millis(rng.below(20) as u64)).await;
    }
}
