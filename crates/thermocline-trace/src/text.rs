//! Numbers, fields and times in the lines of text traces and recordings.

use thermocline_core::Op;

use crate::error::Reason;
use crate::request::{ADDRESS_BYTES_MAX, Extent, REQUEST_PAGES_MAX};

/// No request may be longer than this: the most pages of 4 KiB, 64 GiB.
const REQUEST_BYTES_MAX: u64 = REQUEST_PAGES_MAX << 12;

/// The unit of block addresses in nearly all formats, in bytes.
pub const SECTOR_BYTES: u64 = 512;

/// The name of the only volume of formats that do not name volumes.
pub(crate) const ONLY_VOLUME: &[u8] = b"0";

/// The part of a line that has not been taken yet.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Return the whole line, which has no line end.
    pub const fn new(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }

    /// Takes the text up to the next `separator` or the end of the line.
    ///
    /// # Errors
    /// If nothing is left; the reason names `field`.
    #[inline]
    pub fn until(&mut self, separator: u8, field: &'static str) -> Result<&'a [u8], Reason> {
        let Some(rest) = self.rest else { return Err(missing(field)) };
        match rest.iter().position(|&byte| byte == separator) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                Ok(&rest[..at])
            }
            None => {
                self.rest = None;
                Ok(rest)
            }
        }
    }

    /// Takes the next run of bytes that are neither blanks nor tabs.
    ///
    /// # Errors
    /// If there is none; the reason names `field`.
    #[inline]
    pub fn word(&mut self, field: &'static str) -> Result<&'a [u8], Reason> {
        let rest = self.rest.unwrap_or_default();
        let begin = rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len());
        let rest = &rest[begin..];
        let end = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        self.rest = Some(&rest[end..]);
        if end == 0 { Err(missing(field)) } else { Ok(&rest[..end]) }
    }

    /// Takes the last word, from the end of the line.
    ///
    /// # Errors
    /// If there is none; the reason names `field`.
    #[inline]
    pub fn last_word(&mut self, field: &'static str) -> Result<&'a [u8], Reason> {
        let rest = self.rest.unwrap_or_default();
        let end = rest.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |at| at + 1);
        let rest = &rest[..end];
        let begin = rest.iter().rposition(|byte| is_blank(*byte)).map_or(0, |at| at + 1);
        self.rest = Some(&rest[..begin]);
        if begin == end { Err(missing(field)) } else { Ok(&rest[begin..]) }
    }

    /// Return the remaining text, without the blanks around it.
    pub fn rest(&self) -> &'a [u8] {
        self.rest.unwrap_or_default().trim_ascii()
    }

    /// Checks that only blanks are left.
    ///
    /// # Errors
    /// If anything else is left.
    #[inline]
    pub fn end(&self) -> Result<(), Reason> {
        match self.rest {
            Some(rest) if !rest.trim_ascii().is_empty() => Err("too many fields".into()),
            _ => Ok(()),
        }
    }
}

/// Parses an unsigned whole number of at most 64 bits.
///
/// # Errors
/// If `text` is empty, has other characters than digits, or is too large; the reason names `field`.
#[inline]
pub fn integer(text: &[u8], field: &'static str) -> Result<u64, Reason> {
    if text.is_empty() {
        return Err(missing(field));
    }
    let mut value = 0_u64;
    if text.len() <= 19 {
        // 19 digits always fit.
        let (eights, rest) = text.as_chunks::<8>();
        for eight in eights {
            let digits = eight_digits(*eight).ok_or_else(|| not_a_number(field))?;
            value = value * 100_000_000 + digits;
        }
        for &byte in rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return Err(not_a_number(field));
            }
            value = value * 10 + u64::from(digit);
        }
        return Ok(value);
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(field));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit)))
            .ok_or_else(|| too_large(field))?;
    }
    Ok(value)
}

