//! Arbitrary bytes as a `columns` trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_trace::FormatName;

fuzz_target!(|bytes: &[u8]| thermocline_fuzz::read(Some(FormatName::Columns), bytes));
