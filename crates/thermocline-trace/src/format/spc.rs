//! SPC ASCII, the format of the University of Massachusetts' traces Financial1, Financial2 and WebSearch.
//!
//! * Line: `asu,lba,size,opcode,timestamp[,...]`; further fields are optional in the format and
//!   ignored.
//! * Units: `lba` in sectors of 512 B, `size` in bytes, `timestamp` in seconds from the start.
//! * Op: `r` or `R`, `w` or `W`.
//! * Volume: the application storage unit `asu`.
//! * Source: Storage Performance Council, *SPC I/O Traces*, trace file format specification 1.0.1.

use thermocline_core::Nanos;

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, bytes, integer, letter_op, sector_offset, time};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format::text::<Spc>("spc");

#[derive(Debug, Default)]
struct Spc;

impl TextFormat for Spc {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let unit = fields.until(b',', "ASU")?;
        integer(unit, "ASU")?;
        let sector = integer(fields.until(b',', "LBA")?, "LBA")?;
        let length = integer(fields.until(b',', "size")?, "size")?;
        let op = letter_op(fields.until(b',', "opcode")?)?;
        let at = Nanos(time(fields.until(b',', "timestamp")?, "timestamp", 9)?);
        let extent = bytes(sector_offset(sector)?, length)?;
        Ok(Line::Request(Request { at, op, volume: volumes.number(unit), extent }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Spc;
    use crate::format::test_support::{bytes, check, check_error, read};
    use thermocline_core::Op::{Read, Write};

    #[test]
    fn lines_are_understood() {
        check(
            Spc,
            "3,8,1024,r,0.000001\n1,0,512,W,2.5,x,y\n3,9,512,w,3\n",
            &[
                read(1_000, 0, bytes(4096, 1024)),
                bytes(0, 512).at(2_500_000_000, Write, 1),
                bytes(4608, 512).at(3_000_000_000, Write, 0),
            ],
        );
        check(Spc, "0,0,0,R,0\n", &[bytes(0, 0).at(0, Read, 0)]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Spc, "0,1,512,r,0\n0,1,512,x,0\n", "line 2: the op is neither R nor W");
        check_error(Spc, "0,1,512,r\n", "line 1: the timestamp is missing: '0,1,512,r'");
        check_error(Spc, "0,1,-512,r,0\n", "the size is not an unsigned number");
        check_error(Spc, "a,1,512,r,0\n", "the ASU is not");
        check_error(Spc, "0,99999999999999999999,512,r,0\n", "the LBA is too large");
        check_error(Spc, "0,18446744073709551615,512,r,0\n", "beyond 2^63 bytes");
        check_error(Spc, "0,0,68719476737,r,0\n", "longer than 64 GiB");
    }
}
