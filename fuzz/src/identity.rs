//! The identity file, through the opening of a whole node: refused, or taken as it is and never
//! changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_node::config::NodeConfig;
use vetch_node::error::OpenError;
use vetch_node::stepped::{self, Time};

use crate::image;

pub const DIR: &str = "/data/member";

struct Still;

impl Time for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

pub fn config() -> NodeConfig {
    let proposed = Identity { cluster_id: 1, member_id: 2 };
    NodeConfig { journal_segment_bytes: 512, ..NodeConfig::new(PathBuf::from("/data"), proposed) }
}

/// The first byte says whether the checksum is made right.
pub fn run(data: &[u8]) {
    let Some((&flags, content)) = data.split_first() else { return };
    let mut content = content.to_vec();
    if flags & 1 != 0 && content.len() >= 4 {
        let end = content.len() - 4;
        let crc = crc32c::crc32c(&content[..end]);
        content[end..].copy_from_slice(&crc.to_le_bytes());
    }
    let path = Path::new(DIR).join("identity");
    let disk = image::disk(Path::new(DIR), [("identity".to_owned(), content.clone())]);
    match stepped::open(Arc::new(disk.clone()), Arc::new(Still), config(), |_| {}) {
        Ok((node, _)) => {
            let Identity { cluster_id, member_id } = node.identity();
            let taken = [cluster_id.to_le_bytes(), member_id.to_le_bytes()].concat();
            assert_eq!((content.len(), &content[8..24]), (28, &taken[..]), "what the file says is taken");
        }
        Err(OpenError::Identity { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    assert_eq!(disk.content(&path), Some(content), "the file is never changed");
}
