//! An arbitrary journal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_fuzz::flash::Part;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::flash::part(Part::Journal, bytes));
