//! Specifications as texts: `ram=64MiB,5%`, `flash=nvme-ssd`, `disk=server:8`, `hat.nonhot_ratio=0.1`.
//!
//! The errors are texts that say what would be right; the surface adds the place.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use thermocline_core::PageCost;
use thermocline_core::config::Given;

use super::{DriveSpec, ModelSpec, ParameterSpec, Setting, TierSetting, TierSpec};
use crate::TierSize;

/// Expected form of a tier's cost.
pub(crate) const COST: &str =
    "expected READ_MS/WRITE_MS, two numbers of at least 0 (as in 0.16/0.30)";
/// Expected form of an access time.
pub(crate) const LATENCY: &str = "expected a number of milliseconds, at least 0";
/// Expected form of a price.
pub(crate) const PRICE: &str = "expected a price per GiB, a number of at least 0";
/// Expected form of a number of servers.
pub(crate) const SERVERS: &str = "a server takes a number of at least 1, as in server:8";

/// Return the two sides of `=`.
fn sides<'a>(text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=').ok_or_else(|| format!("write it as in {example}"))
}

impl FromStr for TierSpec {
    type Err = String;

    /// Create a name and one or more sizes, as in `ram=64MiB,5%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, sizes) = sides(text, "ram=64MiB")?;
        let sizes = sizes.split(',').map(|size| size.parse().map_err(|error| format!("{error}")));
        let sizes: Vec<TierSize> = sizes.collect::<Result<_, String>>()?;
        Ok(Self::new(name, &sizes))
    }
}

impl FromStr for ParameterSpec {
    type Err = String;

    /// `name=value` or `owner.name=value`; the parameter gives the value its type.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = sides(text, "nonhot_ratio=0.1")?;
        Ok(Self::new(name, Given::Text(value.into())))
    }
}

impl TierSetting {
    /// Return the device of a tier, as in `flash=nvme-ssd`.
    ///
    /// # Errors
    /// If the text has no `=`.
    pub fn device(text: &str) -> Result<Self, String> {
        Self::parse(text, "flash=nvme-ssd", |value| Ok(Setting::Name(value.into())))
    }

    /// Return the costs of a tier per page in milliseconds, as in `flash=0.09/0.03`.
    ///
    /// # Errors
    /// If the text is not two numbers.
    pub fn cost(text: &str) -> Result<Self, String> {
        Self::parse(text, "flash=0.09/0.03", |value| {
            let (read, write) = value.split_once('/').ok_or(COST)?;
            let number = |text: &str| text.trim().parse().map_err(|_| COST);
            Ok(Setting::Cost(PageCost { read_ms: number(read)?, write_ms: number(write)? }))
        })
    }

    /// Return the access time of a tier in milliseconds, as in `l2=2`.
    ///
    /// # Errors
    /// If the text is not a number.
    pub fn latency(text: &str) -> Result<Self, String> {
        Self::parse(text, "l2=2", |value| {
            let number = value.parse().map_err(|_| LATENCY)?;
            Ok(Setting::LatencyMs(number))
        })
    }

    /// Return the price of a tier per GiB, as in `ram=4.5`.
    ///
    /// # Errors
    /// If the text is not a number.
    pub fn price(text: &str) -> Result<Self, String> {
        Self::parse(text, "ram=4.5", |value| Ok(Setting::Price(value.parse().map_err(|_| PRICE)?)))
    }

    /// Return the queueing device of a tier, as in `disk=st380011a` or `flash=server:8`.
    ///
    /// # Errors
    /// If the number of servers is not a number of at least 1.
    pub fn model(text: &str) -> Result<Self, String> {
        let (tier, model) = sides(text, "disk=st380011a")?;
        Ok(Self { tier: tier.into(), setting: Setting::Model(model.parse()?) })
    }

    fn parse(
        text: &str,
        example: &str,
        setting: impl FnOnce(&str) -> Result<Setting, &'static str>,
    ) -> Result<Self, String> {
        let (tier, value) = sides(text, example)?;
        Ok(Self { tier: tier.into(), setting: setting(value)? })
    }
}

