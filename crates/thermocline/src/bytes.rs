//! Numbers of bytes as users write them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use thermocline_lab::TierSize;

/// A number of bytes: a number, or text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes are not negative, and far below 2^64"
            )]
            Ok(TierSize::Bytes(bytes)) if bytes < 1e18 => Ok(Self(bytes as u64)),
            _ => Err(format!("invalid size `{text}`: use a number of bytes, as in 64MiB")),
        }
    }
}

/// Read a number of bytes, or `None` if the word stands in its place; `meaning` goes on behind the word in an
/// error.
pub(crate) fn bytes_or_word<'de, D: Deserializer<'de>>(
    deserializer: D,
    word: &str,
    meaning: &str,
) -> Result<Option<Bytes>, D::Error> {
    let value = toml::Value::deserialize(deserializer)?;
    if value.as_str() == Some(word) {
        return Ok(None);
    }
    let bytes: Result<Bytes, toml::de::Error> = value.try_into();
    let explain = |error: toml::de::Error| format!("{}; or \"{word}\" {meaning}", error.message());
    bytes.map(Some).map_err(|error| de::Error::custom(explain(error)))
}

/// A range of bytes that is not empty: `OFFSET+LENGTH`, or `START-END` without the byte at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// Return the pages that have bytes of the range.
    pub(crate) fn pages(self, page_bytes: u64) -> Range<u64> {
        self.start / page_bytes..self.end.div_ceil(page_bytes)
    }
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let separator = text.find(['+', '-']);
        let (first, second) = separator.map(|at| (&text[..at], &text[at + 1..])).ok_or_else(|| {
            format!(
                "invalid range `{text}`: use OFFSET+LENGTH or START-END, as in 1GiB+64MiB or 1GiB-2GiB"
            )
        })?;
        // Sizes are above 0, and a range may begin at 0.
        let bytes = |text: &str| if text == "0" { Ok(Bytes(0)) } else { text.parse() };
        let [Bytes(start), Bytes(second)] = [bytes(first)?, bytes(second)?];
        let is_length = text.as_bytes().get(first.len()) == Some(&b'+');
        let end = if is_length { start.saturating_add(second) } else { second };
        if start >= end {
            return Err(format!("invalid range `{text}`: it has no byte"));
        }
        Ok(Self { start, end })
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start, self.end - self.start)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number of bytes, as in 4096 or \"64MiB\"")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value)
                    .map(Bytes)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(BytesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_length_or_an_end() {
        let range = |text: &str| text.parse::<ByteRange>();
        assert_eq!(range("4096+8192"), Ok(ByteRange { start: 4096, end: 12_288 }));
        assert_eq!(range("1GiB-2GiB"), Ok(ByteRange { start: 1 << 30, end: 2 << 30 }));
        assert_eq!(range("0-1MiB"), Ok(ByteRange { start: 0, end: 1 << 20 }));
        assert_eq!(range("1KiB+1").unwrap().to_string(), "1024+1");
        assert_eq!(range("1KiB+1").unwrap().pages(4096), 0..1);
        assert_eq!(range("4095-4097").unwrap().pages(4096), 0..2);
        for (text, part) in [
            ("4096", "use OFFSET+LENGTH or START-END"),
            ("4096+0", "it has no byte"),
            ("2GiB-1GiB", "it has no byte"),
            ("1GiB-", "invalid size ``"),
            ("x+1", "invalid size `x`"),
            ("-1+5", "invalid size ``"),
        ] {
            let error = range(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
