//! Shadow policies, as a configuration names them, and what it takes to put one in force.
//!
//! The policy that runs is always among the shadows: only with it, on the same sample of pages and as
//! empty at the beginning, can the others be compared.

use anyhow::{Context as _, Result, ensure};
use thermocline_core::WriteMiss;
use thermocline_core::config::Values;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_engine::Options;
use thermocline_engine::shadow::{Estimate, ShadowOptions, Shadows};
use thermocline_lab::{TierSize, find_policy};

use super::config::Config;
use super::status::{Adoption, ShadowStatus, Takes};

/// A shadow, and how to put it in force.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    options: ShadowOptions,
    adoption: Adoption,
}

/// Shadows that see what the engine does.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) shadows: Shadows,
    adoptions: Vec<Adoption>,
}

impl Wanted {
    /// Return the shadow that one of so many shards has: they have equal parts of RAM and flash.
    fn of_shard(&self, shards: u32) -> ShadowOptions {
        let ShadowOptions { ram_pages, flash_pages, .. } = self.options;
        ShadowOptions {
            ram_pages: (ram_pages / shards).max(1),
            // A tier that is there stays there.
            flash_pages: (flash_pages / shards).max(flash_pages.min(1)),
            ..self.options.clone()
        }
    }
}

impl Watching {
    /// Create shadows of a shard, if any are wanted: each has the shard's part of the sizes.
    ///
    /// # Errors
    /// A shadow that cannot be.
    pub(crate) fn new(
        mut wanted: Vec<Wanted>,
        config: &Config,
        options: &Options,
    ) -> Result<Option<Self>> {
        let costs =
            options.policy.costs.as_slice().try_into().context("three tiers have a cost")?;
        if wanted.is_empty() {
            return Ok(None);
        }
        let shards = u32::from(options.share.map.number().get());
        let build = |wanted: &[Wanted]| {
            let all = wanted.iter().map(|one| one.of_shard(shards)).collect();
            Shadows::new(all, options.backing_pages, config.shadow_sample, costs)
        };
        let shadows = match running(config, &wanted)? {
            // It may not run at the size of a sample; nobody asked for it by name.
            Some(running) => {
                wanted.push(running);
                build(&wanted).or_else(|_| {
                    wanted.pop();
                    build(&wanted)
                })
            }
            None => build(&wanted),
        };
        let adoptions = wanted.into_iter().map(|one| one.adoption).collect();
        Ok(Some(Self { shadows: shadows.context("`shadow`")?, adoptions }))
    }

    /// Keeps what the shadows before these found, where they stay the same; `true` if all of them do, in
    /// their order, so that what was found of them over time goes on.
    pub(crate) fn take_over(&mut self, former: Self) -> bool {
        let names = |one: &Self| -> Vec<String> {
            one.shadows.estimates().into_iter().map(|estimate| estimate.label).collect()
        };
        let (before, now) = (names(&former), names(self));
        self.shadows.take_over(former.shadows) == now.len() && before == now
    }

    /// Return the results of all shadows.
    pub(crate) fn status(&self) -> Vec<ShadowStatus> {
        let estimates = self.shadows.estimates().into_iter().zip(&self.adoptions);
        estimates.map(|(one, adoption)| ShadowStatus::new(one, adoption.clone())).collect()
    }
}

impl ShadowStatus {
    /// Result of a shadow, and the steps to adopt it.
    pub(crate) fn new(estimate: Estimate, adoption: Adoption) -> Self {
        Self {
            name: estimate.label,
            accesses: estimate.accesses,
            sample: estimate.rate,
            sampled_accesses: estimate.sampled_accesses,
            ram_hit_ratio: estimate.ram_hit_ratio,
            flash_hit_ratio: estimate.flash_hit_ratio,
            flash_writes_per_access: estimate.flash_writes_per_access,
            disk_transfers_per_access: estimate.disk_transfers_per_access,
            io_ms_per_access: estimate.io_ms_per_access,
            adoption,
        }
    }

