//! Arbitrary bytes as a compiled trace that is mapped.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::mapped::open(bytes));
