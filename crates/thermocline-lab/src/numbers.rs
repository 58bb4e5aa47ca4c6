//! Formats of numbers.

/// Return a number with its thousands apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Return the bytes in the greatest binary unit that keeps at least one before the point.
pub fn byte_size(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 10.0 && value.fract() > 0.0);
    format!("{value:.decimals$} {}", units[unit])
}

/// Format a number with at least four significant digits: prices may be of any size.
pub(crate) fn four_digits(value: f64) -> String {
    if value <= 0.0 {
        return "0".into();
    }
    let decimals = (0..12_u8).find(|&decimals| value * 10_f64.powi(decimals.into()) >= 1000.0);
    format!("{value:.0$}", usize::from(decimals.unwrap_or(12)))
}

pub(crate) fn three_decimals(value: f64) -> String {
    format!("{value:.3}")
}

pub(crate) fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

pub(crate) fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the figure was a count before it became a number"
)]
pub(crate) fn whole(value: f64) -> String {
    grouped(value as u64)
}

/// Days per year.
pub(crate) const DAYS_PER_YEAR: f64 = 365.25;

/// Return a time in words: in years, months, days or hours, whichever is the first with at least
/// one.
pub(crate) fn years_in_words(years: f64) -> String {
    let days = years * DAYS_PER_YEAR;
    match days {
        _ if years >= 100.0 => format!("{} years", whole(years)),
        _ if years >= 1.0 => format!("{years:.1} years"),
        30.5.. => format!("{:.1} months", years * 12.0),
        1.0.. => format!("{days:.1} days"),
        _ => format!("{:.1} hours", days * 24.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn prices_of_any_size_have_four_digits() {
        for (value, expected) in
            [(1234.6, "1235"), (12.346, "12.35"), (0.02, "0.02000"), (0.000_064_321, "0.00006432")]
        {
            assert_eq!(four_digits(value), expected);
        }
        assert_eq!(four_digits(0.0), "0");
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(byte_size(1023), "1023 B");
        assert_eq!(byte_size(1536), "1.5 KiB");
        assert_eq!(byte_size(8192), "8 KiB");
        assert_eq!(byte_size(300 << 20), "300 MiB");
        assert_eq!(byte_size(u64::MAX), "16 EiB");
    }

    #[test]
    fn times_have_units_that_say_something() {
        let all = [0.0001, 0.01, 0.5, 4.0, 4321.0].map(years_in_words);
        assert_eq!(all, ["0.9 hours", "3.7 days", "6.0 months", "4.0 years", "4,321 years"]);
    }
}