/// Return the number that eight digits write, all at once; `None` if one is no digit.
#[inline]
const fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROES: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(text);
    // A digit is 0x30 to 0x39: its high half is 3, and is so with 6 added. Nothing is carried into the
    // next byte if all high halves are 3.
    let is_digits =
        word & HIGH == ZEROES && word.wrapping_add(0x0606_0606_0606_0606) & HIGH == ZEROES;
    if !is_digits {
        return None;
    }
    // Neighbours become pairs, pairs fours, and fours the number; the first digit is the lowest byte.
    let digits = word - ZEROES;
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours & 0xffff) * 10_000 + (fours >> 32))
}

/// Parses an unsigned hexadecimal number of at most 64 bits with the prefix `0x`.
///
/// # Errors
/// If `text` is empty, has another form, or is too large; the reason names `field`.
#[inline]
pub(crate) fn hexadecimal_integer(text: &[u8], field: &'static str) -> Result<u64, Reason> {
    if text.is_empty() {
        return Err(missing(field));
    }
    let not_hexadecimal = || Reason::from(format!("the {field} is not hexadecimal"));
    let digits = text.strip_prefix(b"0x").filter(|digits| !digits.is_empty());
    let mut value = 0_u64;
    for &byte in digits.ok_or_else(not_hexadecimal)? {
        let digit = char::from(byte).to_digit(16).ok_or_else(not_hexadecimal)?;
        let shifted = value.checked_mul(16).ok_or_else(|| too_large(field))?;
        value = shifted + u64::from(digit);
    }
    Ok(value)
}

/// Parses a time whose unit is 10^`exponent` ns, as nanoseconds; digits below a nanosecond are cut.
///
/// # Errors
/// If `text` is not a decimal number, or more than 2^64 ns; the reason names `field`.
///
/// # Panics
/// If `exponent` is above 19.
#[inline]
pub fn time(text: &[u8], field: &'static str, exponent: u32) -> Result<u64, Reason> {
    let point = text.iter().position(|&byte| byte == b'.');
    let whole = integer(&text[..point.unwrap_or(text.len())], field)?;
    let unit_ns = 10_u64.pow(exponent);
    let ns = whole.checked_mul(unit_ns).ok_or_else(|| too_large(field))?;
    let Some(point) = point else { return Ok(ns) };
    let mut fraction_ns = 0;
    let mut digit_ns = unit_ns;
    for &byte in &text[point + 1..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(field));
        }
        digit_ns /= 10;
        fraction_ns += u64::from(digit) * digit_ns;
    }
    ns.checked_add(fraction_ns).ok_or_else(|| too_large(field))
}

/// Parses a date and time of RFC 3339, such as `2026-11-25T01:02:03.5+01:00`, as nanoseconds since
/// 1970; a blank may stand for the `T`, and no zone for UTC.
///
/// # Errors
/// If `text` has another form, or is not from 1970 to 2554.
pub(crate) fn rfc3339(text: &[u8]) -> Result<u64, Reason> {
    let wrong = || Reason::from("the time is not one of RFC 3339, such as 2026-11-25T01:02:03Z");
    let part = |begin: usize, end: usize| {
        text.get(begin..end).and_then(|digits| integer(digits, "time").ok()).ok_or_else(wrong)
    };
    let is = |at: usize, bytes: &[u8]| text.get(at).is_some_and(|byte| bytes.contains(byte));
    let is_formed = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let is_possible = (1970..=2554).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_formed || !is_possible {
        return Err(wrong());
    }
    let rest = &text[19..];
    let digits = rest
        .strip_prefix(b".")
        .map_or(0, |rest| 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let (fraction, zone) = rest.split_at(digits);
    let fraction = [b"0", fraction].concat();
    let fraction_ns = time(&fraction, "time", 9)?;
    let zone_s = match zone {
        b"" | b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), hours @ ..] if hours.len() == 5 && hours[2] == b':' => {
            let number = |digits| integer(digits, "time zone").map(u64::cast_signed);
            let zone_s = number(&hours[..2])? * 3600 + number(&hours[3..])? * 60;
            if *sign == b'+' { zone_s } else { -zone_s }
        }
        _ => return Err(wrong()),
    };
    // Days since 1970, in years that begin in March, so that the leap day is their last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day;
    // 719,469 is that of 1970-01-01.
    let days = (days - 1).checked_sub(719_468).ok_or_else(wrong)?;
    let seconds = (days * 86_400 + hour * 3600 + minute * 60 + second).cast_signed() - zone_s;
    let ns = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    ns.and_then(|ns| ns.checked_add(fraction_ns)).ok_or_else(wrong)
}

