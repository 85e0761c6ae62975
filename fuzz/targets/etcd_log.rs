#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vetch_fuzz::etcd_log::run(data));