    /// Add what the same shadow found in another shard.
    pub(super) fn add(&mut self, other: &Self) {
        let accesses = self.accesses + other.accesses;
        let part = if accesses == 0 { 0.0 } else { other.accesses as f64 / accesses as f64 };
        for (one, other) in [
            (&mut self.ram_hit_ratio, other.ram_hit_ratio),
            (&mut self.flash_hit_ratio, other.flash_hit_ratio),
            (&mut self.flash_writes_per_access, other.flash_writes_per_access),
            (&mut self.disk_transfers_per_access, other.disk_transfers_per_access),
            (&mut self.io_ms_per_access, other.io_ms_per_access),
        ] {
            *one += (other - *one) * part;
        }
        self.accesses = accesses;
        self.sampled_accesses += other.sampled_accesses;
        self.sample = self.sample.max(other.sample);
    }
}

/// Parse all shadows that a configuration names.
///
/// # Errors
/// A shadow that cannot be, and why.
pub(crate) fn options(config: &Config) -> Result<Vec<Wanted>> {
    config.shadow.iter().map(|text| one(config, text)).collect()
}

/// Return the running policy as a shadow, unless the configuration names it as one.
fn running(config: &Config, wanted: &[Wanted]) -> Result<Option<Wanted>> {
    if wanted.iter().any(|one| one.adoption.takes == Takes::Nothing) {
        return Ok(None);
    }
    let parameters = config.policy.parameters.iter();
    let parameters = parameters.map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // `ram` and `flash` alone would be sizes.
        format!("{}.{name}={text}", config.policy.name)
    });
    let parameters = parameters.collect::<Vec<_>>().join(",");
    let separator = if parameters.is_empty() { "" } else { ":" };
    one(config, &format!("{}{separator}{parameters}", config.policy.name)).map(Some)
}

/// Parse one shadow: `NAME` or `NAME:key=value,...`.
fn one(config: &Config, text: &str) -> Result<Wanted> {
    let context = || format!("`shadow`: \"{text}\"");
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let entry = find_policy(name).with_context(context)?;
    let own_pages = config.tier_pages()?;
    let [mut ram_pages, mut flash_pages] = own_pages;
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
    let values = entry.values(&given).with_context(context)?;
    let adoption = adoption(config, entry, &given, [ram_pages, flash_pages])?;
    let options = ShadowOptions {
        label: text.to_owned(),
        entry: entry.clone(),
        values,
        write_miss: config.policy_options()?.write_miss,
        ram_pages,
        flash_pages,
    };
    Ok(Wanted { options, adoption })
}

