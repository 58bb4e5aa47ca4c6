//! Shadow policies, as a configuration names them.

use anyhow::{Context as _, Result, ensure};
use thermocline_core::WriteMiss;
use thermocline_core::registry::Depth;
use thermocline_engine::shadow::ShadowOptions;
use thermocline_lab::{TierSize, find_policy};

use super::config::Config;

/// All shadows that a configuration asks for.
///
/// # Errors
/// A shadow that cannot be, and why.
pub(crate) fn options(config: &Config) -> Result<Vec<ShadowOptions>> {
    config.shadow.iter().map(|text| one(config, text)).collect()
}

/// One shadow: `NAME` or `NAME:key=value,...`.
fn one(config: &Config, text: &str) -> Result<ShadowOptions> {
    let context = || format!("`shadow`: \"{text}\"");
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let entry = find_policy(name).with_context(context)?;
    let mut ram_pages = config.pages("ram.size", config.ram.size)?;
    let flash = config.flash.as_ref();
    let flash_pages = flash.map(|flash| config.pages("flash.size", flash.size)).transpose()?;
    let mut flash_pages = flash_pages.unwrap_or(0);
    let mut given = vec![];
    for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .with_context(|| format!("`{pair}` is not of the form key=value"))
            .with_context(context)?;
        match key {
            "ram" => ram_pages = size(config, value, ram_pages).with_context(context)?,
            "flash" => flash_pages = size(config, value, flash_pages).with_context(context)?,
            // The full name of a parameter, which may be that of a size otherwise.
            _ => {
                let name = key.strip_prefix(&*entry.name).and_then(|rest| rest.strip_prefix('.'));
                given.push((name.unwrap_or(key).to_owned(), value.to_owned()));
            }
        }
    }
    ensure!(ram_pages > 0, "{}: `ram` must be at least a page", context());
    let has_flash = flash_pages > 0 && entry.capabilities.depth != Depth::Ram;
    ensure!(
        entry.capabilities.depth != Depth::Buffer
            && entry.capabilities.depth.allows(1 + usize::from(has_flash)),
        "{}: this policy does not run on these tiers; see `thermocline policies {}`",
        context(),
        entry.name
    );
    Ok(ShadowOptions {
        label: text.to_owned(),
        entry: entry.clone(),
        values: entry.values(&given).with_context(context)?,
        write_miss: WriteMiss::Fetch,
        ram_pages,
        flash_pages,
    })
}

/// A size in pages; a multiple is one of the engine's own.
fn size(config: &Config, text: &str, own_pages: u32) -> Result<u32> {
    let size: TierSize = text.parse()?;
    ensure!(
        !matches!(size, TierSize::FootprintPercent(_)),
        "`{text}`: an engine has no footprint; write a size or a multiple, as in 2GiB or 2x"
    );
    Ok(size.pages("shadow", config.page_size.0, 0, Some(own_pages))?)
}

#[cfg(test)]
mod tests {
    use super::super::config::EXAMPLE;
    use super::*;

    fn parse(text: &str) -> Result<ShadowOptions> {
        one(&Config::parse(EXAMPLE).unwrap(), text)
    }

    #[test]
    fn sizes_are_the_engines_or_multiples_of_them() {
        let plain = parse("lru").unwrap();
        assert_eq!([plain.ram_pages, plain.flash_pages], [16_384, 65_536]);
        let twice = parse("hat:ram=2x,flash=1GiB").unwrap();
        assert_eq!([twice.ram_pages, twice.flash_pages], [32_768, 262_144]);
        assert_eq!(twice.label, "hat:ram=2x,flash=1GiB");
        let two = parse("two-tier:ram=2x,two-tier.ram=sieve,flash=2x,two-tier.flash=arc").unwrap();
        assert_eq!([two.ram_pages, two.flash_pages], [32_768, 131_072]);
        let values: Vec<String> = two.values.iter().map(|(_, value)| value.to_string()).collect();
        assert!(values.starts_with(&["sieve".into(), "arc".into()]), "{values:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (text, words) in [
            ("cap", "hat"),
            ("hat:ram", "key=value"),
            ("hat:ram=5%", "footprint"),
            ("hat:ram=0x", "at least a page"),
            ("hat:zz=1", "zz"),
            ("hat:flash=0p", "does not run on these tiers"),
            ("demote:flash=0p", "does not run on these tiers"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(words) && error.contains(text), "{error}");
        }
    }
}
