//! MQSim ASCII.
//!
//! * Line: `time device sector sectors type`: the columns and codes of
//!   [`ssdsim`](super::ssdsim), 0 is a write and 1 a read.
//! * Units: nanoseconds unless told otherwise, sectors of 512 B.
//! * Volume: the device number.
//! * Source: Tavakkol et al., *MQSim: A Framework for Enabling Realistic Studies of Modern
//!   Multi-Queue SSD Devices*, FAST '18, and the trace reader of its published code.

use super::options::{ReadOptions, TimeUnit};
use super::ssdsim::{Ssdsim, time_unit};
use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::error::Reason;
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format {
    extensions: &["mqsim", "trace"],
    ..Format::new("mqsim", Recognition::Lines(recognising), |_, options| {
        Box::new(Lines(Mqsim::new(options)))
    })
};

#[derive(Debug)]
struct Mqsim(Ssdsim);

impl Mqsim {
    fn new(options: &ReadOptions) -> Self {
        Self(Ssdsim::new(options.time_unit.unwrap_or(TimeUnit::Nanoseconds)))
    }
}

/// Times that are not whole nanoseconds are those of `ssdsim`.
fn recognising(sample: &[u8], options: &ReadOptions) -> Option<Box<dyn TextFormat>> {
    let is_whole = time_unit(sample, options) == TimeUnit::Nanoseconds;
    is_whole.then(|| Box::new(Mqsim::new(options)) as Box<dyn TextFormat>)
}

impl TextFormat for Mqsim {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        self.0.line(line, volumes)
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Mqsim;
    use crate::format::test_support::{bytes, check, check_error, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        check(
            Mqsim,
            "938513000 4 264 16 0\n938828000 3 8 32 1\n",
            &[
                bytes(135_168, 8192).at(938_513_000, Write, 0),
                read(938_828_000, 1, bytes(4096, 16_384)),
            ],
        );
        check_error(Mqsim, "1.5 0 8 1 0\n", "not whole");
    }
}
