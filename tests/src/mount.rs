//! File systems of a trial's own: small ones that fill up, and ones whose power can be cut. They
//! need root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A mounted file system that is unmounted when it is dropped, whatever happened.
pub(crate) struct Mount {
    directory: TempDir,
    /// The image of a file system on a loop device; a tmpfs has none.
    image: Option<PathBuf>,
    mounted: bool,
}

impl Mount {
    /// A file system in memory with room for so much.
    pub(crate) fn tmpfs(mib: u64) -> Result<Mount> {
        let directory = TempDir::with_prefix("vetch-mount-")?;
        let size = format!("size={mib}m");
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path(directory.path())?])?;
        Ok(Mount { directory, image: None, mounted: true })
    }

    /// An ext4 file system in a file, mounted through a loop device.
    pub(crate) fn ext4(mib: u64, options: &str) -> Result<Mount> {
        let directory = TempDir::with_prefix("vetch-mount-")?;
        let image = directory.path().join("image");
        std::fs::create_dir(directory.path().join("root"))?;
        std::fs::File::create(&image)?.set_len(mib << 20)?;
        run("mkfs.ext4", &["-q", "-F", path(&image)?])?;
        let mut mount = Mount { directory, image: Some(image), mounted: false };
        mount.mount(options)?;
        Ok(mount)
    }

    /// Where files go.
    pub(crate) fn path(&self) -> PathBuf {
        match self.image {
            Some(_) => self.directory.path().join("root"),
            None => self.directory.path().to_owned(),
        }
    }

    pub(crate) fn mount(&mut self, options: &str) -> Result<()> {
        let image = self.image.as_ref().context("only an image can be mounted again")?;
        let options = format!("loop,{options}");
        run("mount", &["-t", "ext4", "-o", &options, path(image)?, path(&self.path())?])?;
        self.mounted = true;
        Ok(())
    }

    pub(crate) fn unmount(&mut self) -> Result<()> {
        run("umount", &[path(&self.path())?])?;
        self.mounted = false;
        Ok(())
    }

    /// Cuts the power: from now on nothing reaches the image, not even what the file system's
    /// journal holds in memory. The call is an ioctl that no safe wrapper exists for, so a line of
    /// Python makes it.
    pub(crate) fn cut(&self) -> Result<()> {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        const CALL: &str = "import fcntl, os, struct, sys; \
            fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";
        run("python3", &["-c", CALL, path(&self.path())?])
    }

    /// Makes everything durable that was written so far, as the kernel would have done sooner or
    /// later.
    pub(crate) fn sync(&self) -> Result<()> {
        run("sync", &["-f", path(&self.path())?])
    }

    /// A file that leaves only some room on the disk.
    pub(crate) fn fill(&self, leave_mib: u64) -> Result<PathBuf> {
        let path = self.path().join("ballast");
        let file = std::fs::File::create(&path)?;
        // Another process may take room between the check and the write after it.
        for _ in 0..100 {
            let space = rustix::fs::statvfs(self.path())?;
            let take = (space.f_bavail * space.f_frsize).saturating_sub(leave_mib << 20);
            if take == 0 {
                break;
            }
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, take) {
                Err(rustix::io::Errno::NOSPC) => {}
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        Ok(path)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = self.unmount()
        {
            eprintln!("{error:#}");
        }
    }
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("{program} is missing; this trial needs it"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {arguments:?} failed: {}; this trial needs root, and loop devices for images",
        said.trim()
    );
    Ok(())
}
