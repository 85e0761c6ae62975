//! Running the commands of a script.
//!
//! ```text
//! open                recovers behind the checkpoint, or from the beginning, and shows what was found
//! claim               begins the next epoch
//! append a b          appends a record with an entry for each word; bytes=N: one of N bytes
//! append_stale a      the same, chained on the checkpoint instead of the tip
//! replicate a b       appends an entry for each word as a member of several does; committed=N: up to N
//! cut SEQ             drops the entries behind this one; committed=N: up to N they stay
//! announce SEQ        says that a checkpoint of another member at SEQ is about to be installed
//! install SEQ         that checkpoint is what the next start is from
//! begin SEQ           begins anew behind that checkpoint
//! from SEQ            durable entries from this one on, as other threads read them
//! checkpoint          remembers the tip for the next start
//! trim SEQ            gives up the entries before this one
//! maintain            prepares and removes segments
//! close               the writer ends
//! keys none | LINES   the keys of the next start: `plain`, `a` and `b`, the current one first
//! follow_keys         begins a new segment if the keys have changed
//! crash_at N          power goes at the n-th operation of the disk from now
//! fail OPERATION      the next write, sync, sync_dir, rename, create or allocate fails
//! capacity N          the volume holds this many bytes; 0: no limit
//! pending             what a power loss may undo, by number
//! power_loss 0 2      power goes, and only this of what is pending has survived
//! kill                the process is killed, the machine goes on
//! flip FILE BYTE      flips a bit
//! copy FROM TO        copies a file over another
//! disk                what is on the disk
//! read                the entries behind the checkpoint, by the open journal
//! ```

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::sync::Arc;

use goldenscript::{ArgumentConsumer, Context, Runner};
use vetch_base::{Epoch, Seq};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Entry, Fault, Journal, LocalConfig, LocalJournal, MemDisk, Op, Position, Tip};

use super::show;
use crate::encryption::{KEYS, ring};
use crate::support::{dir, genesis, noise, path, tiny, writes};

type Failure = Box<dyn Error>;

pub(crate) struct Script {
    disk: MemDisk,
    keys: EncryptionKeys,
    journal: Option<LocalJournal>,
    checkpoint: Tip,
}

impl Default for Script {
    fn default() -> Script {
        let (disk, keys) = (MemDisk::new(), EncryptionKeys::none());
        Script { disk, keys, journal: None, checkpoint: genesis() }
    }
}

impl Script {
    fn journal(&mut self) -> Result<&mut LocalJournal, Failure> {
        Ok(self.journal.as_mut().ok_or("the journal is not open")?)
    }

    fn open(&mut self, out: &mut String) -> Result<(), Failure> {
        let config = LocalConfig { keys: self.keys.clone(), ..tiny() };
        let mut recovery =
            LocalJournal::recover(Arc::new(self.disk.clone()), &dir(), config, self.checkpoint)?;
        while let Some(item) = recovery.next_entry()? {
            let _ = writeln!(out, "{}", show::entry(&item.entry));
        }
        let (journal, report) = recovery.finish()?;
        out.push_str(&show::report(&report));
        self.journal = Some(journal);
        Ok(())
    }

    fn append(&mut self, mut tip: Tip, args: &mut ArgumentConsumer<'_>) -> Result<String, Failure> {
        let mut entries = Vec::new();
        while let Some(value) = args.next_pos() {
            entries.push(writes(&mut tip, 1, value.as_bytes()));
        }
        while let Some((_, len)) = args.next_key() {
            let payload = noise(tip.seq.get(), len.parse()?);
            entries.push(writes(&mut tip, 1, &payload));
        }
        let appended = self.journal()?.append_batch(&entries)?;
        let rolled = if appended.rolled { ", new segment" } else { "" };
        Ok(format!("durable up to @{}: {} bytes{rolled}", appended.position.0, appended.bytes))
    }

    fn replicate(&mut self, args: &mut ArgumentConsumer<'_>) -> Result<String, Failure> {
        let mut tip = *self.journal()?.tip();
        let (mut entries, mut committed) = (Vec::new(), Seq::ZERO);
        while let Some(value) = args.next_pos() {
            entries.push(writes(&mut tip, 1, value.as_bytes()));
        }
        while let Some((key, value)) = args.next_key() {
            if key == "committed" {
                committed = Seq::new(value.parse()?);
            } else {
                let payload = noise(tip.seq.get(), value.parse()?);
                entries.push(writes(&mut tip, 1, &payload));
            }
        }
        let appended = self.journal()?.append_replicated(&entries, committed)?;
        let rolled = if appended.rolled { ", new segment" } else { "" };
        Ok(format!("durable up to @{}: {} bytes{rolled}", appended.position.0, appended.bytes))
    }

    fn cut(&mut self, args: &mut ArgumentConsumer<'_>) -> Result<String, Failure> {
        let to = Seq::new(number(args)?);
        let committed = args.next_key().map_or(Ok(0), |(_, value)| value.parse())?;
        let committed = Seq::new(committed);
        let journal = self.journal()?;
        let cut = journal.cut(to, committed)?;
        let tip = show::tip(journal.tip());
        let (entries, bytes, segments, syncs) = (cut.entries, cut.bytes, cut.segments, cut.syncs);
        Ok(format!("cut {entries} entries: {bytes} bytes, {segments} segments, {syncs} syncs; {tip}"))
    }

    fn follow(&mut self, from: u64) -> Result<String, Failure> {
        let (mut reading, mut out) = (self.journal()?.entries_from(Seq::new(from)), String::new());
        while let Some(encoded) = reading.next_entry()? {
            let _ = writeln!(out, "{}", show::entry(&Entry::decode(&encoded.bytes)?));
        }
        Ok(out)
    }