/// Return a first line without the mark that some programs put before UTF-8.
#[inline]
pub(crate) fn without_byte_order_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Return a byte extent, if it is a possible one.
#[inline]
pub(crate) fn bytes(offset: u64, length: u64) -> Result<Extent, Reason> {
    if length > REQUEST_BYTES_MAX {
        return Err("the request is longer than 64 GiB".into());
    }
    if offset > ADDRESS_BYTES_MAX - length {
        return Err("the address is beyond 2^63 bytes".into());
    }
    Ok(Extent::Bytes { offset, length })
}

/// Return the byte extent of `count` sectors from `first`, if it is a possible one.
#[inline]
pub(crate) fn sectors(first: u64, count: u64) -> Result<Extent, Reason> {
    bytes(sector_offset(first)?, count.saturating_mul(SECTOR_BYTES))
}

/// Return the start of a sector, in bytes.
#[inline]
pub(crate) fn sector_offset(sector: u64) -> Result<u64, Reason> {
    if sector > ADDRESS_BYTES_MAX / SECTOR_BYTES {
        return Err("the address is beyond 2^63 bytes".into());
    }
    Ok(sector * SECTOR_BYTES)
}

/// Return a page extent, if it is a possible one.
#[inline]
pub(crate) fn pages(first: u64, count: u64) -> Result<Extent, Reason> {
    if count > REQUEST_PAGES_MAX {
        return Err("the request is longer than 2^24 pages".into());
    }
    if first > ADDRESS_BYTES_MAX - count {
        return Err("the page number is beyond 2^63".into());
    }
    Ok(Extent::Pages { first, count })
}

/// Return a part of an object, if it is a possible one.
#[inline]
pub(crate) fn object(id: u64, offset: u64, length: u64) -> Result<Extent, Reason> {
    bytes(offset, length)?;
    Ok(Extent::Object { id, offset, length })
}

/// Return the page that stands for an object whatever its size.
#[inline]
pub(crate) fn page_of_object(id: u64) -> Result<Extent, Reason> {
    if id == u64::MAX {
        return Err("the object id is 2^64 - 1, which is reserved".into());
    }
    Ok(Extent::Pages { first: id, count: 1 })
}

/// Return the direction that a one-letter code stands for.
#[inline]
pub(crate) fn letter_op(text: &[u8]) -> Result<Op, Reason> {
    match text {
        b"r" | b"R" => Ok(Op::Read),
        b"w" | b"W" => Ok(Op::Write),
        _ => Err("the op is neither R nor W".into()),
    }
}

/// Return the direction that a whole word stands for.
#[inline]
pub(crate) fn word_op(text: &[u8]) -> Result<Op, Reason> {
    if text.eq_ignore_ascii_case(b"read") {
        Ok(Op::Read)
    } else if text.eq_ignore_ascii_case(b"write") {
        Ok(Op::Write)
    } else {
        Err("the op is neither Read nor Write".into())
    }
}

/// A volume name made of two fields, without allocating.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    text: [u8; 64],
    length: usize,
}

impl Joined {
    /// Parse a text line of `head`, `separator` and `tail`.
    pub(crate) fn new(head: &[u8], separator: u8, tail: &[u8]) -> Result<Self, Reason> {
        let mut text = [0; 64];
        let length = head.len() + 1 + tail.len();
        if length > text.len() {
            return Err("the volume's name is longer than 64 bytes".into());
        }
        text[..head.len()].copy_from_slice(head);
        text[head.len()] = separator;
        text[head.len() + 1..length].copy_from_slice(tail);
        Ok(Self { text, length })
    }

