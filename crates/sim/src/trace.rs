//! The trace: what happened in a run, line by line, for people and for comparing two runs of one
//! seed.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::time::Now;

/// Where lines go. Clones write to the same place.
#[derive(Clone)]
pub struct Trace {
    now: Arc<Now>,
    out: Option<Arc<Mutex<dyn Write + Send>>>,
}

impl Trace {
    /// A trace that is not kept.
    pub fn off(now: Arc<Now>) -> Trace {
        Trace { now, out: None }
    }

    pub fn to(now: Arc<Now>, out: Arc<Mutex<dyn Write + Send>>) -> Trace {
        Trace { now, out: Some(out) }
    }

    pub fn is_on(&self) -> bool {
        self.out.is_some()
    }

    pub fn line(&self, line: fmt::Arguments<'_>) {
        if let Some(out) = &self.out {
            let nanos = self.now.nanos();
            let (seconds, micros) = (nanos / 1_000_000_000, nanos / 1000 % 1_000_000);
            let mut out = out.lock().expect("nothing panics under this lock");
            // A reader that has gone away is no reason to end a run.
            writeln!(out, "{seconds:5}.{micros:06} {line}").ok();
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({})", self.is_on())
    }
}

/// Writes a line to a trace, if it is kept.
macro_rules! say {
    ($trace:expr, $($arg:tt)*) => {
        if $trace.is_on() {
            $trace.line(format_args!($($arg)*));
        }
    };
}
pub(crate) use say;
