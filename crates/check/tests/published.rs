//! Published histories with known verdicts: 102 that Jepsen recorded of an early etcd, and six of a
//! key-value store, as the crate porcupine-rs 0.3.0 carries them. `scripts/linearizability.sh`
//! fetches them and runs this.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use vetch_check::wgl::register::{Access, Register};
use vetch_check::wgl::{Budget, Call, Sequential, Verdict, linearize};

/// The etcd logs that are linearizable; the others are not. Number 95 is an empty file.
const RIGHT: &[u32] =
    &[2, 5, 7, 18, 25, 31, 38, 45, 48, 49, 51, 53, 56, 67, 75, 76, 80, 87, 92, 98, 100, 101, 102];

fn logs() -> PathBuf {
    let folder =
        std::env::var("VETCH_PUBLISHED_HISTORIES").expect("scripts/linearizability.sh says where they are");
    PathBuf::from(folder)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Collects calls by process; the number of the line is the time.
struct Recorder<O> {
    open: HashMap<u32, usize>,
    calls: Vec<Call<O>>,
}

impl<O> Recorder<O> {
    fn new() -> Recorder<O> {
        Recorder { open: HashMap::new(), calls: Vec::new() }
    }

    fn invoke(&mut self, process: u32, called: u64, operation: O) {
        self.open.insert(process, self.calls.len());
        self.calls.push(Call { called, returned: None, operation });
    }

    fn finish(&mut self, process: u32, returned: u64) -> &mut O {
        let index = self.open.remove(&process).expect("it was invoked");
        self.calls[index].returned = Some(returned);
        &mut self.calls[index].operation
    }
}

/// Lines like `INFO  jepsen.util - 3<tab>:ok<tab>:cas<tab>[1 2]`; all others are of no interest.
fn jepsen(log: &str) -> Vec<Call<Access>> {
    let mut recorder = Recorder::new();
    for (time, line) in (0u64..).zip(log.lines()) {
        let Some(fields) = line.strip_prefix("INFO  jepsen.util - ") else { continue };
        let fields: Vec<&str> = fields.split('\t').collect();
        let [process, kind, what, value] = fields[..] else { continue };
        let Ok(process) = process.parse() else { continue };
        let numbers: Vec<i64> =
            value.trim_matches(['[', ']']).split(' ').filter_map(|number| number.parse().ok()).collect();
        match (kind, what) {
            (":invoke", ":read") => recorder.invoke(process, time, Access::Read { found: None }),
            (":invoke", ":write") => recorder.invoke(process, time, Access::Write { value: numbers[0] }),
            (":invoke", ":cas") => {
                let cas = Access::Cas { expected: numbers[0], value: numbers[1], succeeded: None };
                recorder.invoke(process, time, cas);
            }
            (":ok" | ":fail", _) => match recorder.finish(process, time) {
                Access::Read { found } => *found = numbers.first().copied(),
                Access::Cas { succeeded, .. } => *succeeded = Some(kind == ":ok"),
                Access::Write { .. } => assert_eq!(kind, ":ok", "{line}"),
            },
            // The outcome is unknown, and the process goes on under another number.
            (":info", _) => {
                recorder.open.remove(&process);
            }
            _ => panic!("not understood: {line}"),
        }
    }
    // A read of unknown outcome tells nothing.
    recorder.calls.retain(|call| call.returned.is_some() || !matches!(call.operation, Access::Read { .. }));
    recorder.calls
}

/// A key with a text that can be replaced and added to.
struct Text;

#[derive(Debug, Clone)]
enum TextAccess {
    Get(String),
    Put(String),
    Append(String),
}

impl Sequential for Text {
    type State = String;
    type Operation = TextAccess;

    fn start(&self) -> String {
        String::new()
    }

    fn step(&self, state: &String, access: &TextAccess) -> Vec<String> {
        match access {
            TextAccess::Get(found) if found == state => vec![state.clone()],
            TextAccess::Get(_) => Vec::new(),
            TextAccess::Put(value) => vec![value.clone()],
            TextAccess::Append(value) => vec![format!("{state}{value}")],
        }
    }
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let rest = line.split_once(name).expect("every line has it").1.trim_start();
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => rest.split([',', '}']).next().unwrap_or_default(),
    }
}

/// The history of each key for itself.
fn texts(log: &str) -> BTreeMap<String, Vec<Call<TextAccess>>> {
    let mut recorders: BTreeMap<String, Recorder<TextAccess>> = BTreeMap::new();
    for (time, line) in (0u64..).zip(log.lines()) {
        let process = field(line, ":process").parse().expect("a number");
        let recorder = recorders.entry(field(line, ":key").to_owned()).or_insert_with(Recorder::new);
        let value = field(line, ":value").to_owned();
        match (field(line, ":type"), field(line, ":f")) {
            (":invoke", ":get") => recorder.invoke(process, time, TextAccess::Get(String::new())),
            (":invoke", ":put") => recorder.invoke(process, time, TextAccess::Put(value)),
            (":invoke", ":append") => recorder.invoke(process, time, TextAccess::Append(value)),
            _ => {
                if let TextAccess::Get(found) = recorder.finish(process, time) {
                    *found = value;
                }
            }
        }
    }
    recorders.into_iter().map(|(key, recorder)| (key, recorder.calls)).collect()
}

/// Right if all parts are, wrong if one is; a part without a verdict is neither.
fn is_right<'a, S: Sequential>(
    spec: &S,
    parts: impl Iterator<Item = &'a Vec<Call<S::Operation>>>,
    name: &str,
) -> bool
where
    S::Operation: 'a,
{
    let budget = Budget { steps: 2_000_000, ..Budget::default() };
    let verdicts: Vec<Verdict> = parts.map(|calls| linearize(spec, calls, budget)).collect();
    let wrong = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Illegal(_)));
    let open = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Unknown(_)));
    assert!(wrong || !open, "{name}: no verdict within the budget");
    !wrong
}

#[test]
#[ignore = "needs published histories; scripts/linearizability.sh fetches them"]
fn jepsens_etcd_histories_get_their_verdicts() {
    let mut judged = 0;
    for number in (0..=102).filter(|&number| number != 95) {
        let path = logs().join(format!("jepsen/etcd_{number:03}.log"));
        let right = is_right(&Register, [jepsen(&text(&path))].iter(), &path.display().to_string());
        assert_eq!(right, RIGHT.contains(&number), "{}", path.display());
        judged += 1;
    }
    assert_eq!(judged, 102);
}

#[test]
#[ignore = "needs published histories; scripts/linearizability.sh fetches them"]
fn key_value_histories_get_their_verdicts() {
    for (name, expected) in [
        ("c01-ok", true),
        ("c01-bad", false),
        ("c10-ok", true),
        ("c10-bad", false),
        ("c50-ok", true),
        ("c50-bad", false),
    ] {
        let histories = texts(&text(&logs().join(format!("kv/{name}.txt"))));
        assert!(histories.len() > 1, "{name}");
        assert_eq!(is_right(&Text, histories.values(), name), expected, "{name}");
    }
}
