//! `[limits]`: limits of requests and of undurable pages.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::Config;
use crate::bytes::{Bytes, bytes_or_word};

/// Length of a sequential stream that a cache with a flash leaves uncached by default. It saves I/O time and
/// flash writes on average over the workloads of `cargo xtask bench -- bypass`.
const SEQUENTIAL_BYPASS: Bytes = Bytes(1 << 20);

/// The section.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) undurable: Option<Bytes>,
    pub(super) sequential_bypass: Option<SequentialBypass>,
}

/// Sequential streams that are left uncached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequentialBypass {
    Never,
    /// Those that are longer than this.
    Beyond(Bytes),
}

impl<'de> Deserialize<'de> for SequentialBypass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bytes_or_word(deserializer, "never", "to cache all of every stream")? {
            // In bcache it means the opposite.
            Some(Bytes(0)) => Err(D::Error::custom(
                "0 would leave everything uncached; use \"never\" to cache all of every stream",
            )),
            bytes => Ok(bytes.map_or(Self::Never, Self::Beyond)),
        }
    }
}

impl Config {
    /// Return the length beyond which sequential streams are left uncached, in bytes.
    pub(crate) fn sequential_bypass_bytes(&self) -> Option<u64> {
        let beyond = match self.limits.sequential_bypass {
            Some(SequentialBypass::Never) => return None,
            Some(SequentialBypass::Beyond(bytes)) => bytes,
            // A policy on two hosts hears of each access; and RAM alone saves no flash writes by it.
            None if self.is_half() || self.flash.is_none() => return None,
            None => SEQUENTIAL_BYPASS,
        };
        Some(beyond.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_left_uncached_only_with_a_flash_or_if_asked_for() {
        let (flash, none) = ("[flash]\npath = \"f\"\nsize = \"64MiB\"\n", "");
        let given = |value: &str| format!("[limits]\nsequential_bypass = {value}\n");
        for (limits, flash, expected) in [
            (String::new(), flash, Some(1 << 20)),
            (String::new(), none, None),
            (given("\"never\""), flash, None),
            (given("\"64KiB\""), flash, Some(64 << 10)),
            (given("4096"), none, Some(4096)),
        ] {
            let rest =
                "[backing]\npath = \"d\"\n[ram]\nsize = \"1MiB\"\n[policy]\nname = \"lru\"\n";
            let config = Config::parse(&format!("{limits}{flash}{rest}[nbd]\nsocket = \"s\""));
            assert_eq!(config.unwrap().sequential_bypass_bytes(), expected, "{limits}{flash}");
        }
        let error = toml::from_str::<Limits>("sequential_bypass = 0").unwrap_err();
        assert!(error.to_string().contains("use \"never\" to cache"), "{error}");
        let error = toml::from_str::<Limits>("sequential_bypass = \"often\"").unwrap_err();
        assert!(error.to_string().contains("\"64MiB\"; or \"never\" to cache"), "{error}");
    }
}