impl FromStr for ModelSpec {
    type Err = String;

    /// `server`, `server:8`, or a drive.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':').unwrap_or((text, "1")) {
            ("server", servers) => match servers.parse() {
                Ok(servers) if servers > 0 => Ok(Self::Server { servers }),
                _ => Err(SERVERS.into()),
            },
            _ => Ok(Self::Drive(DriveSpec::from(text))),
        }
    }
}

impl From<&str> for DriveSpec {
    /// Create a file if the text ends in `.toml`, else the name of a preset.
    fn from(text: &str) -> Self {
        if Path::new(text).extension().is_some_and(|extension| extension == "toml") {
            return Self::File(text.into());
        }
        Self::Named(text.into())
    }
}

impl fmt::Display for DriveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { servers } => write!(f, "server:{servers}"),
            Self::Drive(drive) => write!(f, "{drive}"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Cost(cost) => write!(f, "{}/{}", cost.read_ms, cost.write_ms),
            Self::LatencyMs(number) | Self::Price(number) => write!(f, "{number}"),
            Self::Model(model) => write!(f, "{model}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_typed_settings() {
        let tier: TierSpec = "ram=64MiB,5%".parse().unwrap();
        let sizes = [TierSize::Bytes(67_108_864.0), TierSize::FootprintPercent(5.0)];
        assert_eq!(tier, TierSpec::new("ram", &sizes));
        let cost = PageCost { read_ms: 0.09, write_ms: 0.03 };
        let servers = ModelSpec::Server { servers: 8 };
        let file = ModelSpec::Drive(DriveSpec::File("a/b.toml".into()));
        let disk = ModelSpec::Drive(DriveSpec::Named("exos-x18".into()));
        for (found, tier, setting) in [
            (TierSetting::device("flash=a=b"), "flash", Setting::Name("a=b".into())),
            (TierSetting::cost("flash=0.09/ 0.03"), "flash", Setting::Cost(cost)),
            (TierSetting::latency("l2=2"), "l2", Setting::LatencyMs(2.0)),
            (TierSetting::price("disk=0.5"), "disk", Setting::Price(0.5)),
            (TierSetting::model("disk=server:8"), "disk", Setting::Model(servers)),
            (TierSetting::model("flash=a/b.toml"), "flash", Setting::Model(file)),
            (TierSetting::model("disk=exos-x18"), "disk", Setting::Model(disk)),
        ] {
            let setting = TierSetting { tier: tier.into(), setting };
            assert_eq!(found, Ok(setting.clone()));
        }
        let parameter: ParameterSpec = "hat.w=0.5".parse().unwrap();
        assert_eq!(parameter, ParameterSpec::new("hat.w", Given::Text("0.5".into())));
        assert_eq!((parameter.owner.as_deref(), parameter.name.as_str()), (Some("hat"), "w"));
        assert_eq!(parameter.to_string(), "hat.w=0.5");
    }

    #[test]
    fn wrong_texts_are_refused_with_what_would_be_right() {
        for (error, expected) in [
            ("ram".parse::<TierSpec>().unwrap_err(), "ram=64MiB"),
            ("ram=1%,64Q".parse::<TierSpec>().unwrap_err(), "`64Q`"),
            ("w".parse::<ParameterSpec>().unwrap_err(), "nonhot_ratio=0.1"),
            (TierSetting::device("flash").unwrap_err(), "flash=nvme-ssd"),
            (TierSetting::cost("flash=1").unwrap_err(), "READ_MS/WRITE_MS"),
            (TierSetting::cost("flash=a/b").unwrap_err(), "READ_MS/WRITE_MS"),
            (TierSetting::latency("l2=far").unwrap_err(), "milliseconds"),
            (TierSetting::price("l2=dear").unwrap_err(), "per GiB"),
            (TierSetting::model("disk=server:0").unwrap_err(), "server:8"),
            (TierSetting::model("disk").unwrap_err(), "disk=st380011a"),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }
}
