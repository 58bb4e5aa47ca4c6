//! A logarithm in whole numbers, and its inverse.
//!
//! The logarithm to base 2 is exact at powers of two and linear between them (Mitchell, *Computer
//! Multiplication and Division Using Binary Logarithms*, IRE Trans. Electronic Computers, 1962). It is
//! at most 0.09 too small. Regression needs no more: [`power`] undoes exactly what [`log`] does.

/// Bits after the binary point of a logarithm.
const FRACTION_BITS: u32 = 16;
/// Bits after the binary point of a class.
const CLASS_BITS: u32 = 3;

/// The number of classes of a feature.
pub const CLASSES: usize = 256;

/// Return the logarithm of `value + 1` in units of 2^-16, rounded down; at most 32 * 2^16.
#[inline]
pub const fn log(value: u32) -> u32 {
    let successor = value as u64 + 1;
    let whole = successor.ilog2();
    let rest = successor - (1 << whole);
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of 16 bits")]
    let fraction = ((rest << FRACTION_BITS) >> whole) as u32;
    (whole << FRACTION_BITS) + fraction
}

/// Return the number whose [logarithm](log) this is, rounded down; the greatest number, if it is
/// less.
#[inline]
pub const fn power(log: u32) -> u32 {
    let whole = log >> FRACTION_BITS;
    if whole >= u32::BITS {
        return u32::MAX;
    }
    let one = 1_u32 << FRACTION_BITS;
    let mantissa = (one + (log & (one - 1))) as u64;
    #[expect(clippy::cast_possible_truncation, reason = "below 2^32, as the logarithm is below 32")]
    let successor = ((mantissa << whole) >> FRACTION_BITS) as u32;
    successor - 1
}

/// Return the class of a feature: its [logarithm](log) in eighths, so that values of a class differ
/// by at most 12.5 %.
#[inline]
pub const fn class(value: u32) -> u8 {
    let class = log(value) >> (FRACTION_BITS - CLASS_BITS);
    #[expect(clippy::cast_possible_truncation, reason = "the greatest value joins the last class")]
    let class = if class as usize >= CLASSES { u8::MAX } else { class as u8 };
    class
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn powers_of_two_have_whole_logarithms() {
        assert_eq!([0, 1, 3, 7, u32::MAX].map(log), [0, 1, 2, 3, 32].map(|whole| whole << 16));
        assert_eq!(log(2), (1 << 16) + (1 << 15));
        assert_eq!([0, 1, 2, 3, 4].map(class), [0, 8, 12, 16, 18]);
        assert_eq!([u32::MAX / 2 - 1, u32::MAX - 1, u32::MAX].map(class), [247, 255, 255]);
        assert_eq!(
            [0, 1 << 16, 31 << 16, 32 << 16, u32::MAX].map(power),
            [0, 1, (1 << 31) - 1, u32::MAX, u32::MAX]
        );
    }

    proptest! {
        #[test]
        fn a_power_undoes_a_logarithm(value in any::<u32>(), other in any::<u32>()) {
            let found = power(log(value));
            prop_assert!(found <= value && value - found <= value >> 16, "{value}: {found}");
            prop_assert_eq!(log(value) <= log(other), log(value).max(log(other)) == log(other));
            prop_assert!(value > other || (log(value) <= log(other) && class(value) <= class(other)));
            let exact = (f64::from(value) + 1.0).log2() - f64::from(log(value)) / 65_536.0;
            prop_assert!((0.0..0.0861).contains(&(exact - 1e-9).max(0.0)), "{exact}");
        }
    }
}
