//! The command line: flags of the source etcd are parsed here, everything else is a flag of the
//! server.

use std::time::Duration;

use clap::Parser;

use crate::commands::client::{Access, duration};

/// Flags of our own, and whether they have a value.
const OWN: [(&str, bool); 11] = [
    ("from", true),
    ("cut-over", false),
    ("max-pause", true),
    ("cacert", true),
    ("cert", true),
    ("key", true),
    ("user", true),
    ("password", true),
    ("dial-timeout", true),
    ("help", false),
    ("h", false),
];

const MORE: &str = "\
All flags of the server are taken as well, as flags or as ETCD_ variables:
--data-dir is where the copy is made; --listen-client-urls, --cert-file and so
on are those of the server it will be. 'vetch --help' lists them.

What happens:
  1. A snapshot of the etcd is copied into the data directory, with all
     revisions, leases, users and roles.
  2. What the etcd writes from then on follows. A line every few seconds says
     how far behind the copy is, and whether it is safe to cut over. On its own
     addresses Vetch already answers: it forwards every request to the etcd.
     Clients can be pointed to it now, one after the other.
  3. 'vetch migrate cut-over --data-dir DIR' on the same machine, or --cut-over
     from the start, changes over: the etcd is fenced (its CORRUPT alarm is
     raised, so it refuses writes), the last revisions arrive, both sides are
     compared, and Vetch answers by itself. Clients of Vetch wait for that long,
     a fraction of a second as a rule, and see no error.
  4. The last line says DONE. Then stop the etcd. The process goes on as a
     server; later starts need no 'migrate'.

If it is interrupted before that, the same command goes on where it was; the
etcd is untouched and remains the truth. If the machine dies in the middle of
the cut-over, run the same command again. To give up instead, look for
migration.done.json in the data directory first: if it is there, Vetch is the
truth. If not, 'etcdctl alarm disarm' lets the etcd take writes again.";

#[derive(Parser, Debug)]
#[command(
    name = "vetch migrate",
    about = "Moves a running etcd to Vetch",
    override_usage = "vetch migrate --from ENDPOINTS [--cut-over] [flags]\n       vetch migrate cut-over --data-dir DIR",
    after_help = MORE,
    disable_version_flag = true
)]
pub(super) struct Flags {
    /// Client endpoints of the etcd, separated by commas. The first that answers is used; the
    /// others are fallbacks.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(super) from: Vec<String>,
    /// Cut over as soon as the copy is complete, instead of waiting for 'vetch migrate cut-over'.
    #[arg(long)]
    pub(super) cut_over: bool,
    /// Limit on the pause of clients at the cut-over. If comparing all data takes longer, the last
    /// comparison before the pause is used, and all data is compared again right after.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(super) max_pause: Duration,
    #[command(flatten)]
    pub(super) access: Access,
}

/// Splits the arguments: ours in clap's form, and the server's.
pub(super) fn split(arguments: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let name = argument.trim_start_matches('-');
        let (name, has_value) = name.split_once('=').map_or((name, false), |(name, _)| (name, true));
        match OWN.iter().find(|(known, _)| argument.starts_with('-') && *known == name) {
            Some((name, takes_value)) => {
                let needs_more = *takes_value && !has_value;
                // One dash does for two, as with all flags of the server.
                let dashes = if name.len() == 1 { "-" } else { "--" };
                own.push(format!("{dashes}{}", argument.trim_start_matches('-')));
                own.extend(needs_more.then(|| arguments.next()).flatten());
            }
            None => rest.push(argument),
        }
    }
    (own, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn flags_of_the_etcd_and_of_the_server_are_separated() {
        let line =
            "--data-dir d --from a:1,b:1 -name=n --cut-over --cacert=ca --cert-file c -key k --key-file f";
        let (own, rest) = split(words(line));
        assert_eq!(own, words("--from a:1,b:1 --cut-over --cacert=ca --key k"));
        assert_eq!(rest, words("--data-dir d -name=n --cert-file c --key-file f"));
    }

    #[test]
    fn the_endpoints_are_needed_and_the_rest_is_not() {
        assert!(Flags::try_parse_from(["x"]).is_err());
        let flags = Flags::try_parse_from(["x", "--from", "a:1,b:1"]).unwrap();
        assert_eq!((flags.from.len(), flags.cut_over, flags.max_pause), (2, false, Duration::from_secs(1)));
    }
}
