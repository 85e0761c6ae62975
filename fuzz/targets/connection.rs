#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vetch_fuzz::connection::run(data));
