//! Sizes as programs for people print them.

/// The meaning of the units of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Every unit is a power of 1024, as in bcache and ZFS.
    Binary,
    /// A capital letter is a power of 1000, as in lvm; `s` is a sector of 512 bytes.
    Lvm,
}

/// Parse a size such as `4096`, `512.0k` or `<1.50g` to bytes, rounded down.
pub(crate) fn bytes(text: &str, units: Units) -> Option<u64> {
    let text = text.trim();
    let text = if units == Units::Lvm { text.strip_prefix('<').unwrap_or(text) } else { text };
    let digits = text.find(|character: char| !matches!(character, '0'..='9' | '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Longer fractions say nothing about bytes.
    if fraction.contains('.') || fraction.len() > 18 || whole.is_empty() {
        return None;
    }
    let unit = self::unit(unit, units)?;
    let mut bytes = whole.parse::<u128>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        let power = 10_u32.checked_pow(u32::try_from(fraction.len().min(9)).ok()?)?;
        let fraction = fraction.get(..fraction.len().min(9))?;
        bytes += fraction.parse::<u128>().ok()? * unit / u128::from(power);
    }
    u64::try_from(bytes).ok()
}

fn unit(text: &str, units: Units) -> Option<u128> {
    let mut characters = text.chars();
    let Some(letter) = characters.next() else { return Some(1) };
    if !matches!(characters.as_str(), "" | "B" | "iB") {
        return None;
    }
    let power = match letter.to_ascii_lowercase() {
        'b' if text.len() == 1 => return Some(1),
        's' if text.len() == 1 && units == Units::Lvm => return Some(512),
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        'p' => 5,
        'e' => 6,
        _ => return None,
    };
    let is_decimal = units == Units::Lvm && letter.is_ascii_uppercase() && text.len() == 1;
    Some(if is_decimal { 1000_u128 } else { 1024 }.pow(power))
}

/// Write a size with the largest unit that keeps it exact, as in `512k`.
///
/// lvm, bcache and make-bcache read it as it is meant.
pub(crate) fn exact(bytes: u64) -> String {
    for (shift, letter) in [(40, 't'), (30, 'g'), (20, 'm'), (10, 'k')] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{letter}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Write a size for a sentence, as in `512 KiB`.
pub(crate) fn spelled(bytes: u64) -> String {
    let exact = exact(bytes);
    match exact.split_at(exact.len() - 1) {
        (number, letter @ ("k" | "m" | "g" | "t")) => {
            format!("{number} {}iB", letter.to_uppercase())
        }
        _ => format!("{exact} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_their_program() {
        for (text, size) in [
            ("0", 0),
            ("4096", 4096),
            ("512.0k", 512 << 10),
            ("4.0M", 4 << 20),
            ("1.5G", 3 << 29),
            ("477G", 477 << 30),
            ("16KiB", 16 << 10),
        ] {
            assert_eq!(bytes(text, Units::Binary), Some(size), "{text}");
        }
        for (text, size) in [
            ("64.00k", 64 << 10),
            ("65536B", 65536),
            ("128s", 65536),
            ("<1.50g", 3 << 29),
            ("2K", 2000),
        ] {
            assert_eq!(bytes(text, Units::Lvm), Some(size), "{text}");
        }
        for text in
            ["", "k", ".5k", "1..2k", "1.2.3", "-4k", "4x", "4kk", "9e", "99999999999E", "4 k"]
        {
            // Nine exbibytes still have a number.
            assert_eq!(bytes(text, Units::Binary).is_some(), text == "9e", "{text}");
        }
    }

    #[test]
    fn a_sentence_has_a_size_with_its_unit() {
        let sizes = [0, 1000, 512 << 10, 50 << 30].map(spelled);
        assert_eq!(sizes, ["0 bytes", "1000 bytes", "512 KiB", "50 GiB"]);
    }

    #[test]
    fn an_exact_size_is_read_back() {
        for size in [0, 1, 4095, 4096, 65536, 3 << 29, 50 << 30, u64::MAX] {
            assert_eq!(bytes(&exact(size), Units::Lvm), Some(size), "{size}");
        }
    }
}
