//! Servers of NATS die, sleep and come back under replicas that write. Nothing acknowledged may be
//! missing in the end, and writing has to go on by itself.

use std::time::{Duration, Instant};

use vetch_base::Seq;
use vetch_cluster::{Config, ReplicaId, ReplicatedJournal};
use vetch_journal::{Journal, Tip};

use crate::cluster::{Cluster, SERVERS, Setup};
use crate::replica_threads::{ReplicaThreads, start};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Once writes are acknowledged again, which takes a stream that has a leader, all servers hear of
/// them within this.
const HEARD: Duration = Duration::from_secs(1);

/// Does something to the servers of a stream.
type Fault = fn(&mut Cluster, &str);

#[test]
#[ignore = "needs nats-server: scripts/test nats"]
fn nothing_acknowledged_is_lost_when_servers_of_nats_die_sleep_and_return() {
    let mut cluster = Cluster::start(Setup { sync_always: true });
    let stream = cluster.new_stream();
    let logs = (0..3).map(|_| cluster.open(&stream)).collect();
    let replicas = ReplicaThreads::start(logs, Duration::from_millis(2));
    replicas.wait_for(50, TIMEOUT);
    let faults: [(&str, Fault); 5] = [
        ("a follower is killed", follower_killed),
        ("the leader is killed", leader_killed),
        ("the leader sleeps for 3 s", leader_sleeps),
        ("the quorum is lost for 2 s", quorum_lost),
        ("all are killed", all_killed),
    ];
    for (name, fault) in faults {
        let begun = Instant::now();
        fault(&mut cluster, &stream);
        replicas.wait_for(30, TIMEOUT);
        let (pause, resumed) = replicas.longest_pause(begun);
        // Replicas that have not read the records yet get the time to do so.
        std::thread::sleep(2 * HEARD);
        let late = replicas.slowest_to_hear(resumed);
        eprintln!(
            "{name}: no append was acknowledged for {pause:.1?}, the last heard of one after {late:.1?}"
        );
        assert!(late < HEARD, "{name}: a server heard of a write only {late:.1?} after it was acknowledged");
    }
    let ledger = replicas.finish();
    eprintln!("{} writes acknowledged, {} epochs", ledger.acknowledged.len(), ledger.elections);
    everything_is_there(
        &cluster,
        &stream,
        &ledger.acknowledged.iter().map(|(seq, (hash, _))| (*seq, *hash)).collect::<Vec<_>>(),
    );
}

fn follower_killed(cluster: &mut Cluster, stream: &str) {
    let follower = (cluster.leader(stream) + 1) % SERVERS;
    cluster.kill(follower);
    std::thread::sleep(Duration::from_millis(500));
    cluster.run(follower);
}

fn leader_killed(cluster: &mut Cluster, stream: &str) {
    let leader = cluster.leader(stream);
    cluster.kill(leader);
    std::thread::sleep(Duration::from_secs(1));
    cluster.run(leader);
}

fn leader_sleeps(cluster: &mut Cluster, stream: &str) {
    let leader = cluster.leader(stream);
    cluster.signal(leader, "-STOP");
    std::thread::sleep(Duration::from_secs(3));
    cluster.signal(leader, "-CONT");
}

fn quorum_lost(cluster: &mut Cluster, stream: &str) {
    let leader = cluster.leader(stream);
    let others = [(leader + 1) % SERVERS, (leader + 2) % SERVERS];
    others.iter().for_each(|at| cluster.kill(*at));
    std::thread::sleep(Duration::from_secs(2));
    others.iter().for_each(|at| cluster.run(*at));
}

fn all_killed(cluster: &mut Cluster, _: &str) {
    (0..SERVERS).for_each(|at| cluster.kill(at));
    (0..SERVERS).for_each(|at| cluster.run(at));
}

/// Reads the whole journal as a new replica.
fn everything_is_there(cluster: &Cluster, stream: &str, acknowledged: &[(Seq, vetch_journal::Hash)]) {
    let me = ReplicaId { member: 9, incarnation: 1 };
    let mut journal = ReplicatedJournal::new(cluster.open(stream), Config::default(), me, start(), TIMEOUT);
    journal.claim().expect("no other replica writes");
    let mut reading = journal.read(Tip::genesis(2)).expect("readable");
    let mut found = Vec::new();
    while let Some(item) = reading.next_entry().expect("intact") {
        found.push(item.tip);
    }
    for (seq, hash) in acknowledged {
        let tip =
            found.get(seq.get() as usize - 1).unwrap_or_else(|| panic!("acknowledged entry {seq} is gone"));
        assert_eq!((tip.seq, tip.hash), (*seq, *hash), "acknowledged entry {seq} is another one");
    }
}
