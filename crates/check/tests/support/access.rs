//! Alarms, and users whose permissions change while they use them.

use vetch_check::{Access, AccessChange, Alarm, Alarmed, Fact, History};
use vetch_model::Keys;

use super::server::Server;
use vetch_testkit::random::Rng;

const USERS: [&str; 2] = ["ann", "bob"];
const ROLES: [&str; 2] = ["some", "others"];
const AREAS: [(&str, &str); 2] = [("a", "d"), ("f/", "f0")];

pub(crate) fn beside(rng: &mut Rng, server: &mut Server, history: &mut History, now: u64) {
    if rng.one_in(25) {
        change_alarm(rng, server, history, now);
    }
    if rng.one_in(8) {
        change_access(rng, server, history, now);
    }
    if rng.one_in(4) {
        access(rng, server, history, now);
    }
}

/// When it is known what became of a change that was made just now, if that is.
fn known(rng: &mut Rng, now: u64) -> u64 {
    if rng.one_in(6) { u64::MAX } else { now }
}

fn change_alarm(rng: &mut Rng, server: &mut Server, history: &mut History, now: u64) {
    let alarm = Alarm { member: 70 + rng.below(2), kind: 1 };
    let raised = !server.alarms.remove(&alarm);
    if raised {
        server.alarms.insert(alarm);
    }
    history.alarmed.push(Alarmed { called: now, returned: known(rng, now), alarm, raised });
}

fn change_access(rng: &mut Rng, server: &mut Server, history: &mut History, now: u64) {
    let (user, role) = (rng.pick(&USERS).to_string(), rng.pick(&ROLES).to_string());
    let facts = match rng.below(8) {
        0 => vec![(Fact::Enabled, !rng.one_in(3))],
        1 if rng.one_in(3) => {
            let roles = ROLES.map(|role| (Fact::Role(user.clone(), role.to_owned()), false));
            roles.into_iter().chain([(Fact::User(user.clone()), false)]).collect()
        }
        1 | 2 => vec![(Fact::User(user), true)],
        3 | 4 => vec![(Fact::Role(user, role), !rng.one_in(3))],
        _ => {
            let (from, to) = *rng.pick(&AREAS);
            let keys = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
            vec![(Fact::Permission { role, keys, write: rng.one_in(2) }, !rng.one_in(3))]
        }
    };
    for (fact, value) in &facts {
        let _ = if *value { server.facts.insert(fact.clone()) } else { server.facts.remove(fact) };
    }
    history.access_changes.push(AccessChange { called: now, returned: known(rng, now), facts });
}

fn access(rng: &mut Rng, server: &Server, history: &mut History, now: u64) {
    let (user, write) = (rng.pick(&USERS).to_string(), rng.one_in(2));
    let (keys, area) = match rng.below(3) {
        0 => (Keys::single("b"), AREAS[0]),
        1 => (Keys::single("f/1"), AREAS[1]),
        _ => (Keys::between("f/", "f0"), AREAS[1]),
    };
    let keys_of = (area.0.as_bytes().to_vec(), area.1.as_bytes().to_vec());
    let by_role = |role: &&str| {
        let role = role.to_string();
        let permission = Fact::Permission { role: role.clone(), keys: keys_of.clone(), write };
        server.facts.contains(&Fact::Role(user.clone(), role)) && server.facts.contains(&permission)
    };
    let permitted = server.facts.contains(&Fact::User(user.clone())) && ROLES.iter().any(by_role);
    let granted = !server.facts.contains(&Fact::Enabled) || permitted;
    history.accesses.push(Access { called: now, returned: now, user, keys, write, granted });
}
