//! Logarithmic buckets of whole numbers.
//!
//! Small numbers have a bucket each; above, each octave has `1 << BITS` buckets of equal width, as in HDR
//! histograms. Only shifts are needed, so every platform agrees on the bucket of a number.

use std::ops::RangeInclusive;

/// Numbers above this one share its bucket.
pub(super) const GREATEST: u64 = (1 << 40) - 1;

/// The number of a bucket.
pub(super) type Code = u16;

/// Return the bucket of a number.
#[expect(clippy::cast_possible_truncation, reason = "40 octaves of at most 16 buckets")]
pub(super) const fn code<const BITS: u32>(number: u64) -> Code {
    let number = if number > GREATEST { GREATEST } else { number };
    if number < 2 << BITS {
        return number as Code;
    }
    let shift = number.ilog2() - BITS;
    ((shift << BITS) + (number >> shift) as u32) as Code
}

/// Return the number of buckets.
pub(super) const fn codes<const BITS: u32>() -> Code {
    code::<BITS>(GREATEST) + 1
}

/// Return the numbers of a bucket.
pub(super) fn numbers<const BITS: u32>(code: Code) -> RangeInclusive<u64> {
    let code = u64::from(code);
    if code < 2 << BITS {
        return code..=code;
    }
    let shift = (code >> BITS) - 1;
    let top = code - (shift << BITS);
    top << shift..=((top + 1) << shift) - 1
}

/// The whole part of a number, 0 if there is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and what is not a number is 0"
)]
pub(super) const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another() {
        let mut next = 0;
        for code in 0..codes::<2>() {
            let range = numbers::<2>(code);
            assert_eq!(*range.start(), next, "bucket {code}");
            next = range.end() + 1;
        }
        assert_eq!(next, GREATEST + 1);
        assert_eq!(numbers::<2>(7), 7..=7);
        assert_eq!(numbers::<2>(8), 8..=9);
        assert_eq!(numbers::<4>(31), 31..=31);
        assert_eq!(numbers::<4>(32), 32..=33);
    }

    proptest! {
        #[test]
        fn a_number_is_in_its_bucket(shift in 0_u32..40, low in any::<u64>()) {
            let number = low & ((2 << shift) - 1) & GREATEST;
            prop_assert!(numbers::<2>(code::<2>(number)).contains(&number));
            prop_assert!(numbers::<4>(code::<4>(number)).contains(&number));
        }
    }
}
