//! Arbitrary text as the description of columns, which is read back as it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_trace::Mapping;

fuzz_target!(|text: &str| {
    if let Ok(mapping) = text.parse::<Mapping>() {
        let _result = mapping.clone().with_layout("<IQIB");
        let _result = mapping.clone().with_ops(text);
        assert!(!mapping.to_string().is_empty());
    }
});
