//! Question about miss-ratio curves, as a caller asks it.

use thermocline_core::registry::PolicyEntry;
use thermocline_core::{WriteMiss, hotness};
use thermocline_trace::Choice;

use super::Step::Key;
use super::{HierarchySpec, ParameterSpec, Selection};
use crate::hierarchy::choose;
use crate::mrc::{CurveOptions, Rate, Sample, curve_configurations, is_one_pass};
use crate::parameters::{Owner, Parameters};
use crate::{Configuration, LabError, TierSize, TracePages};

/// Policies, and the sizes at which their misses are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct MrcSpec {
    /// The policies.
    pub policies: Selection,
    /// The sizes of RAM; up to the footprint of the trace if none.
    pub sizes: Vec<TierSize>,
    /// The sizes of flash, for policies of two tiers; as those of RAM if none.
    pub flash_sizes: Vec<TierSize>,
    /// The share of pages that LRU and the figures of re-use are found on, above 0 and at most 1; all
    /// pages if absent.
    pub shards: Option<f64>,
    /// The most pages that these are found on, at least 1; if `shards` is absent.
    pub shards_size: Option<u32>,
    /// Rule by which the pages of these two samples are chosen.
    pub shards_by: Choice,
    /// The share of pages that other policies are simulated on, above 0 and at most 1; as small as
    /// each size allows if absent.
    pub rate: Option<f64>,
    /// The seed of samples.
    pub seed: u64,
    /// `true` if every size is simulated in full as well.
    pub is_checked: bool,
    /// Parameters of the policies and of the identifier.
    pub parameters: Vec<ParameterSpec>,
    /// Treatment of write misses.
    pub write_miss: WriteMiss,
    /// The identifier that decides which pages enter flash; all enter without one.
    pub admit: Option<String>,
}

impl MrcSpec {
    /// Return the policies, among them `own` ones of the caller.
    ///
    /// # Errors
    /// If a policy is unknown, an own policy has the name of a registered one, or there are sizes
    /// of flash without a policy that uses flash.
    pub fn policies(&self, own: &[PolicyEntry]) -> Result<Vec<PolicyEntry>, LabError> {
        let suits = |entry: &PolicyEntry| entry.capabilities.depth.allows(2);
        let policies = choose(&self.policies, suits, own)?;
        if !self.flash_sizes.is_empty()
            && policies.iter().all(|policy| policy.capabilities.depth.allows(1))
        {
            let reason = "none of these policies uses flash; take one that does, as `face`";
            return Err(LabError::at(&[Key("flash_sizes")], reason));
        }
        Ok(policies)
    }

    /// Return the options for computing the curves.
    ///
    /// # Errors
    /// If a rate is not in (0, 1].
    pub fn options(&self) -> Result<CurveOptions, LabError> {
        for (key, rate) in [("shards", self.shards), ("rate", self.rate)] {
            if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
                let reason = format!(
                    "{rate} is invalid: expected a share of the pages, above 0 and at most 1"
                );
                return Err(LabError::at(&[Key(key)], reason));
            }
        }
        if self.shards_size == Some(0) {
            return Err(LabError::at(&[Key("shards_size")], "expected at least 1 page"));
        }
        let (seed, choice) = (self.seed, self.shards_by);
        let sample = match (self.shards, self.shards_size) {
            (Some(_), Some(_)) => {
                let reason = "it cannot be used together with `shards`: give one of the two";
                return Err(LabError::at(&[Key("shards_size")], reason));
            }
            (Some(rate), None) => Sample::Rate { rate, choice, seed },
            (None, Some(pages)) => Sample::Size { pages, choice, seed },
            (None, None) => Sample::All,
        };
        let rate = self.rate.map_or(Rate::Auto { seed }, |rate| Rate::Fixed { rate, seed });
        Ok(CurveOptions { sample, rate, is_checked: self.is_checked })
    }

    /// Return the configurations of each policy's curve on a trace.
    ///
    /// # Errors
    /// As for [`configurations`](crate::configurations), or a size that cannot be.
    pub fn curves(
        &self,
        policies: &[PolicyEntry],
        trace: impl Into<TracePages>,
    ) -> Result<Vec<Vec<Configuration>>, LabError> {
        let trace = trace.into();
        let identifier = self.admit.as_deref().map(hotness::registry::find).transpose();
        let identifier = identifier.map_err(|error| LabError::at(&[Key("admit")], error))?;
        let identifier = identifier.map(Owner::from);
        let owners = policies.iter().map(Owner::from);
        let owners: Vec<Owner<'_>> = owners.chain(identifier).collect();
        let given = Parameters::new(&self.parameters, &owners)?;
        let sizes = [self.sizes.as_slice(), self.flash_sizes.as_slice()];
        let of_policy = |policy: &PolicyEntry| {
            let owners = [Some(Owner::from(policy)), identifier].into_iter().flatten();
            let spec = HierarchySpec {
                parameters: given.of(&owners.collect::<Vec<Owner<'_>>>()),
                write_miss: self.write_miss,
                admit: self.admit.clone(),
                ..HierarchySpec::default()
            };
            curve_configurations(trace, policy, &spec, sizes)
        };
        policies.iter().map(of_policy).collect()
    }

    /// Return the number of sizes that are simulated for these curves.
    pub fn simulated_sizes(&self, curves: &[Vec<Configuration>]) -> usize {
        let simulated = curves.iter().map(|curve| {
            let passes = usize::from(!is_one_pass(curve)) + usize::from(self.is_checked);
            curve.len() * passes
        });
        simulated.sum()
    }
}