    fn read(&mut self) -> Result<String, Failure> {
        let from = self.checkpoint;
        let journal = self.journal()?;
        let (mut reading, mut out) = (journal.read(from)?, String::new());
        while let Some(item) = reading.next_entry()? {
            let _ = writeln!(out, "{}", show::entry(&item.entry));
        }
        Ok(out)
    }

    fn set_keys(&mut self, args: &mut ArgumentConsumer<'_>) -> Result<(), Failure> {
        let mut lines = Vec::new();
        while let Some(name) = args.next_pos() {
            lines.push(match name {
                "none" => break,
                "plain" => "plain",
                "a" => KEYS[0],
                "b" => KEYS[1],
                other => return Err(format!("no key {other}").into()),
            });
        }
        self.keys = if lines.is_empty() {
            EncryptionKeys::none()
        } else {
            EncryptionKeys::repeatable_for_tests(ring(&lines))
        };
        Ok(())
    }

    /// The writer that was open is gone with the machine.
    fn power_loss(&mut self, args: &mut ArgumentConsumer<'_>) -> Result<(), Failure> {
        let mut survivors = Vec::new();
        while let Some(number) = args.next_pos() {
            survivors.push(number.parse::<usize>()?);
        }
        let mut at = 0..;
        let disk = self.disk.power_loss(&mut |_| at.next().is_some_and(|at| survivors.contains(&at)));
        self.journal = None;
        self.disk = disk;
        Ok(())
    }

    fn fail(&mut self, operation: &str) -> Result<(), Failure> {
        let op = match operation {
            "write" => Op::Write,
            "sync" => Op::SyncData,
            "sync_dir" => Op::SyncDir,
            "rename" => Op::Rename,
            "create" => Op::Create,
            "allocate" => Op::Allocate,
            other => return Err(format!("no operation {other}").into()),
        };
        self.disk.inject(Fault::FailNext(op, io::ErrorKind::Other));
        Ok(())
    }

    fn execute(
        &mut self,
        name: &str,
        args: &mut ArgumentConsumer<'_>,
        out: &mut String,
    ) -> Result<(), Failure> {
        match name {
            "open" => self.open(out)?,
            "claim" => {
                let tip = self.journal()?.claim()?;
                out.push_str(&show::tip(&tip));
            }
            "append" => {
                let tip = *self.journal()?.tip();
                out.push_str(&self.append(tip, args)?);
            }
            "replicate" => out.push_str(&self.replicate(args)?),
            "cut" => out.push_str(&self.cut(args)?),
            "announce" => {
                let tip = foreign(number(args)?);
                self.journal()?.announce_begin(tip)?;
            }
            "install" => self.checkpoint = foreign(number(args)?),
            "begin" => {
                let tip = foreign(number(args)?);
                let journal = self.journal()?;
                journal.begin_at(tip, Seq::ZERO)?;
                out.push_str(&show::tip(journal.tip()));
            }
            "from" => {
                let from = number(args)?;
                out.push_str(&self.follow(from)?);
            }
            "append_stale" => out.push_str(&self.append(self.checkpoint, args)?),
            "checkpoint" => self.checkpoint = *self.journal()?.tip(),
            "forget_checkpoint" => self.checkpoint = genesis(),
            "trim" => self.journal()?.trim(Position(number(args)?))?,
            "maintain" => {
                let done = self.journal()?.maintenance().run()?;
                let _ = write!(out, "prepared {}, removed {}", done.prepared, done.removed);
            }
            "close" => self.journal = None,
            "keys" => self.set_keys(args)?,
            "follow_keys" => {
                let began = self.journal()?.follow_keys()?;
                out.push_str(if began { "new segment" } else { "no new segment" });
            }
            "crash_at" => self.disk.inject(Fault::CrashAt(number(args)?)),
            "fail" => self.fail(word(args)?)?,
            "capacity" => {
                let bytes = number(args)?;
                self.disk.inject(Fault::Capacity(if bytes == 0 { u64::MAX } else { bytes }));
            }
            "pending" => {
                for (at, pending) in self.disk.pending().iter().enumerate() {
                    let _ = writeln!(out, "{at}: {}", show::pending(pending));
                }
            }
            "power_loss" => self.power_loss(args)?,
            "kill" => {
                let disk = self.disk.process_killed();
                self.journal = None;
                self.disk = disk;
            }
            "flip" => {
                let (file, byte) = (path(word(args)?), number(args)?);
                self.disk.flip_bit(&file, byte, 0);
            }
            "copy" => {
                let (from, to) = (path(word(args)?), path(word(args)?));
                self.disk.overwrite(&to, &self.disk.content(&from).ok_or("there is no such file")?);
            }
            "disk" => out.push_str(&show::journal(&self.disk, &self.keys)),
            "read" => out.push_str(&self.read()?),
            other => return Err(format!("unknown command {other}").into()),
        }
        Ok(())
    }
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Result<String, Failure> {
        let (mut args, mut out) = (command.consume_args(), String::new());
        let done = self.execute(&command.name, &mut args, &mut out);
        args.reject_next()?;
        // What a start shows before it is refused belongs to its output.
        done.map_err(|error| format!("{out}{error}"))?;
        Ok(out)
    }
}

/// A checkpoint of another member.
fn foreign(seq: u64) -> Tip {
    Tip { epoch: Epoch::new(9), seq: Seq::new(seq), hash: [9; 32], next_rev: 90 }
}

fn word<'a>(args: &mut ArgumentConsumer<'a>) -> Result<&'a str, Failure> {
    Ok(args.next_pos().ok_or("a word is missing")?)
}

fn number(args: &mut ArgumentConsumer<'_>) -> Result<u64, Failure> {
    Ok(word(args)?.parse()?)
}
