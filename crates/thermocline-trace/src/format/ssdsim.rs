//! SSDsim and DiskSim ASCII.
//!
//! * Line: `time device sector sectors op`, separated by blanks.
//! * Units: sectors of 512 B. SSDsim counts time in nanoseconds and DiskSim in fractional
//!   milliseconds: unless told, a sample with a fractional time is taken for milliseconds, any
//!   other for nanoseconds. Whole microseconds or milliseconds must be told.
//! * Op: 0 is a write, 1 a read (DiskSim's read flag; SSDsim's and MQSim's codes are equal).
//! * Volume: the device number.
//! * Source: Hu et al., *Performance Impact and Interplay of SSD Parallelism*, ICS '11 (SSDsim);
//!   Bucy et al., *The DiskSim Simulation Environment*, CMU-PDL-08-101.

use thermocline_core::{Nanos, Op};

use super::options::{ReadOptions, TimeUnit};
use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, integer, sectors, time};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format {
    alias: Some("disksim"),
    extensions: &["ssdsim", "disksim", "disksim-ms", "ascii"],
    ..Format::new(
        "ssdsim",
        Recognition::Lines(|sample, options| {
            Some(Box::new(Ssdsim::new(time_unit(sample, options))))
        }),
        |sample, options| Box::new(Lines(Ssdsim::new(time_unit(sample, options)))),
    )
};

#[derive(Debug)]
pub(super) struct Ssdsim {
    unit: TimeUnit,
}

impl Ssdsim {
    pub(super) const fn new(unit: TimeUnit) -> Self {
        Self { unit }
    }
}

impl TextFormat for Ssdsim {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let at = fields.word("time")?;
        if self.unit == TimeUnit::Nanoseconds && at.contains(&b'.') {
            return Err("a time in nanoseconds is not whole; name the time unit".into());
        }
        let at = Nanos(time(at, "time", self.unit.exponent())?);
        let device = fields.word("device")?;
        integer(device, "device")?;
        let first = integer(fields.word("sector")?, "sector")?;
        let count = integer(fields.word("size")?, "size")?;
        let op = match fields.word("op")? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return Err("the op is neither 0 (write) nor 1 (read)".into()),
        };
        fields.end()?;
        let volume = volumes.number(device);
        Ok(Line::Request(Request { at, op, volume, extent: sectors(first, count)? }))
    }
}

/// Return the time unit that the options name; otherwise milliseconds if any line of the sample
/// begins with a fractional number, and nanoseconds if none does.
pub(super) fn time_unit(sample: &[u8], options: &ReadOptions) -> TimeUnit {
    if let Some(unit) = options.time_unit {
        return unit;
    }
    let is_fractional = |line: &[u8]| {
        let line = line.trim_ascii_start();
        let digits = line.iter().position(|byte| !byte.is_ascii_digit());
        digits.is_some_and(|digits| digits > 0 && line[digits] == b'.')
    };
    if sample.split(|&byte| byte == b'\n').any(is_fractional) {
        TimeUnit::Milliseconds
    } else {
        TimeUnit::Nanoseconds
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Ssdsim;
    use crate::format::test_support::{bytes, check, check_error, read};
    use crate::{ReadOptions, Reader, Requests, TimeUnit};
    use std::io::Cursor;
    use thermocline_core::Op::Write;

    #[test]
    fn whole_times_are_nanoseconds_and_fractional_ones_milliseconds() {
        check(
            Ssdsim,
            "0 3 8 1 0\n70 0 1 2 1\n",
            &[bytes(4096, 512).at(0, Write, 0), read(70, 1, bytes(512, 1024))],
        );
        check(
            Ssdsim,
            "0 3 8 1 0\n1.00025 3 8 1 0\n",
            &[bytes(4096, 512).at(0, Write, 0), bytes(4096, 512).at(1_000_250, Write, 0)],
        );
    }

    #[test]
    fn the_time_unit_can_be_told() {
        let time_unit = Some(TimeUnit::Microseconds);
        let options = ReadOptions { time_unit, ..ReadOptions::default() };
        let mut reader = Reader::from_read("t", Cursor::new("7 0 8 1 0\n"), &options).unwrap();
        let mut batch = Vec::new();
        assert!(reader.read_batch(&mut batch).unwrap());
        assert_eq!(batch, [bytes(4096, 512).at(7_000, Write, 0)]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Ssdsim, "0 0 8 1 2\n", "neither 0 (write) nor 1 (read)");
        check_error(Ssdsim, "0 0 8 1\n", "the op is missing");
        check_error(Ssdsim, "0 0 8 1 0 0\n", "too many fields");
    }
}
