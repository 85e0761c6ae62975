//! A whole connection: a client that keeps to the rules and cancels, stalls and reads as it likes;
//! services that answer at once, later, in pieces or never. Every byte is a decision; see
//! `vetch_http2::simulation`.

pub fn run(data: &[u8]) {
    // Longer ones say nothing that shorter ones do not, and take long.
    let _ = vetch_http2::simulation::run(&data[..data.len().min(700)]);
}
