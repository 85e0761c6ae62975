//! A real S3-compatible server: versitygw on a directory, with keys made for the occasion and real
//! signatures.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::server::free_port;

pub(super) const BUCKET: &str = "backups";

pub(super) struct Gateway {
    dir: PathBuf,
    port: u16,
    access: String,
    secret: String,
    child: Option<Child>,
}

impl Gateway {
    pub(super) fn start(dir: &Path) -> Result<Gateway> {
        fs::create_dir_all(dir.join("objects").join(BUCKET))?;
        let random = || -> Result<String> {
            let mut bytes = [0u8; 16];
            std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
            Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        let (access, secret) = (random()?, random()?);
        let mut gateway = Gateway { dir: dir.to_path_buf(), port: free_port()?, access, secret, child: None };
        gateway.run()?;
        Ok(gateway)
    }

    /// Starts it, or starts it again on the same objects.
    pub(super) fn run(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.dir.join("gateway.log"))?;
        let child = Command::new(binary()?)
            .args(["--port", &format!("127.0.0.1:{}", self.port), "--quiet", "posix"])
            .arg(self.dir.join("objects"))
            .env("ROOT_ACCESS_KEY", &self.access)
            .env("ROOT_SECRET_KEY", &self.secret)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting versitygw")?;
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            ensure!(!ended, "versitygw ended:\n{}", fs::read_to_string(self.dir.join("gateway.log"))?);
            ensure!(Instant::now() < deadline, "versitygw does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// From one moment to the next it is gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Where its objects lie as files.
    pub(super) fn objects(&self) -> PathBuf {
        self.dir.join("objects").join(BUCKET)
    }

    /// A file with what opens it.
    pub(super) fn credentials(&self) -> Result<PathBuf> {
        let path = self.dir.join("credentials");
        let lines = format!(
            "# made for this run\nAWS_ACCESS_KEY_ID={}\nAWS_SECRET_ACCESS_KEY={}\nAWS_REGION=us-east-1\n\
             AWS_ENDPOINT_URL=http://127.0.0.1:{}\nAWS_ALLOW_HTTP=true\n",
            self.access, self.secret, self.port
        );
        fs::write(&path, lines)?;
        Ok(path)
    }

    /// What must never be seen in a log.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.child.is_some()
            && let Err(error) = self.kill()
        {
            eprintln!("could not end versitygw: {error:#}");
        }
    }
}

/// From where `scripts/s3.sh` built it, or `VERSITYGW_BIN`.
fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("VERSITYGW_BIN") {
        return Ok(PathBuf::from(path));
    }
    let cache = match (std::env::var_os("VETCH_CACHE"), std::env::var_os("XDG_CACHE_HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(xdg)) => Path::new(&xdg).join("vetch"),
        (None, None) => Path::new(&std::env::var_os("HOME").context("no HOME")?).join(".cache/vetch"),
    };
    let path = cache.join("versitygw-1.8.0/bin/versitygw");
    ensure!(path.exists(), "versitygw 1.8.0 is not built: run scripts/s3.sh first");
    Ok(path)
}
