//! One configuration: a policy with its parameters over a hierarchy of sized tiers and devices.

use std::sync::Arc;

use thermocline_core::policy::multi::hfa::HintLog;
use thermocline_core::registry::{self, Entry};
use thermocline_core::{
    Actions, Admission, BoxedPolicy, Clients, PageCost, Setup, WriteMiss, config,
};
use thermocline_device::Device;
use thermocline_trace::CompiledTrace;

use crate::{LabError, Prices, TierSize, Timing};

/// One run: everything but the trace.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The policy.
    pub policy: &'static Entry,
    /// Its parameters, all of them.
    pub values: config::Values,
    /// The cache tiers, fastest first.
    pub tiers: Vec<TierConfiguration>,
    /// The device of the disk.
    pub disk: Device,
    /// What a write miss does.
    pub write_miss: WriteMiss,
    /// Which pages may enter flash.
    pub admission: Admission,
    /// The access time of each tier, the disk last, in milliseconds.
    pub latencies_ms: Vec<f64>,
    /// The price of each tier, the disk last, if costs are to be told.
    pub prices: Option<Prices>,
    /// The devices' queues, if time is to be simulated.
    pub timing: Option<Timing>,
}

/// One cache tier.
#[derive(Clone, Debug)]
pub struct TierConfiguration {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: TierSize,
    /// Its device.
    pub device: Device,
}

impl Configuration {
    /// The capacity of each cache tier in pages, for a trace.
    ///
    /// # Errors
    /// A multiple without a tier above, or more pages than a tier can hold.
    pub fn capacity_pages(&self, trace: &CompiledTrace) -> Result<Vec<u32>, LabError> {
        let mut capacities = Vec::with_capacity(self.tiers.len());
        for tier in &self.tiers {
            let above = capacities.last().copied();
            let page_size_bytes = trace.page_size_bytes();
            let footprint_pages = trace.footprint_pages();
            capacities.push(tier.size.pages(
                &tier.name,
                page_size_bytes,
                footprint_pages,
                above,
            )?);
        }
        Ok(capacities)
    }

    /// The name of each tier, the disk last.
    pub(crate) fn tier_names(&self) -> Vec<String> {
        let caches = self.tiers.iter().map(|tier| tier.name.clone());
        caches.chain(["disk".to_owned()]).collect()
    }

    /// The cost of each tier, the disk last.
    pub fn costs(&self) -> Vec<PageCost> {
        let caches = self.tiers.iter().map(|tier| &tier.device);
        caches.chain([&self.disk]).map(Device::page_cost).collect()
    }

    /// The policy, empty, for a trace.
    ///
    /// # Errors
    /// A size that cannot be, or a hierarchy that the policy does not run on.
    pub fn build(&self, trace: &CompiledTrace) -> Result<BoxedPolicy, LabError> {
        let setup = Setup {
            capacity_pages: self.capacity_pages(trace)?,
            geometry: trace.geometry(),
            costs: self.costs(),
            write_miss: self.write_miss,
            admission: self.admission.clone(),
            clients: Clients::ONE,
        };
        if self.policy.needs_hints() && self.values.hints().is_none() {
            let hints = self.record_hints(trace, &setup)?;
            let values = self.values.clone().with_hints(Arc::new(hints));
            return Ok(self.policy.build(&setup, &values)?);
        }
        Ok(self.policy.build(&setup, &self.values)?)
    }

    /// The hints that H-HFA gives on the trace, with the parameters that it shares with the policy.
    fn record_hints(&self, trace: &CompiledTrace, setup: &Setup) -> Result<HintLog, LabError> {
        let recorder = registry::find("h-hfa")?;
        let is_shared = |name: &str| recorder.parameters.iter().any(|known| known.name == name);
        let shared = self.values.iter().filter(|(name, _)| is_shared(name));
        let mut given: Vec<(String, String)> =
            shared.map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        given.push(("record_hints".into(), "true".into()));
        let mut policy = recorder.build(setup, &recorder.values(&given)?)?;
        let mut actions = Actions::new();
        for access in trace.accesses() {
            actions.clear();
            policy.access(access, &mut actions);
        }
        Ok(policy.take_hints().unwrap_or_default())
    }
}
