//! Prefixes: which parts of the key space are written to, counted in bounded memory.
//!
//! A key belongs to the prefix that is most useful to an operator: the first two parts of its path,
//! so that Kubernetes' `/registry/pods/default/web-0` counts for `/registry/pods`. Where the second
//! part is no resource but only a group of them (it has a dot, as in
//! `/registry/cilium.io/ciliumnodes/...`, or is `services`), the third belongs to it. The last part
//! of a key, its name, never does.
//!
//! At most [`PLACES`] prefixes have counters of their own; the rest is counted together. A prefix
//! that is written to more than one that has a place takes that place at the next
//! [`Prefixes::turn`], and then counts from zero. So every count is exact from where it begins,
//! sums up with the others to what was written, and busy prefixes are found however many there are.
//!
//! Pure: no clock, no threads.

use std::collections::HashMap;

/// Prefixes with counters of their own.
pub const PLACES: usize = 128;
/// Prefixes without a place that are considered between two turns. New ones and those that are
/// there cancel each other out one by one (Misra and Gries), so a prefix with more than its 129th
/// part of these writes is among them in the end.
const CANDIDATES: usize = 128;
/// Bytes of a prefix that are kept.
const PREFIX_BYTES_MAX: usize = 128;

/// What happened beneath a prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    pub puts: u64,
    pub deletes: u64,
    /// Of keys, and of values that were put.
    pub bytes: u64,
}

impl Writes {
    pub fn changes(&self) -> u64 {
        self.puts + self.deletes
    }

    fn count(&mut self, key: &[u8], change: Change) {
        self.bytes += key.len() as u64;
        match change {
            Change::Put { value_bytes } => {
                self.puts += 1;
                self.bytes += value_bytes as u64;
            }
            Change::Delete => self.deletes += 1,
        }
    }
}

/// One change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Put { value_bytes: usize },
    Delete,
}

#[derive(Debug, Default)]
struct Place {
    writes: Writes,
    /// Changes of late: halved at every turn.
    recent: u64,
}

impl Place {
    fn count(&mut self, key: &[u8], change: Change) {
        self.recent += 1;
        self.writes.count(key, change);
    }
}

#[derive(Debug, Default)]
pub struct Prefixes {
    places: HashMap<Box<[u8]>, Place>,
    other: Writes,
    candidates: HashMap<Box<[u8]>, u64>,
}

impl Prefixes {
    pub fn count(&mut self, key: &[u8], change: Change) {
        let prefix = prefix(key);
        if let Some(place) = self.places.get_mut(prefix) {
            place.count(key, change);
        } else if self.places.len() < PLACES {
            self.places.entry(prefix.into()).or_default().count(key, change);
        } else {
            self.other.count(key, change);
            self.nominate(prefix);
        }
    }

