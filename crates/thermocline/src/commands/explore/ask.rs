//! Questions of the page: policies, sizes, devices and prices.

use axum::http::StatusCode;
use serde::Deserialize;
use thermocline_core::Clients;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::spec::{HierarchySpec, Selection, SpecPath, Step, TierSpec};
use thermocline_lab::{Configuration, LabError, TierSize};
use thermocline_trace::CompiledTrace;

use super::problem::Problem;
use crate::hierarchy::{flag, in_options};

/// A study of more configurations would take hours before it says much.
const POINTS_MAX: usize = 4096;

/// Question about a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The number of the trace.
    pub(super) trace: u64,
    policies: Vec<String>,
    /// Sizes of RAM, as `--tier` takes them.
    ram: Vec<String>,
    /// Sizes of flash; none for a cache of RAM alone.
    flash: Vec<String>,
    #[serde(default)]
    devices: Devices,
    prices_per_gib: Option<Prices>,
    /// Number of times that the whole flash may be written.
    pub(super) endurance_cycles: Option<f64>,
}

/// The devices of tiers, by their names in the catalogue; the others have the usual ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    ram: Option<String>,
    flash: Option<String>,
    disk: Option<String>,
}

/// Prices of tiers per GiB.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prices {
    ram: f64,
    flash: f64,
    disk: f64,
}

/// One configuration of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Point {
    pub(super) policy: String,
    pub(super) ram_pages: u64,
    pub(super) flash_pages: u64,
}

impl Ask {
    /// Return all configurations, by size and then by policy, each once.
    ///
    /// # Errors
    /// If the specification is invalid, with a description of valid values.
    pub(super) fn configurations(
        &self,
        trace: &CompiledTrace,
    ) -> Result<Vec<Configuration>, Problem> {
        if let Some(cycles) = self.endurance_cycles
            && !(cycles.is_finite() && cycles > 0.0)
        {
            return Err(Problem::bad(format!(
                "an endurance of {cycles} is invalid: expected how many times all of flash may be written, a number above 0"
            )));
        }
        let [ram, flash] = [(&self.ram, "RAM"), (&self.flash, "flash")].map(|(sizes, tier)| {
            let size = |text: &String| {
                text.parse().map_err(|error: LabError| Problem::bad(format!("{tier}: {error}")))
            };
            sizes.iter().map(size).collect::<Result<Vec<TierSize>, Problem>>()
        });
        let all = self.with_sizes(&self.policies, &ram?, &flash?)?;
        let mut known = vec![];
        let mut distinct = vec![];
        for configuration in all {
            let identity =
                (configuration.policy.name.clone(), configuration.capacity_pages(trace)?);
            if !known.contains(&identity) {
                known.push(identity);
                distinct.push(configuration);
            }
        }
        match distinct.len() {
            0 => Err(Problem::bad("nothing is asked for: choose a policy and sizes")),
            1..=POINTS_MAX => Ok(distinct),
            points => Err(Problem::bad(format!(
                "{points} configurations are too many: choose fewer policies or sizes, at most {POINTS_MAX} together"
            ))),
        }
    }

    /// Return one configuration.
    ///
    /// # Errors
    /// If the specification is invalid, with a description of valid values.
    pub(super) fn configuration(&self, point: &Point) -> Result<Configuration, Problem> {
        let size = |pages: u64| vec![TierSize::Pages(pages as f64)];
        let flash = if self.flash.is_empty() { vec![] } else { size(point.flash_pages) };
        let one = [point.policy.clone()];
        let mut found = self.with_sizes(&one, &size(point.ram_pages), &flash)?;
        found.pop().ok_or_else(|| Problem::bad("no policy is named: choose one"))
    }

    fn with_sizes(
        &self,
        policies: &[String],
        ram: &[TierSize],
        flash: &[TierSize],
    ) -> Result<Vec<Configuration>, Problem> {
        let spec = self.spec(ram, flash);
        let named = |error| Problem::from(in_options(error, tier));
        let policies = spec.policies(&Selection::new(policies), Clients::ONE, &[])?;
        let mut distinct: Vec<PolicyEntry> = vec![];
        for policy in policies {
            if distinct.iter().all(|known| known.name != policy.name) {
                distinct.push(policy);
            }
        }
        thermocline_lab::configurations(&spec, &distinct, Clients::ONE).map_err(named)
    }

    fn spec(&self, ram: &[TierSize], flash: &[TierSize]) -> HierarchySpec {
        let mut tiers = vec![TierSpec::new("ram", ram)];
        if !flash.is_empty() {
            tiers.push(TierSpec::new("flash", flash));
        }
        let mut spec = HierarchySpec { tiers, ..HierarchySpec::default() };
        let Devices { ram, flash, disk } = &self.devices;
        let prices = self.prices_per_gib.map(|Prices { ram, flash, disk }| [ram, flash, disk]);
        let mut devices: Vec<_> = spec.tiers.iter_mut().map(|tier| &mut tier.device).collect();
        for (place, (device, name)) in devices.iter_mut().zip([ram, flash]).enumerate() {
            device.name.clone_from(name);
            device.price = prices.map(|prices| prices[place]);
        }
        spec.disk.name.clone_from(disk);
        spec.disk.price = prices.map(|[.., disk]| disk);
        spec
    }

