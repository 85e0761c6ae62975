//! The nemesis: what goes wrong in one life of the server, when, and how that life ends.

use crate::disk::{Armed, Behaviour, Blow, Target};
use crate::keys;
use crate::part::Which;
use crate::time::{MILLI, SECOND};
use vetch_testkit::random::Rng;

/// Something that happens at a point of virtual time.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Disk(Behaviour),
    Pause(Which, u64),
    /// The disk can take only this much more.
    Full(u64),
    Space,
    Arm(Armed),
    /// A file of a checkpoint rots while the server runs. The rot is healed when this life has
    /// ended.
    Rot,
    /// Another ring of keys is used from now on.
    Rekey(u64),
}

/// How a life ends, if nothing ends it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Kill,
    PowerLoss,
    Stop,
}

#[derive(Debug, Clone)]
pub(crate) struct Fate {
    /// In order of time, counted from the beginning of the life.
    pub(crate) actions: Vec<(u64, Action)>,
    pub(crate) nanos: u64,
    pub(crate) end: End,
}

impl Fate {
    pub(crate) fn draw(rng: &mut Rng, longest: u64, encrypted: bool) -> Fate {
        let nanos = rng.between(longest / 8, longest);
        let mut actions = vec![(0, Action::Disk(Behaviour::usual(rng)))];
        for _ in 0..rng.below(4) {
            actions.extend(episode(rng, nanos));
        }
        if rng.percent(15) {
            actions.push((rng.below(nanos), Action::Rot));
        }
        if rng.percent(45) {
            actions.push((rng.below(nanos), Action::Arm(blow(rng))));
        }
        if encrypted {
            (0..rng.below(4))
                .for_each(|_| actions.push((rng.below(nanos), Action::Rekey(rng.below(keys::COUNT)))));
        }
        actions.sort_by_key(|(at, _)| *at);
        let end = *rng.pick(&[End::Kill, End::Kill, End::PowerLoss, End::PowerLoss, End::Stop]);
        Fate { actions, nanos, end }
    }
}

/// A time of trouble, with its end if it has one.
fn episode(rng: &mut Rng, nanos: u64) -> Vec<(u64, Action)> {
    let from = rng.below(nanos);
    let until = from + rng.below(nanos - from + 1);
    match rng.below(5) {
        0 => {
            let slow = Behaviour { stall: rng.between(5, 40), ..Behaviour::usual(rng) };
            vec![(from, Action::Disk(slow)), (until, Action::Disk(Behaviour::usual(rng)))]
        }
        1 | 2 => {
            let which = *rng.pick(&Which::ALL);
            vec![(from, Action::Pause(which, rng.skewed(MILLI, 5 * SECOND)))]
        }
        3 => {
            let blow = Armed { target: Target::Read, spares: rng.skewed(0, 8), blow: Blow::Error };
            vec![(from, Action::Arm(blow))]
        }
        _ => vec![(from, Action::Full(rng.skewed(1, 64 << 10))), (until, Action::Space)],
    }
}

fn blow(rng: &mut Rng) -> Armed {
    let target =
        *rng.pick(&[Target::Any, Target::Append, Target::Journal, Target::Checkpoint, Target::JournalSync]);
    let blow = *rng.pick(&[Blow::PowerLoss, Blow::PowerLoss, Blow::Error]);
    Armed { target, spares: rng.skewed(0, 40), blow }
}

/// A blow to fall while the server recovers.
pub(crate) fn blow_in_recovery(rng: &mut Rng) -> Option<Armed> {
    if !rng.percent(30) {
        return None;
    }
    let blow = *rng.pick(&[Blow::PowerLoss, Blow::PowerLoss, Blow::Kill, Blow::Error]);
    Some(Armed { target: Target::Any, spares: rng.skewed(0, 30), blow })
}
