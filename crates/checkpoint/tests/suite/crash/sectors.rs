//! Damage by whole sectors: zeroed, or overwritten with the content of any other sector of any
//! file. Loading is refused, falls back, or is right; a checkpoint is never read as something else.

use std::path::PathBuf;
use std::sync::Arc;

use super::life::Life;
use super::{seeds, tell};
use crate::world::open_through;

const SECTOR: usize = 512;

#[test]
fn a_zeroed_or_misdirected_sector_is_refused_or_falls_back() {
    let (mut refused, mut fell_back, mut harmless) = (0, 0, 0);
    for seed in seeds(12) {
        let mut life = Life::new(seed);
        life.live().unwrap();
        let world = &life.world;
        let files = world.disk.files();
        let sectors: Vec<(&PathBuf, usize)> = (files.iter())
            .flat_map(|(path, content)| (0..content.len()).step_by(SECTOR).map(move |at| (path, at)))
            .collect();
        let read = |(path, at): (&PathBuf, usize)| {
            let content = &files[path];
            content[at..content.len().min(at + SECTOR)].to_vec()
        };
        let mut sources: Vec<Vec<u8>> = sectors.iter().map(|&place| read(place)).collect();
        sources.push(vec![0; SECTOR]);
        for &(path, at) in &sectors {
            for source in &sources {
                let disk = world.disk.process_exit();
                let mut content = files[path].clone();
                let len = source.len().min(content.len() - at);
                content[at..at + len].copy_from_slice(&source[..len]);
                let is_same = content == files[path];
                disk.overwrite(path, &content);
                match open_through(Arc::new(disk.clone()), world.config, &world.keys) {
                    Err(_) => refused += 1,
                    Ok(loaded) => {
                        let is_back = loaded.report.fell_back.is_some();
                        let is_older = path.extension() == Some("manifest".as_ref());
                        let may_pass = is_same || is_back || is_older || !loaded.report.removed.is_empty();
                        assert!(may_pass || loaded.tip == life.after, "life {seed}, {path:?} at {at}");
                        assert!(
                            loaded.tip.seq >= life.trimmed,
                            "life {seed}, {path:?} at {at}: journal is gone"
                        );
                        world.assert_same(&world.replay(&disk, loaded));
                        fell_back += u64::from(is_back);
                        harmless += u64::from(!is_back);
                    }
                }
            }
        }
    }
    tell(&format!(
        "checkpoint, sectors zeroed or misdirected: {refused} refused, {fell_back} fell back, {harmless} harmless"
    ));
    assert!(refused + fell_back > 10 * seeds(12).end, "{refused} {fell_back} {harmless}");
}