    /// Return the name.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Return `true` if a line has nothing but blanks.
pub(crate) fn is_blank_line(line: &[u8]) -> bool {
    line.iter().all(|&byte| is_blank(byte))
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cold]
fn missing(field: &'static str) -> Reason {
    format!("the {field} is missing").into()
}

#[cold]
fn not_a_number(field: &'static str) -> Reason {
    format!("the {field} is not an unsigned number").into()
}

#[cold]
fn too_large(field: &'static str) -> Reason {
    format!("the {field} is too large").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_agree_with_the_standard_library(text in "[0-9]{1,22}|[0-9 .x-]{0,6}") {
            let expected = text.bytes().all(|byte| byte.is_ascii_digit())
                .then(|| text.parse::<u64>().ok()).flatten();
            prop_assert_eq!(integer(text.as_bytes(), "n").ok(), expected);
        }

        #[test]
        fn a_byte_that_is_no_digit_is_found_wherever_it_stands(
            text in "[0-9]{1,22}",
            place in any::<prop::sample::Index>(),
            byte in any::<u8>().prop_filter("no digit", |byte| !byte.is_ascii_digit()),
        ) {
            let place = place.index(text.len());
            let mut text = text.into_bytes();
            text[place] = byte;
            prop_assert!(integer(&text, "n").is_err());
        }

        #[test]
        fn times_are_exact(seconds in 0_u64..1 << 32, ns in 0_u64..1_000_000_000) {
            let text = format!("{seconds}.{ns:09}");
            prop_assert_eq!(time(text.as_bytes(), "t", 9).unwrap(), seconds * 1_000_000_000 + ns);
        }
    }

    #[test]
    fn times_below_a_nanosecond_are_cut() {
        assert_eq!(time(b"1.9999", "t", 3).unwrap(), 1999);
        assert_eq!(time(b"7.9", "t", 0).unwrap(), 7);
        assert_eq!(time(b"7.", "t", 3).unwrap(), 7000);
        assert!(time(b".5", "t", 3).is_err());
        assert!(time(b"1.x", "t", 3).is_err());
        assert!(time(b"-1", "t", 3).is_err());
        assert!(time(b"18446744073710", "t", 9).is_err());
    }

    #[test]
    fn fields_are_taken_from_both_ends() {
        let mut fields = Fields::new(b" 1  a b\t2 ");
        assert_eq!(fields.word("x").unwrap(), b"1");
        assert_eq!(fields.last_word("x").unwrap(), b"2");
        assert_eq!(fields.rest(), b"a b");
        assert_eq!(fields.last_word("x").unwrap(), b"b");
        assert_eq!(fields.word("x").unwrap(), b"a");
        assert!(fields.word("x").is_err());
        assert!(fields.last_word("x").is_err());
        let mut fields = Fields::new(b"a,");
        assert_eq!(fields.until(b',', "x").unwrap(), b"a");
        assert_eq!(fields.until(b',', "x").unwrap(), b"");
        assert!(fields.until(b',', "x").is_err());
    }

    #[test]
    fn impossible_extents_are_refused() {
        assert!(bytes(ADDRESS_BYTES_MAX, 0).is_ok());
        assert!(bytes(ADDRESS_BYTES_MAX, 1).is_err());
        assert!(bytes(u64::MAX, 0).is_err());
        assert!(bytes(0, REQUEST_BYTES_MAX + 1).is_err());
        assert!(sectors(u64::MAX, 1).is_err());
        assert!(sectors(0, u64::MAX).is_err());
        assert!(pages(u64::MAX, 1).is_err());
        assert!(pages(0, REQUEST_PAGES_MAX + 1).is_err());
    }
}
