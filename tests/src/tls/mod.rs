//! The TLS trial: every kind of certificate, version, cipher and flag, asked of two servers with
//! clients that are not ours (curl, openssl, etcdctl), and their answers compared; then everything
//! is replaced under a running server.

mod cases;
pub(crate) mod pki;
pub(crate) mod probe;
mod rotation;

use std::time::Instant;

use anyhow::{Result, ensure};
use cases::{Asked, DEVIATIONS};
use clap::Args;

use crate::server::Kind;

/// Compare how two servers speak TLS.
#[derive(Args, Debug)]
pub(crate) struct TlsTrial {
    #[arg(long, default_value = "etcd")]
    left: Kind,
    #[arg(long, default_value = "vetch")]
    right: Kind,
    /// Print every answer.
    #[arg(long)]
    verbose: bool,
}

impl TlsTrial {
    pub(crate) fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| Asked::all(self.left));
            let right = scope.spawn(|| Asked::all(self.right));
            (left.join().expect("the left side panicked"), right.join().expect("the right side panicked"))
        });
        let (left, right) = (left?.outcomes, right?.outcomes);
        ensure!(left.len() == right.len(), "not the same questions were asked");
        let mut differences = 0;
        for (ours, theirs) in left.iter().zip(&right) {
            if self.verbose {
                println!("{:60} {:40} {}", ours.question, ours.answer, theirs.answer);
            }
            // A deviation that is gone should go from the documents as well.
            let deviates = self.left != self.right && DEVIATIONS.contains(&ours.question.as_str());
            if (ours.answer == theirs.answer) == deviates {
                differences += 1;
                let (left, right) = (self.left.name(), self.right.name());
                println!(
                    "DIFFERENCE: {}: {left} {:?}, {right} {:?}",
                    ours.question, ours.answer, theirs.answer
                );
            }
        }
        println!("tls: {} answers, {differences} differ; {:.1}s", left.len(), begun.elapsed().as_secs_f64());
        ensure!(differences == 0, "{differences} answers differ");
        rotation::run()?;
        println!("tls: {:.1}s", begun.elapsed().as_secs_f64());
        Ok(())
    }
}
