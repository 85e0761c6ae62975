//! Random lives: generated workloads, crash points and survivors; and recovery of journals changed at random.

use proptest::prelude::*;
use vetch_journal::{Entry, Fault, Journal, JournalError, LocalJournal, MemDisk, Position, Tip};

use crate::support::{Rng, append, batch, decoded, fresh, genesis, noise, recover};

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<u16>),
    AppendZeros(u16),
    Maintain,
    Checkpoint,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0..900u16, 1..4).prop_map(Step::Append),
        1 => (0..4000u16).prop_map(Step::AppendZeros),
        1 => Just(Step::Maintain),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct Known {
    acked: Vec<Entry>,
    in_flight: Vec<Entry>,
    checkpoint: Option<Tip>,
}

impl Known {
    fn start(&self) -> Tip {
        self.checkpoint.unwrap_or_else(genesis)
    }

    fn open(&mut self, disk: &MemDisk) -> Result<LocalJournal, JournalError> {
        let (_, mut journal, _) = recover(disk, self.start())?;
        let mut tip = *journal.tip();
        self.in_flight = decoded(&[vetch_journal::Draft::new(vetch_journal::Kind::NewEpoch).seal(&mut tip)]);
        journal.claim()?;
        self.acked.append(&mut self.in_flight);
        Ok(journal)
    }

    fn live(&mut self, disk: &MemDisk, steps: &[Step]) -> Result<(), JournalError> {
        let mut journal = self.open(disk)?;
        for (n, step) in steps.iter().enumerate() {
            let payloads = match step {
                Step::Append(lens) => lens.iter().map(|&len| noise(n as u64, len.into())).collect(),
                Step::AppendZeros(len) => vec![vec![0; usize::from(*len)]],
                Step::Maintain => {
                    journal.maintenance().run()?;
                    continue;
                }
                Step::Checkpoint => {
                    self.checkpoint = Some(*journal.tip());
                    journal.trim(Position(journal.tip().seq + 1))?;
                    continue;
                }
                Step::Restart => {
                    drop(journal);
                    journal = self.open(disk)?;
                    continue;
                }
            };
            let sealed = batch(&journal, &payloads);
            self.in_flight = decoded(&sealed);
            journal.append_batch(&sealed)?;
            self.acked.append(&mut self.in_flight);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_life_and_any_power_loss(steps in proptest::collection::vec(step(), 1..12), at in 0..120u64, seed: u64) {
        let disk = MemDisk::new();
        disk.inject(Fault::CrashAt(at));
        let mut known = Known::default();
        let _ = known.live(&disk, &steps);
        let mut rng = Rng(seed);
        let bias = rng.next() % 5;
        let booted = disk.power_loss(&mut |_| rng.next() % 4 < bias);
        let (found, _, _) = recover(&booted, known.start()).expect("a power loss is always recovered from");
        let behind = |entries: &[Entry]| -> Vec<Entry> {
            entries.iter().filter(|entry| entry.seq > known.start().seq).cloned().collect()
        };
        let acked = behind(&known.acked);
        let all = behind(&[known.acked.clone(), known.in_flight.clone()].concat());
        prop_assert!(found == acked || found == all);
        prop_assert_eq!(recover(&booted, known.start()).expect("recovered before").0, found);
    }

    #[test]
    fn recovery_of_a_mangled_journal_never_panics_and_never_invents(
        edits in proptest::collection::vec((0..6usize, any::<proptest::sample::Index>(), any::<u8>(), 1..700usize), 1..4)
    ) {
        let disk = MemDisk::new();
        let mut journal = fresh(&disk);
        for n in 0..4 {
            append(&mut journal, &[noise(n, 600), vec![0; 700]]).expect("no faults");
        }
        drop(journal);
        let (whole, _, _) = recover(&disk, genesis()).expect("intact");
        let files: Vec<_> = disk.files().into_keys().filter(|path| path.extension() == Some("journal".as_ref())).collect();
        for (file, at, byte, len) in edits {
            let path = &files[file % files.len()];
            let mut content = disk.content(path).expect("it exists");
            let from = at.index(content.len());
            let to = (from + len).min(content.len());
            content[from..to].fill(byte);
            disk.overwrite(path, &content);
        }
        match recover(&disk, genesis()) {
            Ok((found, _, _)) => prop_assert!(whole.starts_with(&found)),
            Err(JournalError::Corrupt(_) | JournalError::NotSupported { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
