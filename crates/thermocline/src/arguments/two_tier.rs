//! Words for the parameters of `two-tier`, the cache that is put together from two algorithms.

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use thermocline_core::config::Given;
use thermocline_core::policy::hybrid::two_tier;
use thermocline_lab::spec::ParameterSpec;

/// The policy that these words are about.
const POLICY: &str = "two-tier";
/// The algorithm of flash under which TinyLFU decides what enters.
const TINY_LFU: &str = "tinylfu";
/// Algorithm under TinyLFU's admission.
const LRU: &str = "lru";

/// A cache of two tiers, put together from an algorithm for each.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "A hybrid of two algorithms (two-tier)")]
pub(crate) struct TwoTierOptions {
    /// The algorithm of RAM, for the policy `two-tier`: lru, arc, s3-fifo and the others that need no flash
    #[arg(long, value_name = "NAME")]
    pub(crate) ram_policy: Option<String>,
    /// The algorithm of flash, for the policy `two-tier`
    #[arg(long, value_name = "NAME")]
    pub(crate) flash_policy: Option<String>,
    /// Relation of the tiers of `two-tier`: a page may, must not or must be in both; default: lazy
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) inclusion: Option<Inclusion>,
    /// Pages that enter the flash of `two-tier`: all, second-access, probabilistic:0.2, tinylfu, or
    /// those that an identifier finds hot, as in mbf
    #[arg(long, value_name = "WHICH", conflicts_with = "admit")]
    pub(crate) admission: Option<String>,
}

/// Relation of the tiers: pages that may be in both.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Inclusion {
    /// A page may be in both
    Lazy,
    /// No page is in both
    Exclusive,
    /// Every page in RAM is in flash as well
    Inclusive,
}

/// Options of the policy.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TwoTierSpec {
    /// Its parameters.
    pub(crate) parameters: Vec<ParameterSpec>,
    /// The identifier that decides what enters flash.
    pub(crate) admit: Option<String>,
}

impl TwoTierSpec {
    /// Return the option, with its value, that a parameter of a run comes from; the first
    /// parameters are those of this specification.
    pub(crate) fn option(&self, parameters: &[ParameterSpec], place: usize) -> String {
        let parameter = &parameters[place];
        if place >= self.parameters.len() {
            return format!("--param {parameter}");
        }
        let flag = match parameter.name.as_str() {
            two_tier::RAM => "--ram-policy",
            two_tier::FLASH => "--flash-policy",
            two_tier::INCLUSION => "--inclusion",
            _ => "--admission",
        };
        format!("{flag} {}", parameter.value)
    }
}

impl TwoTierOptions {
    /// Return `true` if any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.ram_policy.is_some()
            || self.flash_policy.is_some()
            || self.inclusion.is_some()
            || self.admission.is_some()
    }

    /// Return the policies to run: those named, and `two-tier` if there are words for it.
    pub(crate) fn policies(&self, given: &[String]) -> Vec<String> {
        let mut names = given.to_vec();
        if self.is_given() && !names.iter().any(|name| name == POLICY || name == "all") {
            names.push(POLICY.into());
        }
        names
    }

    /// Return the one policy to run.
    ///
    /// # Errors
    /// If the word is unknown, or the parameter is not for words.
    pub(crate) fn policy(&self, named: Option<&str>) -> Result<String> {
        let Some(name) = named else {
            ensure!(
                self.is_given(),
                "no policy: name one by --policy (see `thermocline policies`), or put one together by \
                 --ram-policy and --flash-policy"
            );
            return Ok(POLICY.into());
        };
        ensure!(
            name == POLICY || !self.is_given(),
            "--ram-policy, --flash-policy, --inclusion and --admission are for `{POLICY}`, not for \
             `{name}`: leave --policy out"
        );
        Ok(name.into())
    }

    /// Parameters and identifier.
    ///
    /// # Errors
    /// If the admission is unknown, or contradicts the algorithm of flash.
    pub(crate) fn spec(&self) -> Result<TwoTierSpec> {
        let mut spec = TwoTierSpec::default();
        let mut set = |name: &str, value: Given| {
            spec.parameters.push(ParameterSpec::new(&format!("{POLICY}.{name}"), value));
        };
        if let Some(name) = &self.ram_policy {
            set(two_tier::RAM, name.as_str().into());
        }
        let mut flash = self.flash_policy.as_deref();
        if let Some(inclusion) = self.inclusion.and_then(|inclusion| inclusion.to_possible_value())
        {
            set(two_tier::INCLUSION, inclusion.get_name().into());
        }
        let admission = self.admission.as_deref().unwrap_or("all");
        match admission.split_once(':').unwrap_or((admission, "")) {
            ("all", "") => {}
            (two_tier::SECOND_ACCESS, "") => {
                set(two_tier::ADMISSION, two_tier::SECOND_ACCESS.into());
            }
            ("probabilistic", share) => {
                let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                let share = share.with_context(|| format!(
                    "--admission `{admission}`: write the share that may enter, from 0 to 1, as in \
                     probabilistic:0.2"
                ))?;
                set(two_tier::PROBABILITY, Given::Real(share));
            }
            (TINY_LFU, "") => {
                ensure!(
                    flash.is_none_or(|name| name == LRU || name == TINY_LFU),
                    "--admission {TINY_LFU} compares a page with the one that would leave, and goes with \
                     --flash-policy {LRU}; `w-tinylfu` is another algorithm that has it built in"
                );
                flash = Some(TINY_LFU);
            }
            (identifier, "") => {
                thermocline_core::hotness::registry::find(identifier).map_err(|error| {
                    anyhow::anyhow!(
                        "--admission takes all, {}, probabilistic:0.2, {TINY_LFU}, or an identifier: \
                         {error}",
                        two_tier::SECOND_ACCESS
                    )
                })?;
                spec.admit = Some(identifier.into());
            }
            _ => anyhow::bail!(
                "--admission `{admission}`: only `probabilistic` takes a number, as in \
                 probabilistic:0.2"
            ),
        }
        if let Some(name) = flash {
            set(two_tier::FLASH, name.into());
        }
        Ok(spec)
    }
}
