//! Arbitrary bytes, perhaps compressed, as a trace of any format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::read(None, bytes));
