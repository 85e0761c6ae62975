//! A log file that is rotated when it reaches its limit.
//!
//! The settings and the names of rotated files are those of the library that etcd uses:
//! `name-<time>.ext`, with `.gz` behind it if they are compressed. Cleaning up happens on a thread
//! of its own, so logging does not wait for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Now};

use super::{LogError, append_to};

/// When to rotate, and how many files to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rotation {
    max_bytes: u64,
    /// None: for ever.
    max_age: Option<Duration>,
    /// None: all of them.
    max_files: Option<usize>,
    compress: bool,
}

/// The default size, for zero.
const MEGABYTES_DEFAULT: u64 = 100;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Rotation {
    /// From the flag's JSON. There must be exactly one file among the outputs.
    pub(super) fn read(json: &str, outputs: &[String]) -> Result<Rotation, LogError> {
        let is_file = |name: &&String| !["default", "stderr", "stdout"].contains(&name.as_str());
        if outputs.iter().filter(is_file).count() != 1 {
            return Err(LogError::NoFileToRotate);
        }
        let value: Value = serde_json::from_str(json).map_err(LogError::RotationSyntax)?;
        let Value::Object(given) = value else {
            return Err(LogError::Rotation("it must be an object".to_string()));
        };
        let find =
            |name: &str| given.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let number = |name: &str| match find(name) {
            None | Some(Value::Null) => Ok(0),
            Some(value) => {
                value.as_u64().ok_or_else(|| LogError::Rotation(format!("{name} must be a number")))
            }
        };
        let switch = |name: &str| match find(name) {
            None | Some(Value::Null) => Ok(false),
            Some(value) => {
                value.as_bool().ok_or_else(|| LogError::Rotation(format!("{name} must be true or false")))
            }
        };
        if switch("localtime")? {
            return Err(LogError::Rotation("localtime is not available: times in names are UTC".to_string()));
        }
        let (megabytes, days, files) = (number("maxsize")?, number("maxage")?, number("maxbackups")?);
        let megabytes = if megabytes == 0 { MEGABYTES_DEFAULT } else { megabytes };
        Ok(Rotation {
            max_bytes: megabytes.saturating_mul(1 << 20),
            max_age: u32::try_from(days).ok().filter(|days| *days > 0).map(|days| DAY * days),
            max_files: usize::try_from(files).ok().filter(|files| *files > 0),
            compress: switch("compress")?,
        })
    }
}

/// The file that is being written.
#[derive(Debug)]
pub(super) struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
}

impl Rotated {
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Rotated> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Rotated { path: path.to_path_buf(), rotation, file, bytes })
    }

    /// A line is never split: the file is rotated before one that would not fit.
    pub(super) fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.rotation.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.bytes += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, self.rotated_name())?;
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        let (path, rotation) = (self.path.clone(), self.rotation.clone());
        // A failure is not reported: the next rotation cleans up again.
        std::thread::spawn(move || prune(&path, &rotation));
        Ok(())
    }

    /// A free name: the time to the microsecond, or later. So names are in the order of time.
    fn rotated_name(&self) -> PathBuf {
        let (stem, extension) = parts(&self.path);
        loop {
            let mut time = String::new();
            // Formatting the present into a string does not fail; an empty time would still be a
            // name.
            let _ = Now.format_time(&mut Writer::new(&mut time));
            let time = time.trim_end_matches('Z').replace(':', "-");
            let path = self.path.with_file_name(format!("{stem}-{time}{extension}"));
            if !path.exists() {
                return path;
            }
            std::thread::sleep(Duration::from_micros(1));
        }
    }
}

/// The file's name up to its last dot, and from there on.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = text(path.extension());
    let extension = if extension.is_empty() { extension } else { format!(".{extension}") };
    (text(path.file_stem()), extension)
}

/// Compresses rotated files, and removes those that are too old or too many.
fn prune(path: &Path, rotation: &Rotation) {
    let mut rotated = rotated_files(path);
    if let Some(max) = rotation.max_files
        && rotated.len() > max
    {
        for surplus in rotated.drain(..rotated.len() - max) {
            let _ = fs::remove_file(surplus);
        }
    }
    if let Some(age) = rotation.max_age {
        rotated.retain(|file| {
            let old = is_older(file, age);
            if old {
                let _ = fs::remove_file(file);
            }
            !old
        });
    }
    if rotation.compress {
        for file in rotated.iter().filter(|file| file.extension().is_none_or(|e| e != "gz")) {
            let _ = compress(file);
        }
    }
}

/// Rotated files, the oldest first.
fn rotated_files(path: &Path) -> Vec<PathBuf> {
    let (stem, extension) = parts(path);
    let begin = format!("{stem}-");
    let is_one = |name: &OsString| {
        let name = name.to_string_lossy();
        let end = name.strip_suffix(".gz").unwrap_or(&name);
        name.starts_with(&begin)
            && end.ends_with(&extension)
            && name.as_bytes().get(begin.len()).is_some_and(u8::is_ascii_digit)
    };
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|since| since > age))
}

/// The compressed file replaces the other only when it is complete.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let mut encoder = GzEncoder::new(File::create(&name)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> Vec<String> {
        vec!["/tmp/x".to_string()]
    }

    #[test]
    fn settings_are_read_and_mistakes_named() {
        let read = Rotation::read(
            "{\"maxsize\": 1, \"MaxAge\": 2, \"maxbackups\": 3, \"compress\": true}",
            &outputs(),
        );
        let expected =
            Rotation { max_bytes: 1 << 20, max_age: Some(2 * DAY), max_files: Some(3), compress: true };
        assert_eq!(read.unwrap(), expected);
        let default = Rotation::read("{}", &outputs()).unwrap();
        assert_eq!((default.max_bytes, default.max_age, default.max_files), (100 << 20, None, None));
        let refusal = |json: &str| Rotation::read(json, &outputs()).unwrap_err().to_string();
        assert!(refusal("x").contains("improperly formatted"));
        assert!(refusal("{\"maxsize\": \"1\"}").contains("invalid log rotation config: maxsize"));
        assert!(refusal("{\"localtime\": true}").contains("UTC"));
        assert!(Rotation::read("{}", &["stderr".to_string()]).is_err());
    }

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vetch.log");
        let rotation = Rotation { max_bytes: 20, max_age: None, max_files: Some(2), compress: false };
        let mut log = Rotated::open(&path, rotation.clone()).unwrap();
        for n in 0..5 {
            log.write_all(format!("a line, number {n}\n").as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a line, number 4\n");
        // The threads may still be busy; the same again finds the same.
        prune(&path, &rotation);
        let kept = rotated_files(&path);
        let texts: Vec<String> = kept.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        assert_eq!(texts, ["a line, number 2\n", "a line, number 3\n"]);
    }

    #[test]
    fn what_was_set_aside_can_be_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vetch.log");
        let rotation = Rotation { max_bytes: 1, max_age: None, max_files: None, compress: true };
        let mut log = Rotated::open(&path, rotation.clone()).unwrap();
        log.write_all(b"one\n").unwrap();
        fs::rename(&path, log.rotated_name()).unwrap();
        prune(&path, &rotation);
        let kept = rotated_files(&path);
        assert_eq!(kept.len(), 1);
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(File::open(&kept[0]).unwrap());
        io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        assert_eq!(text, "one\n");
    }
}
