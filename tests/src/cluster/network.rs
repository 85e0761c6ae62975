//! The network of a cluster: six hosts and the clients' on one wire, which can be cut in any
//! direction between any two.
//!
//! Each host is a network namespace with one interface on a bridge; the clients are this very
//! process, at the bridge. Packets are dropped where they arrive, without a word, as a broken
//! network drops them. All of it, the processes included, is in namespaces of the trial's own
//! (`enter`), so nothing of it outlives the trial, however that ends, and two trials do not meet.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::server::Site;

/// Says that the process is in namespaces of its own.
const ENTERED: &str = "VETCH_TRIAL_NETWORK";
/// Where `ip netns` keeps the names of namespaces.
const NAMES: &str = "/run/netns";
/// How many packets of a hundred a lossy wire loses.
const LOST_PERCENT: u32 = 10;
/// A thin wire: packets wait up to this long for their turn, and are lost after that.
const THIN: &str = "rate 2mbit burst 16kb latency 300ms";

/// Runs this very command once more, in namespaces of its own for processes, mounts and network,
/// unless that is where it is. Answers how that ended.
pub(super) fn enter() -> Result<Option<i32>> {
    if std::env::var_os(ENTERED).is_some() {
        return Ok(None);
    }
    let tools = [
        ("setpriv", "util-linux"),
        ("unshare", "util-linux"),
        ("ip", "iproute2"),
        ("tc", "iproute2"),
        ("nft", "nftables"),
    ];
    for (tool, package) in tools {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output()?;
        ensure!(found.status.success(), "{tool} is missing: install {package} (scripts/test does it)");
    }
    // A process that is killed takes the one in the namespaces along, and that takes all the
    // others.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(ENTERED, "1");
    let status = command.status().context("starting the trial in namespaces of its own, which takes root")?;
    Ok(Some(status.code().unwrap_or(1)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// This process, and all clients in it.
    Clients,
    /// One of the servers of the journal.
    Journal(usize),
    /// One of the Vetch servers.
    Server(usize),
}

pub(super) const JOURNAL: [Host; 3] = [Host::Journal(0), Host::Journal(1), Host::Journal(2)];
pub(super) const SERVERS: [Host; 3] = [Host::Server(0), Host::Server(1), Host::Server(2)];

impl Host {
    pub(super) fn address(self) -> Ipv4Addr {
        let last = match self {
            Host::Clients => 1,
            Host::Journal(at) => 11 + at,
            Host::Server(at) => 21 + at,
        };
        Ipv4Addr::new(10, 77, 0, u8::try_from(last).expect("few hosts"))
    }

    fn name(self) -> String {
        match self {
            Host::Clients => "clients".to_owned(),
            Host::Journal(at) => format!("journal-{at}"),
            Host::Server(at) => format!("server-{at}"),
        }
    }

    /// How a process is started there.
    pub(super) fn site(self) -> Site {
        let enter = match self {
            Host::Clients => Vec::new(),
            _ => vec!["nsenter".to_owned(), format!("--net={NAMES}/{}", self.name())],
        };
        Site { address: self.address(), enter }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Network;

impl Network {
    /// Lays the wires. Only inside of `enter`, once.
    pub(super) fn build() -> Result<Network> {
        // Names of namespaces are files, and are gone with this mount.
        std::fs::create_dir_all(NAMES)?;
        tell(&["mount", "-t", "tmpfs", "trial", NAMES], "")?;
        let bridge = Host::Clients.address();
        let mut links = format!(
            "link set lo up\nlink add lan type bridge\naddress add {bridge}/24 dev lan\nlink set lan up\n"
        );
        for host in JOURNAL.into_iter().chain(SERVERS) {
            let name = host.name();
            links += &format!(
                "netns add {name}\nlink add {name} type veth peer name eth0 netns {name}\n\
                 link set {name} master lan up\n"
            );
        }
        tell(&["ip", "-batch", "-"], &links)?;
        for host in JOURNAL.into_iter().chain(SERVERS) {
            let links =
                format!("link set lo up\naddress add {}/24 dev eth0\nlink set eth0 up\n", host.address());
            tell(&["ip", "-netns", &host.name(), "-batch", "-"], &links)?;
        }
        for host in [Host::Clients].into_iter().chain(JOURNAL).chain(SERVERS) {
            let rules = format!(
                "table ip trial {{\n set cut {{ type ipv4_addr; }}\n set lossy {{ type ipv4_addr; }}\n \
                 chain arriving {{\n  type filter hook input priority 0;\n  ip saddr @cut drop\n  \
                 ip saddr @lossy numgen random mod 100 < {LOST_PERCENT} drop\n }}\n}}\n"
            );
            filter(host, &rules)?;
        }
        Ok(Network)
    }

    /// From now on nothing that one of `from` sends arrives at one of `to`.
    pub(super) fn cut(&self, from: &[Host], to: &[Host]) -> Result<()> {
        mark("cut", from, to)
    }

    /// Nor the other way round.
    pub(super) fn part(&self, some: &[Host], others: &[Host]) -> Result<()> {
        self.cut(some, others)?;
        self.cut(others, some)
    }

    /// Every tenth packet between all hosts is lost.
    pub(super) fn lose_packets(&self) -> Result<()> {
        let all: Vec<Host> = JOURNAL.into_iter().chain(SERVERS).collect();
        mark("lossy", &all, &all)
    }

    /// What a host sends waits in a queue, and is lost when the queue is long.
    pub(super) fn make_thin(&self, host: Host) -> Result<()> {
        let mut add = vec!["tc", "-netns"];
        let name = host.name();
        add.extend([name.as_str(), "qdisc", "replace", "dev", "eth0", "root", "tbf"]);
        add.extend(THIN.split(' '));
        tell(&add, "")
    }

    /// Everything arrives again.
    pub(super) fn heal(&self) -> Result<()> {
        for host in [Host::Clients].into_iter().chain(JOURNAL).chain(SERVERS) {
            filter(host, "flush set ip trial cut\nflush set ip trial lossy\n")?;
        }
        for host in JOURNAL.into_iter().chain(SERVERS) {
            tell(&["tc", "-netns", &host.name(), "qdisc", "replace", "dev", "eth0", "root", "pfifo"], "")?;
        }
        Ok(())
    }
}

fn mark(set: &str, from: &[Host], to: &[Host]) -> Result<()> {
    for &host in to {
        let others = from.iter().filter(|other| **other != host);
        let senders: Vec<String> = others.map(|other| other.address().to_string()).collect();
        filter(host, &format!("add element ip trial {set} {{ {} }}\n", senders.join(", ")))?;
    }
    Ok(())
}

/// Changes what arrives at a host.
fn filter(host: Host, rules: &str) -> Result<()> {
    let enter = host.site().enter;
    let mut words: Vec<&str> = enter.iter().map(String::as_str).collect();
    words.extend(["nft", "-f", "-"]);
    tell(&words, rules)
}

fn tell(words: &[&str], input: &str) -> Result<()> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    child.stdin.take().context("no way in")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{command:?} failed: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
