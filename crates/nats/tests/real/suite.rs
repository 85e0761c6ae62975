//! The suite of `vetch_testkit::log` on real servers, and what is refused before it is used.

use std::rc::Rc;
use std::time::Duration;

use vetch_cluster::{Config, Log, LogIndex, ReplicaId, ReplicatedJournal};
use vetch_journal::{Journal, JournalError};
use vetch_nats::{NatsError, NatsLog, Options, Unsafe};
use vetch_testkit::log::suite::{JournalEngine, LogEngine, check_journal, check_log};

use crate::cluster::{Cluster, Setup};

struct Nats {
    cluster: Rc<Cluster>,
    stream: String,
    incarnations: u64,
}

impl Nats {
    fn new(cluster: &Rc<Cluster>) -> Nats {
        Nats { cluster: cluster.clone(), stream: cluster.new_stream(), incarnations: 0 }
    }
}

impl JournalEngine for Nats {
    fn open(&mut self, start: LogIndex) -> Result<Box<dyn Journal>, JournalError> {
        self.incarnations += 1;
        let me = ReplicaId { member: 1, incarnation: self.incarnations };
        let log = self.cluster.open(&self.stream);
        Ok(Box::new(ReplicatedJournal::new(log, Config::default(), me, start, Duration::from_secs(20))))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn too_large(&self) -> Option<usize> {
        Some(9 << 20)
    }
}

impl LogEngine for Nats {
    fn open(&mut self) -> Box<dyn Log> {
        Box::new(self.cluster.open(&self.stream))
    }
}

#[test]
#[ignore = "needs nats-server: scripts/test nats"]
fn nats_keeps_the_contract_of_a_journal_and_of_a_log() {
    let cluster = Rc::new(Cluster::start(Setup { sync_always: true }));
    check_log(|| Box::new(Nats::new(&cluster)));
    check_journal(|| Box::new(Nats::new(&cluster)));
    unsafe_settings_are_refused_with_the_reason(&cluster);
}

fn unsafe_settings_are_refused_with_the_reason(cluster: &Cluster) {
    let stream = cluster.new_stream();
    let one = Options { replicas: 1, ..cluster.options(&stream) };
    let Err(NatsError::Unsafe(found)) = NatsLog::open(&one) else {
        panic!("a stream of one replica was accepted")
    };
    assert!(matches!(&found[..], [Unsafe::Setting { setting: "num_replicas", .. }]), "{found:?}");
    let accepted = NatsLog::open(&Options { allow_unsafe: true, ..one }).expect("it was accepted");
    assert_eq!(accepted.unsafe_settings().len(), 1);
    let blind = Options { system: None, ..cluster.options(&cluster.new_stream()) };
    let Err(NatsError::Unsafe(found)) = NatsLog::open(&blind) else {
        panic!("it is not known whether the servers sync")
    };
    assert!(matches!(&found[..], [Unsafe::Unknown { .. }]), "{found:?}");
}

#[test]
#[ignore = "needs nats-server: scripts/test nats"]
fn servers_that_acknowledge_before_they_sync_are_refused() {
    let cluster = Cluster::start(Setup { sync_always: false });
    let options = cluster.options("lazy");
    for _ in 0..100 {
        match NatsLog::open(&options) {
            Err(NatsError::Unsafe(found)) => {
                let lazy = found.iter().filter(|problem| matches!(problem, Unsafe::Sync { .. })).count();
                assert_eq!((lazy, found.len()), (3, 3), "{found:?}");
                return;
            }
            // The cluster is not ready yet.
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
            Ok(_) => panic!("a stream that does not sync was accepted"),
        }
    }
    panic!("the cluster did not come up");
}
