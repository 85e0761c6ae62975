//! Settings of backups, from the flags.

use std::path::Path;
use std::time::Duration;

use vetch_backup::Location;
use vetch_backup::archiver::Settings;

use super::SettingsError;
use crate::flags::Parsed;

const INTERVAL_MIN: Duration = Duration::from_millis(100);

pub(super) fn settings(flags: &Parsed) -> Result<Option<Settings>, SettingsError> {
    if flags.text("backup-location").is_empty() {
        let others = [
            "backup-credentials-file",
            "backup-interval",
            "backup-full-interval",
            "backup-retention",
            "backup-journal-bytes",
        ];
        return match others.into_iter().find(|flag| flags.is_given(flag)) {
            Some(flag) => Err(SettingsError::NoBackup(flag)),
            None => Ok(None),
        };
    }
    let credentials = Some(flags.text("backup-credentials-file")).filter(|path| !path.is_empty());
    let location = Location::parse(flags.text("backup-location"), credentials.map(Path::new))
        .map_err(SettingsError::BackupLocation)?;
    let (interval, full_interval) =
        (flags.duration("backup-interval"), flags.duration("backup-full-interval"));
    if interval < INTERVAL_MIN || full_interval < interval {
        return Err(SettingsError::BackupInterval);
    }
    let retention = Some(flags.duration("backup-retention")).filter(|span| !span.is_zero());
    Ok(Some(Settings { location, interval, full_interval, retention }))
}

/// Limit on journal kept for backups. None: no backups.
pub(super) fn journal_limit(flags: &Parsed) -> Option<u64> {
    (!flags.text("backup-location").is_empty()).then(|| flags.uint("backup-journal-bytes"))
}