/// Return the steps that put a policy with these parameters in force on tiers of these pages.
fn adoption(
    config: &Config,
    entry: &PolicyEntry,
    given: &[(String, String)],
    pages: [u32; 2],
) -> Result<Adoption> {
    let texts = |values: &Values| -> Vec<(String, String)> {
        values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let running = config.policy_options()?;
    let is_same_policy =
        running.entry.name == entry.name && texts(&running.values) == texts(&entry.values(given)?);
    let mut configuration = String::new();
    if !is_same_policy {
        configuration += &format!("[policy]\nname = {}\n", quoted(&entry.name));
        if running.write_miss == WriteMiss::Allocate {
            configuration += "write_miss = \"allocate\"\n";
        }
        let parameters = given.iter().map(|(name, text)| format!("{name} = {}", value(text)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        if !parameters.is_empty() {
            configuration += &format!("parameters = {{ {parameters} }}\n");
        }
    }
    let mut takes = if is_same_policy { Takes::Nothing } else { Takes::Reload };
    let sizes = ["ram", "flash"].into_iter().zip(pages.into_iter().zip(config.tier_pages()?));
    for (tier, (pages, own_pages)) in sizes {
        if pages != own_pages {
            takes = Takes::Restart;
            let bytes = u64::from(pages) * config.page_size.0;
            configuration += &format!("[{tier}]\nsize = \"{}\"\n", TierSize::Bytes(bytes as f64));
        }
    }
    Ok(Adoption { takes, configuration })
}

/// Format a parameter as TOML: a number or a truth value as it is, other words in quotes.
fn value(text: &str) -> String {
    let is_plain = text.parse::<i64>().is_ok()
        || matches!(text, "true" | "false")
        || text.contains('.') && text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Parse a size in pages; a multiple is one of the engine's own.
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
        one(&Config::parse(EXAMPLE).unwrap(), text).map(|wanted| wanted.options)
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
            ("cap", "did you mean `car`?"),
            ("nothing-like-it", "hat"),
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

    /// Return the example with other words in the place of its sections for policy and sizes.
    fn with(changes: &str) -> Config {
        let mut config: toml::Table = EXAMPLE.parse().unwrap();
        for (section, change) in changes.parse::<toml::Table>().unwrap() {
            let change = change.as_table().unwrap().clone();
            let old = config.get_mut(&section).and_then(toml::Value::as_table_mut).unwrap();
            if section == "policy" {
                old.clear();
            }
            old.extend(change);
        }
        Config::parse(&config.to_string()).unwrap()
    }

    #[test]
    fn the_change_that_is_named_puts_the_shadow_in_force() {
        let config = Config::parse(EXAMPLE).unwrap();
        for (text, takes) in [
            ("lru", Takes::Reload),
            ("lc", Takes::Nothing),
            ("hat", Takes::Reload),
            ("hat:nonhot_ratio=0.2", Takes::Reload),
            ("hat:ram=2x", Takes::Restart),
            ("two-tier:ram=2x,two-tier.ram=s3-fifo,flash=1GiB", Takes::Restart),
            ("two-tier:two-tier.flash=arc", Takes::Reload),
        ] {
            let Wanted { options, adoption } = one(&config, text).unwrap();
            assert_eq!(adoption.takes, takes, "{text}");
            assert_eq!(adoption.configuration.is_empty(), takes == Takes::Nothing, "{text}");
            let changed = with(&adoption.configuration);
            let policy = changed.policy_options().unwrap();
            let values = |values: &Values| -> Vec<String> {
                values.iter().map(|(name, value)| format!("{name}={value}")).collect()
            };
            assert_eq!(policy.entry.name, options.entry.name, "{text}");
            assert_eq!(values(&policy.values), values(&options.values), "{text}");
            let pages = [options.ram_pages, options.flash_pages];
            assert_eq!(changed.tier_pages().unwrap(), pages, "{text}");
        }
    }

    #[test]
    fn the_policy_that_runs_is_among_the_shadows() {
        let names = |config: &Config| -> Vec<(String, Takes)> {
            let shard = Options::new(1 << 20, 16_384, 65_536, config.policy_options().unwrap());
            let wanted = options(config).unwrap();
            let watching = Watching::new(wanted, config, &shard).unwrap();
            let shadows = watching.map_or_else(Vec::new, |watching| watching.status());
            shadows.into_iter().map(|one| (one.name, one.adoption.takes)).collect()
        };
        let mut config = Config::parse(EXAMPLE).unwrap();
        assert_eq!(names(&config), [], "nobody asked for shadows");
        config.shadow = vec!["lru".into()];
        let expected = [("lru".to_owned(), Takes::Reload), ("lc".to_owned(), Takes::Nothing)];
        assert_eq!(names(&config), expected);
        config.shadow = vec!["lc".into(), "lru".into()];
        assert_eq!(names(&config)[0], ("lc".to_owned(), Takes::Nothing));
        assert_eq!(names(&config).len(), 2, "it is not there twice");
        let mut config = with("[policy]\nname = \"two-tier\"\nparameters = { ram = \"sieve\" }");
        config.shadow = vec!["lru".into()];
        let running = ("two-tier:two-tier.ram=sieve".to_owned(), Takes::Nothing);
        assert_eq!(names(&config)[1], running);
    }
}
