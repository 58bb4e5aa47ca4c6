//! The size of a tier, as users write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thermocline_core::registry::CAPACITY_PAGES_MAX;
use thermocline_trace::{CompiledTrace, SampledTrace};

use crate::LabError;

/// The size of a tier before the trace is known.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub enum TierSize {
    /// A number of bytes: `64MiB`, `64M`, `67108864`; `64MB` is 64,000,000.
    Bytes(f64),
    /// A number of pages: `100p`.
    Pages(f64),
    /// A share of the trace's footprint in percent: `5%`.
    FootprintPercent(f64),
    /// A multiple of the tier above: `4x`.
    TimesAbove(f64),
}

/// Pages of a trace, to which sizes in other units than pages refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePages {
    /// Bytes of a page.
    pub page_size_bytes: u64,
    /// Distinct pages.
    pub footprint_pages: u32,
}

impl From<&CompiledTrace> for TracePages {
    fn from(trace: &CompiledTrace) -> Self {
        let (page_size_bytes, footprint_pages) = (trace.page_size_bytes(), trace.footprint_pages());
        Self { page_size_bytes, footprint_pages }
    }
}

impl From<&SampledTrace> for TracePages {
    fn from(trace: &SampledTrace) -> Self {
        let (page_size_bytes, footprint_pages) = (trace.page_size.bytes(), trace.footprint_pages);
        Self { page_size_bytes, footprint_pages }
    }
}

/// The prefixes of units of bytes, each 1024 times (or 1000 times) the one before.
const PREFIXES: [char; 4] = ['k', 'm', 'g', 't'];

impl TierSize {
    /// Return the size in whole pages, rounded down.
    ///
    /// # Errors
    /// If a multiple has no tier above, bytes are less than a page, or a tier cannot hold that many
    /// pages.
    pub fn pages(
        self,
        tier: &str,
        page_size_bytes: u64,
        footprint_pages: u32,
        above_pages: Option<u32>,
    ) -> Result<u32, LabError> {
        let pages = match self {
            Self::Bytes(bytes) if bytes > 0.0 && bytes < page_size_bytes as f64 => {
                let (tier, size) = (tier.into(), self);
                return Err(LabError::LessThanPage { tier, size, page_size_bytes });
            }
            Self::Bytes(bytes) => bytes / page_size_bytes as f64,
            Self::Pages(pages) => pages,
            Self::FootprintPercent(percent) => f64::from(footprint_pages) * percent / 100.0,
            Self::TimesAbove(times) => {
                let above =
                    above_pages.ok_or_else(|| LabError::NothingAbove { tier: tier.into() })?;
                f64::from(above) * times
            }
        };
        if pages > f64::from(CAPACITY_PAGES_MAX) {
            let max_pages = CAPACITY_PAGES_MAX;
            return Err(LabError::TierTooLarge {
                tier: tier.into(),
                size: self,
                pages: pages.floor(),
                max_pages,
            });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes are not negative, and the limit was just checked"
        )]
        Ok(pages as u32)
    }
}

impl TierSize {
    /// Return a size in bytes as a whole number; `None` for a size in any other unit.
    pub fn whole_bytes(self) -> Option<u64> {
        let Self::Bytes(bytes) = self else { return None };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes are not negative; a size that is too large saturates"
        )]
        let bytes = bytes as u64;
        Some(bytes)
    }
}

impl FromStr for TierSize {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let bad_size = || LabError::BadSize { text: text.into() };
        let digits = text.rfind(|letter: char| letter.is_ascii_digit()).ok_or_else(bad_size)?;
        let (number, unit) = text.split_at(digits + 1);
        let number: f64 = number.parse().map_err(|_| bad_size())?;
        if !number.is_finite() || number < 0.0 {
            return Err(bad_size());
        }
        Ok(match unit.trim_start() {
            "p" if number.fract() > 0.0 => return Err(bad_size()),
            "p" => Self::Pages(number),
            "%" => Self::FootprintPercent(number),
            "x" => Self::TimesAbove(number),
            "" if number == 0.0 => Self::Pages(0.0),
            unit => Self::Bytes(number * bytes_of(unit).ok_or_else(bad_size)?),
        })
    }
}

/// Return the number of bytes of a unit, in either case: `k` and `KiB` are 1024, `kB` is 1000, none
/// is 1.
fn bytes_of(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, rest) = match unit.chars().next() {
        None | Some('b') => (None, &*unit),
        Some(prefix) => (Some(prefix), &unit[prefix.len_utf8()..]),
    };
    let Some(prefix) = prefix else { return matches!(rest, "" | "b").then_some(1.0) };
    let power = 1 + PREFIXES.iter().position(|&known| known == prefix)?;
    let base: f64 = match rest {
        "" | "i" | "ib" => 1024.0,
        "b" => 1000.0,
        _ => return None,
    };
    Some((0..power).map(|_| base).product())
}

impl fmt::Display for TierSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => {
                let units = ["TiB", "GiB", "MiB", "KiB"].map(|unit| (unit, bytes_of(unit)));
                let whole = units.into_iter().find_map(|(unit, factor)| {
                    let number = bytes / factor?;
                    (number >= 1.0 && number.fract() == 0.0).then_some((number, unit))
                });
                let (number, unit) = whole.unwrap_or((bytes, "B"));
                write!(f, "{number}{unit}")
            }
            Self::Pages(pages) => write!(f, "{pages}p"),
            Self::FootprintPercent(percent) => write!(f, "{percent}%"),
            Self::TimesAbove(times) => write!(f, "{times}x"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(text: &str) -> Result<u32, LabError> {
        text.parse::<TierSize>()?.pages("flash", 8192, 1000, Some(30))
    }

    #[test]
    fn sizes_are_whole_pages_rounded_down() {
        for (text, expected) in [
            ("64MiB", 8192),
            ("8KiB", 1),
            ("8193B", 1),
            ("1.5GiB", 196_608),
            ("5%", 50),
            ("0.05%", 0),
            ("100%", 1000),
            ("4x", 120),
            ("0.5x", 15),
            ("100p", 100),
            ("0", 0),
            ("0p", 0),
            ("64M", 8192),
            ("64m", 8192),
            ("64 MiB", 8192),
            ("64MB", 7812),
            ("64mb", 7812),
            ("67108864", 8192),
            ("1.5g", 196_608),
            ("8k", 1),
            ("8Ki", 1),
            ("1T", 134_217_728),
        ] {
            assert_eq!(pages(text).unwrap(), expected, "{text}");
            let size: TierSize = text.parse().unwrap();
            assert_eq!(size.to_string().parse::<TierSize>().unwrap(), size, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_would_be() {
        for text in [
            "", "MiB", "-1p", "-1", "1.5p", "nanp", "inf%", "64Mb/s", "4X", "1e400p", "64Q",
            "64\u{e9}", "6 4M",
        ] {
            let error = pages(text).unwrap_err().to_string();
            assert!(error.contains("64MiB"), "{text}: {error}");
        }
        for text in ["64", "8191B"] {
            let error = pages(text).unwrap_err().to_string();
            assert!(error.contains("less than a page of 8192 bytes: write"), "{error}");
        }
        let refused = |text| pages(text).unwrap_err().to_string();
        assert!(refused("1e300p").ends_with("the number is too large"));
        assert!(refused("1e300").ends_with("take a smaller size, or larger pages"));
        let first = "4x".parse::<TierSize>().unwrap().pages("ram", 4096, 10, None);
        assert!(first.unwrap_err().to_string().contains("first one"));
    }
}
