//! The simulation of several whole servers on one log: the shipped nodes, stepped, in virtual time,
//! all from one seed.
//!
//! * `wire`: the log, and everything that can go wrong between it and a server.
//! * `server`, `life`: a server, from start to start.
//! * `directory`, `carrier`, `clients`: the clients, and how requests reach the leader.
//! * `world`, `plan`: the scheduler, and the faults.
//! * `peace`: what has to be true in the end.
//!
//! On a log that keeps its contract everything that clients of all servers saw is judged as for one
//! server, and all servers have to have one state in the end. On one that forks or loses its tail,
//! the servers that go on have to agree in the end.
//!
//! Not here: time that disks take, which `run` has; trims, checkpoints taken from other servers,
//! and the member list: servers send each other nothing but forwarded requests and the indexes
//! of reads.

mod carrier;
mod clients;
mod directory;
mod life;
mod peace;
mod plan;
mod server;
mod wire;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::coverage::Coverage;
use crate::env::Env;
use crate::run::{Out, Report};
use crate::time::Clock;
use crate::trace::{Trace, say};
use crate::watchdog;
use crate::watcher::Stream;
use crate::workload::Generator;
use plan::ClusterPlan;
use vetch_testkit::random::Rng;
use world::World;

/// Runs one seed from beginning to end.
pub fn run(seed: u64, out: Option<Out>) -> Report {
    watchdog::seed(seed);
    let clock = Clock::new();
    let trace = match out {
        Some(out) => Trace::to(clock.for_node(), out),
        None => Trace::off(clock.for_node()),
    };
    let report = {
        let _tokio = clock.enter();
        run_in(seed, clock.clone(), trace)
    };
    watchdog::seed(0);
    report
}

fn run_in(seed: u64, clock: Clock, trace: Trace) -> Report {
    let mut rng = Rng::new(seed);
    let (workload, plan) = (plan::workload(&mut rng.fork(1)), ClusterPlan::draw(&mut rng.fork(2)));
    say!(trace, "seed {seed}: {plan:#?} {workload:#?}");
    let (clients, streams) = (workload.clients, workload.streams);
    let (troubles, load_nanos) = (plan.troubles.clone(), plan.load_nanos);
    let env = Rc::new(Env::new(workload, clock, trace, Coverage::default()));
    let mut world = World::new(Rc::clone(&env), plan, rng.fork(3));
    populate(&mut world, &mut rng, clients, streams);
    for (at, trouble) in &troubles {
        world.run_until(at.saturating_sub(env.now()), |_| false);
        world.suffer(trouble);
    }
    world.run_until(load_nanos.saturating_sub(env.now()), |_| false);
    if env.is_sound() {
        world.make_peace();
        match world.is_honest() {
            true => world.everything_is_well(streams as usize),
            false => world.survivors_agree(),
        }
    }
    judge(seed, &env, world.is_honest())
}

fn populate(world: &mut World, rng: &mut Rng, clients: u32, streams: u32) {
    let servers = world.servers.len();
    let memory = |rng: &mut Rng, client: u32| Generator::new(rng.fork(100 + u64::from(client)), client);
    for client in 1..=clients {
        let memory = Rc::new(RefCell::new(memory(rng, client)));
        let (env, directory) = (Rc::clone(&world.env), Rc::clone(&world.directory));
        world.executor.spawn(clients::run(env, directory, servers, client, memory));
    }
    for stream in 0..streams {
        let client = 100 + stream;
        let memory = Rc::new(RefCell::new(Stream::new(client, memory(rng, client), stream == 0)));
        let (env, directory) = (Rc::clone(&world.env), Rc::clone(&world.directory));
        world.executor.spawn(clients::watch(env, directory, servers, stream as usize, memory));
    }
}

fn judge(seed: u64, env: &Env, honest: bool) -> Report {
    let history = env.recorder.borrow().history();
    let mut violations = env.violations();
    if violations.is_empty() && honest {
        violations.extend(crate::judge::judge(&history));
    }
    for violation in &violations {
        say!(env.trace, "verdict: {violation}");
    }
    say!(env.trace, "end: {} operations, {} watches", history.operations.len(), history.watches.len());
    let (coverage, counts) = (env.coverage.counts(), BTreeMap::new());
    Report { seed, violations, coverage, counts, history, virtual_nanos: env.now() }
}
