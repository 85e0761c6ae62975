//! TLS: failed handshakes, replaced files, and expiry of certificates. etcd has no names for these.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use super::text::{Text, Type};
use crate::tls::{Reason, Tls};

/// All TLS endpoints.
#[derive(Debug, Default)]
pub struct TlsMetrics {
    endpoints: Mutex<Vec<Arc<Tls>>>,
}

impl TlsMetrics {
    /// Adds one, unless it is there already because it serves another listener too.
    pub(crate) fn include(&self, tls: &Arc<Tls>) {
        let mut endpoints = self.endpoints.lock();
        if !endpoints.iter().any(|known| Arc::ptr_eq(known, tls)) {
            endpoints.push(tls.clone());
        }
    }

    /// Nothing at all where no TLS is served.
    pub(super) fn write(&self, page: &mut Text) {
        let endpoints = self.endpoints.lock();
        let Some(first_end) = endpoints.iter().map(|tls| tls.not_after()).min() else { return };
        let name = "vetch_tls_handshake_failures_total";
        page.heading(name, Type::Counter, "TLS handshakes that failed, by reason.");
        for reason in Reason::ALL {
            let count: u64 = endpoints.iter().map(|tls| tls.failures.count(reason)).sum();
            page.sample(name, &[("reason", reason.label())], count as f64);
        }
        let name = "vetch_tls_reloads_total";
        page.heading(name, Type::Counter, "Replaced TLS files, by whether they could be used.");
        let taken: u64 = endpoints.iter().map(|tls| tls.reloads.taken.load(Relaxed)).sum();
        let refused: u64 = endpoints.iter().map(|tls| tls.reloads.refused.load(Relaxed)).sum();
        page.sample(name, &[("result", "taken")], taken as f64);
        page.sample(name, &[("result", "refused")], refused as f64);
        let current = endpoints.iter().all(|tls| tls.is_up_to_date());
        let help = "1 while the TLS files as they are now are the ones in use.";
        page.gauge("vetch_tls_files_current", help, f64::from(u8::from(current)));
        let help = "Unix time at which the first of the server's own certificates expires.";
        page.gauge("vetch_tls_certificate_not_after_seconds", help, first_end as f64);
    }
}