    fn nominate(&mut self, prefix: &[u8]) {
        if let Some(count) = self.candidates.get_mut(prefix) {
            *count += 1;
        } else if self.candidates.len() < CANDIDATES {
            self.candidates.insert(prefix.into(), 1);
        } else {
            // Costs as many steps as it takes back, so no more than what was counted before.
            self.candidates.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// Gives places to prefixes that were busier than the holders, and halves all activity. To be
    /// called every few seconds.
    pub fn turn(&mut self) {
        let mut candidates: Vec<(u64, Box<[u8]>)> =
            self.candidates.drain().map(|(prefix, count)| (count, prefix)).collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        let mut holders: Vec<(u64, Box<[u8]>)> =
            self.places.iter().map(|(prefix, place)| (place.recent, prefix.clone())).collect();
        holders.sort_unstable();
        for ((wanted, candidate), (held, holder)) in candidates.into_iter().zip(holders) {
            if wanted <= held {
                break;
            }
            self.places.remove(&holder);
            self.places.insert(candidate, Place { recent: wanted, ..Place::default() });
        }
        self.places.values_mut().for_each(|place| place.recent /= 2);
    }

    /// Every prefix with a place, in order.
    pub fn counted(&self) -> Vec<(Box<[u8]>, Writes)> {
        let mut counted: Vec<_> =
            self.places.iter().map(|(prefix, place)| (prefix.clone(), place.writes)).collect();
        counted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        counted
    }

    /// What was written beneath prefixes that had no place.
    pub fn other(&self) -> Writes {
        self.other
    }
}

/// The prefix a key belongs to, without the slash behind it. Empty for keys without a path.
pub fn prefix(key: &[u8]) -> &[u8] {
    let slash_after = |from: usize| {
        let rest = key.get(from..)?;
        Some(from + rest.iter().position(|byte| *byte == b'/')?)
    };
    // A slash at the very beginning belongs to the first part.
    let Some(first) = slash_after(1) else { return &key[..usize::from(key.first() == Some(&b'/'))] };
    let Some(second) = slash_after(first + 1) else { return cut(&key[..first]) };
    let resource = &key[first + 1..second];
    let is_group = resource == b"services" || resource.contains(&b'.');
    match slash_after(second + 1) {
        Some(third) if is_group => cut(&key[..third]),
        _ => cut(&key[..second]),
    }
}

fn cut(prefix: &[u8]) -> &[u8] {
    &prefix[..prefix.len().min(PREFIX_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_kubernetes_are_grouped_by_resource() {
        for (key, expected) in [
            ("/registry/pods/default/web-0", "/registry/pods"),
            ("/registry/leases/kube-node-lease/node-1", "/registry/leases"),
            ("/registry/minions/node.example.com", "/registry/minions"),
            ("/registry/masterleases/10.0.0.1", "/registry/masterleases"),
            ("/registry/ranges/serviceips", "/registry/ranges"),
            ("/registry/services/specs/default/kubernetes", "/registry/services/specs"),
            ("/registry/services/endpoints/default/kubernetes", "/registry/services/endpoints"),
            (
                "/registry/apiregistration.k8s.io/apiservices/v1.apps",
                "/registry/apiregistration.k8s.io/apiservices",
            ),
            ("/registry/cilium.io/ciliumnodes/node-1", "/registry/cilium.io/ciliumnodes"),
            ("/kubernetes.io/pods/default/web-0", "/kubernetes.io/pods"),
            ("compact_rev_key", ""),
            ("/coreos", "/"),
            ("users/17", "users"),
            ("a/b/c", "a/b"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(prefix(key.as_bytes()), expected.as_bytes(), "{key}");
        }
    }

    #[test]
    fn long_prefixes_are_cut() {
        assert_eq!(prefix(&[vec![b'x'; 1000], b"/y/z".to_vec()].concat()).len(), PREFIX_BYTES_MAX);
    }

    fn put(prefixes: &mut Prefixes, key: &str) {
        prefixes.count(key.as_bytes(), Change::Put { value_bytes: 10 });
    }

    #[test]
    fn counts_are_exact_and_sum_up() {
        let mut prefixes = Prefixes::default();
        put(&mut prefixes, "/registry/pods/a/b");
        put(&mut prefixes, "/registry/pods/a/b");
        prefixes.count(b"/registry/pods/a/b", Change::Delete);
        put(&mut prefixes, "x");
        let pods = Writes { puts: 2, deletes: 1, bytes: 3 * 18 + 20 };
        let x = Writes { puts: 1, deletes: 0, bytes: 11 };
        assert_eq!(prefixes.counted(), [(b""[..].into(), x), (b"/registry/pods"[..].into(), pods)]);
        assert_eq!(prefixes.other(), Writes::default());
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_left_uncounted() {
        let mut prefixes = Prefixes::default();
        for n in 0..10_000 {
            put(&mut prefixes, &format!("/users/{n}/profile"));
            if n % 100 == 0 {
                prefixes.turn();
            }
        }
        assert_eq!(prefixes.counted().len(), PLACES);
        assert!(prefixes.candidates.len() <= CANDIDATES);
        assert!(prefixes.other().puts >= 10_000 - 2 * PLACES as u64, "{:?}", prefixes.other());
    }

    #[test]
    fn a_busy_prefix_gets_a_place_among_ten_thousand_others() {
        let mut prefixes = Prefixes::default();
        for n in 0..10_000 {
            put(&mut prefixes, &format!("/users/{n}/profile"));
        }
        for turn in 0..3 {
            for n in 0..1000 {
                put(&mut prefixes, &format!("/users/{}/profile", 20_000 + turn * 1000 + n));
                put(&mut prefixes, "/registry/pods/a/b");
            }
            prefixes.turn();
        }
        let counted = prefixes.counted();
        let pods = counted.iter().find(|(prefix, _)| **prefix == *b"/registry/pods").expect("it is busy");
        assert_eq!(pods.1.puts, 2000, "it counts from its first turn on");
    }

    #[test]
    fn those_who_are_busy_keep_their_places() {
        let mut prefixes = Prefixes::default();
        for round in 0..5 {
            for n in 0..PLACES {
                for _ in 0..4 {
                    put(&mut prefixes, &format!("/busy/{n}/x"));
                }
            }
            for n in 0..1000 {
                put(&mut prefixes, &format!("/passing/{}/x", round * 1000 + n));
            }
            prefixes.turn();
        }
        assert!(
            prefixes
                .counted()
                .iter()
                .all(|(prefix, writes)| { prefix.starts_with(b"/busy") && writes.puts == 20 })
        );
    }
}
