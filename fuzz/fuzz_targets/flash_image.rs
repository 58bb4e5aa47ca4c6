//! Arbitrary bytes on a flash.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::flash::image(bytes));
