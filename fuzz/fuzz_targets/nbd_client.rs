//! Arbitrary bytes as what an NBD server sends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::nbd::listen(bytes));
