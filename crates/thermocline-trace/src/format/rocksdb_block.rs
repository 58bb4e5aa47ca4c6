//! The block-cache traces of `RocksDB` in their human-readable form.
//!
//! * Line: 21 columns separated by commas, without a header: time, block, type, block size, column
//!   family, its name, level, file, caller, no insert, get, get key, referenced bytes, hit, key exists,
//!   keys in block, table, sequence number, size of the block's key, size of the key, offset in file; a
//!   simulator of `RocksDB` appends the next access.
//! * Units: microseconds, or nanoseconds if times are above 10^17; bytes.
//! * Type: 7 to 11. All are reads, also those of which `RocksDB` would not keep the block.
//! * Each block is an object of the size of the block and its key.
//! * Source: `RocksDB`'s documentation of its block-cache analysis tools.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<RocksdbBlock>("rocksdb-block");

struct RocksdbBlock;

impl Described for RocksdbBlock {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in("time=1:us-or-ns,key=2:integer,length=4,extra=19", "");
        Delimited::commas(vec![mapping], 21..=22, |cells, line| match cells.get(line, 2) {
            b"7" | b"8" | b"9" | b"10" | b"11" => Ok(()),
            _ => Err("the type of the block is none of 7 to 11".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::RocksdbBlock;
    use crate::format::test_support::{check, check_error, object, read};

    #[test]
    fn lines_are_understood() {
        let line =
            "1700000000000123,42,9,4096,0,default,2,17,1,0,501,9001,120,0,1,31,0,0,24,32,65536";
        let ns = "1700000000000123000,42,9,4096,0,default,2,17,1,0,501,9001,120,0,1,31,0,0,24,32,65536,7";
        let expected = read(1_700_000_000_000_123_000, 0, object(42, 0, 4120));
        check(RocksdbBlock, &format!("{line}\n{ns}\n"), &[expected, expected]);
        let other = line.replace(",9,4096", ",5,4096");
        check_error(RocksdbBlock, &other, "line 1: the type of the block is none of 7 to 11");
        check_error(RocksdbBlock, "1,2,9\n", "3 columns in place of 21 to 22");
    }
}
