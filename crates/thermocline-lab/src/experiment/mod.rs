//! The papers' experiments, as data: what is run is in `papers/NAME/experiment.toml`.

pub mod hat;
pub mod hca;
pub mod hfa;
pub mod hwb;
pub mod mbf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thermocline_core::config::Values;
use thermocline_core::registry::Entry;
use thermocline_core::{Admission, Clients, WriteMiss};
use thermocline_device::Catalogue;

use crate::report::{Cell, Table};
use crate::{Configuration, LabError, TierConfiguration, TierSize, default_latencies_ms};

/// One claim of the paper, and what we measure.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What the paper claims, in our words.
    pub claim: String,
    /// What we measure.
    pub measured: String,
    /// Whether that confirms it; none if the workload was not run.
    pub is_confirmed: Option<bool>,
}

impl Claim {
    /// The verdict in words.
    pub fn verdict(&self) -> &'static str {
        match self.is_confirmed {
            Some(true) => "confirmed",
            Some(false) => "not confirmed",
            None => "not run",
        }
    }

    /// What stands for a measurement that there is not.
    fn not_run() -> String {
        "not run: the trace was not found".into()
    }
}

/// The claims, what was measured, and the verdicts.
fn claims_table(claims: &[Claim]) -> Table {
    let row = |claim: &Claim| {
        let verdict = claim.is_confirmed.map_or_else(
            || Cell::text(claim.verdict()),
            |is_confirmed| Cell::verdict(is_confirmed, claim.verdict()),
        );
        vec![Cell::text(&claim.claim), Cell::text(&claim.measured), verdict]
    };
    Table {
        header: ["the paper claims", "we measure", "verdict"].map(String::from).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}

/// Reads an experiment file.
fn parse<Experiment: DeserializeOwned>(text: &str) -> Result<Experiment, LabError> {
    toml::from_str(text).map_err(|error| LabError::BadExperiment { reason: error.to_string() })
}

/// Memory and flash over the devices of the HAT paper, every page admitted.
fn paper_hierarchy(
    policy: &'static Entry,
    values: Values,
    memory: &str,
    flash_ratio: f64,
) -> Result<Configuration, LabError> {
    let catalogue = Catalogue::default();
    let tier = |name: &str, size, device: &str| {
        Ok::<_, LabError>(TierConfiguration {
            name: name.into(),
            size,
            device: catalogue.find(device)?.clone(),
        })
    };
    Ok(Configuration {
        policy,
        values,
        tiers: vec![
            tier("ram", memory.parse()?, "memory")?,
            tier("flash", TierSize::TimesAbove(flash_ratio), "samsung-470")?,
        ],
        disk: catalogue.find("st380011a")?.clone(),
        write_miss: WriteMiss::Fetch,
        admission: Admission::ALL,
        clients: Clients::ONE,
        latencies_ms: default_latencies_ms(2),
        prices: None,
        timing: None,
    })
}