    /// Return the words of `compare` that ask for the same.
    pub(super) fn words(&self) -> Vec<String> {
        let sizes = [("ram", self.ram.join(",")), ("flash", self.flash.join(","))];
        let words = ["--policy".to_owned(), self.policies.join(",")].into_iter();
        words.chain(tiers(sizes)).chain(self.device_words()).collect()
    }

    /// Return the words of `simulate` that ask for one configuration.
    pub(super) fn point_words(&self, point: &Point) -> Vec<String> {
        let flash = if self.flash.is_empty() { String::new() } else { pages(point.flash_pages) };
        let sizes = [("ram", pages(point.ram_pages)), ("flash", flash)];
        let words = ["--policy".to_owned(), point.policy.clone()].into_iter();
        words.chain(tiers(sizes)).chain(self.device_words()).collect()
    }

    fn device_words(&self) -> impl Iterator<Item = String> {
        let Devices { ram, flash, disk } = &self.devices;
        let prices = self.prices_per_gib.map(|Prices { ram, flash, disk }| [ram, flash, disk]);
        let names = [("ram", ram), ("flash", flash), ("disk", disk)];
        let has_flash = !self.flash.is_empty();
        let mut words = vec![];
        for (place, (tier, name)) in names.into_iter().enumerate() {
            if tier == "flash" && !has_flash {
                continue;
            }
            if let Some(name) = name {
                words.extend(["--device".to_owned(), format!("{tier}={name}")]);
            }
            if let Some(prices) = prices {
                words.extend(["--price".to_owned(), format!("{tier}={}", prices[place])]);
            }
        }
        words.into_iter()
    }
}

fn pages(pages: u64) -> String {
    format!("{pages}p")
}

fn tiers(sizes: [(&str, String); 2]) -> impl Iterator<Item = String> {
    let given = sizes.into_iter().filter(|(_, sizes)| !sizes.is_empty());
    given.flat_map(|(tier, sizes)| ["--tier".to_owned(), format!("{tier}={sizes}")])
}

/// Return the tier that a part of the hierarchy belongs to, as the page calls it.
fn tier(path: &SpecPath) -> String {
    match *path.steps() {
        [Step::Key("tiers"), Step::At(0), ..] => "RAM".into(),
        [Step::Key("tiers"), Step::At(_), ..] => "flash".into(),
        [Step::Key("disk"), ..] => "disk".into(),
        _ => flag(path),
    }
}

/// Parse the question in a body of JSON.
///
/// # Errors
/// If it is invalid, with the line and the column.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("the request is not understood: {error}; reload the page"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(more: &str) -> Ask {
        let text = format!(
            r#"{{"trace": 1, "policies": ["hat", "lru", "hat"], "ram": ["2%", "1MiB"], "flash": ["2x"]{more}}}"#
        );
        parse(text.as_bytes()).unwrap_or_else(|problem| panic!("{problem:?}"))
    }

    fn refused(ask: &Ask) -> String {
        let trace = thermocline_lab::bundled_trace().unwrap();
        format!("{:?}", ask.configurations(&trace).unwrap_err())
    }

    #[test]
    fn words_ask_for_the_same() {
        let ask = ask(
            r#", "devices": {"flash": "nvme-ssd"}, "prices_per_gib": {"ram": 4, "flash": 0.2, "disk": 0.02}"#,
        );
        let words = "--policy hat,lru,hat --tier ram=2%,1MiB --tier flash=2x --price ram=4 --device flash=nvme-ssd --price flash=0.2 --price disk=0.02";
        assert_eq!(ask.words().join(" "), words);
        let point = Point { policy: "lru".into(), ram_pages: 7, flash_pages: 9 };
        let words = ask.point_words(&point).join(" ");
        assert!(words.starts_with("--policy lru --tier ram=7p --tier flash=9p --price"), "{words}");
        let trace = thermocline_lab::bundled_trace().unwrap();
        let all = ask.configurations(&trace).unwrap();
        assert_eq!(all.len(), 4, "each policy once");
        let one = ask.configuration(&point).unwrap();
        assert_eq!(one.capacity_pages(&trace).unwrap(), [7, 9]);
        assert_eq!(one.tiers[1].device.name, "nvme-ssd");
        assert!(one.prices.is_some());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let mut bad = ask("");
        bad.flash = vec!["4 bananas".into()];
        assert!(refused(&bad).contains("flash: ") && refused(&bad).contains("64MiB"));
        let bad = ask(r#", "endurance_cycles": -1"#);
        assert!(refused(&bad).contains("above 0"), "{}", refused(&bad));
        let bad = ask(r#", "devices": {"disk": "no-such"}"#);
        assert!(refused(&bad).contains("disk: unknown device"), "{}", refused(&bad));
        let mut bad = ask("");
        bad.policies = vec!["nobody".into()];
        assert!(refused(&bad).contains("nobody"), "{}", refused(&bad));
        bad.policies = vec![];
        assert!(refused(&bad).contains("choose a policy"), "{}", refused(&bad));
        assert!(parse::<Ask>(b"{}").is_err());
    }
}
