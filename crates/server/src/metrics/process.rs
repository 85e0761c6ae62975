//! What the kernel knows about this process, read from `/proc/self` for each page.
//!
//! A figure that cannot be read is left out rather than guessed.

use std::fs;

use super::text::Text;

pub(super) fn write(page: &mut Text) {
    let fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count());
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // The kernel's "no limit" is all ones, and shown as that number by etcd too.
    let limit = limit.unwrap_or(u64::MAX) as f64;
    if let Some(fds) = fds {
        page.gauge("os_fd_used", "File descriptors in use.", fds as f64);
        page.gauge("process_open_fds", "File descriptors in use.", fds as f64);
    }
    page.gauge("os_fd_limit", "Most file descriptors the process may use.", limit);
    page.gauge("process_max_fds", "Most file descriptors the process may use.", limit);
    let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) else {
        return;
    };
    page.heading("process_cpu_seconds_total", super::text::Type::Counter, "CPU time used, user and system.");
    page.sample("process_cpu_seconds_total", &[], stat.cpu_seconds);
    page.gauge("process_resident_memory_bytes", "Memory in RAM.", stat.resident_bytes);
    page.gauge("process_virtual_memory_bytes", "Memory mapped.", stat.virtual_bytes);
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current.unwrap_or(u64::MAX);
    page.gauge("process_virtual_memory_max_bytes", "Most memory that may be mapped.", limit as f64);
    if let Some((received, sent)) =
        fs::read_to_string("/proc/self/net/netstat").ok().as_deref().and_then(octets)
    {
        let help = "Bytes received over the network by all processes of this network namespace.";
        page.counter("process_network_receive_bytes_total", help, received);
        let help = "Bytes sent over the network by all processes of this network namespace.";
        page.counter("process_network_transmit_bytes_total", help, sent);
    }
    if let Some(boot) = boot_time() {
        let start = boot + stat.start_seconds_after_boot;
        page.gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.", start);
    }
}

/// Memory in RAM in bytes, and CPU time in seconds; zeros if they cannot be read.
pub(crate) fn usage() -> (u64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(Stat::parse);
    stat.map_or((0, 0.0), |stat| (stat.resident_bytes as u64, stat.cpu_seconds))
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_seconds_after_boot: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    /// Fields are counted after the command name, which may itself hold spaces and brackets.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let field = |n: usize| fields.get(n)?.parse::<f64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Some(Stat {
            cpu_seconds: (field(11)? + field(12)?) / ticks,
            start_seconds_after_boot: field(19)? / ticks,
            virtual_bytes: field(20)?,
            resident_bytes: field(21)? * rustix::param::page_size() as f64,
        })
    }
}

/// Bytes in and out, from a line of names and a line of numbers below it.
fn octets(netstat: &str) -> Option<(u64, u64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        numbers.split_whitespace().nth(at)?.parse().ok()
    };
    Some((of("InOctets")?, of("OutOctets")?))
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let mut page = Text::default();
        write(&mut page);
        let page = page.finish();
        for name in
            ["os_fd_used", "os_fd_limit", "process_resident_memory_bytes", "process_start_time_seconds"]
        {
            let line = page.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
            assert!(line.split(' ').next_back().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
        }
    }

    #[test]
    fn bytes_of_the_network_are_found_by_name() {
        let netstat = "TcpExt: A InOctets\nTcpExt: 1 2\nIpExt: A InOctets OutOctets\nIpExt: 3 40 50\n";
        assert_eq!(octets(netstat), Some((40, 50)));
        assert_eq!(octets("IpExt: InOctets\nIpExt: 1\n"), None);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let tail = "S 1 1 1 0 -1 4194304 1 0 0 0 100 50 0 0 20 0 1 0 200 4096 3 1";
        let plain = Stat::parse(&format!("1 (vetch) {tail}")).unwrap();
        assert_eq!(Stat::parse(&format!("1 (a) b (c) {tail}")).unwrap(), plain);
        assert_eq!(plain.virtual_bytes, 4096.0);
    }
}
