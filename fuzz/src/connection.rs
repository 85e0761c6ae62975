//! A whole connection: a client that keeps to the rules and cancels, stalls and reads as it likes;
//! services that answer at once, later, in pieces or never. Every byte is a decision; see
//! `vetch_http2::simulation`.

/// Above the longest answer of these services, and the buffer that it is in.
const ALLOCATION_MAX: usize = 40 << 20;

pub fn run(data: &[u8]) {
    crate::alloc::allow(ALLOCATION_MAX);
    // Longer ones say nothing that shorter ones do not, and take long.
    let _ = vetch_http2::simulation::run(&data[..data.len().min(700)]);
}
