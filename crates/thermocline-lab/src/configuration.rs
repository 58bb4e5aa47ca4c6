//! One configuration: a policy with its parameters over a hierarchy of sized tiers and devices.

use std::sync::Arc;

use thermocline_core::policy::multi::hfa::HintLog;
use thermocline_core::registry::{self, Entry};
use thermocline_core::{
    Actions, Admission, BoxedPolicy, Clients, Indexing, Ledger, PageCost, Setup, WriteMiss, config,
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
    /// How many clients there are, each with a first tier of its own.
    pub clients: Clients,
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

    /// The capacity of every cache tier there is, the first one of each client among them.
    pub(crate) fn tier_capacities_pages(
        &self,
        trace: &CompiledTrace,
    ) -> Result<Vec<u32>, LabError> {
        Ok(self.per_tier(&self.capacity_pages(trace)?))
    }

    /// The name of every tier there is, as by [`Tier`](thermocline_core::Tier), the disk last; with
    /// several clients, the number of each is added to that of its first tier.
    pub(crate) fn tier_names(&self) -> Vec<String> {
        let names: Vec<String> = self.tiers.iter().map(|tier| tier.name.clone()).collect();
        let mut names = self.per_tier(&names);
        if self.clients != Clients::ONE {
            for (client, name) in (0..self.clients.get()).zip(&mut names) {
                *name = format!("{name}#{client}");
            }
        }
        names.push("disk".to_owned());
        names
    }

    /// What there is for each configured tier, with that of the first one for every client.
    pub(crate) fn per_tier<T: Clone>(&self, of_tiers: &[T]) -> Vec<T> {
        let further = usize::from(self.clients.get()) - 1;
        let firsts = of_tiers.iter().take(1).flat_map(|first| vec![first.clone(); further]);
        firsts.chain(of_tiers.iter().cloned()).collect()
    }

    /// A Ledger for a run on a trace.
    pub(crate) fn ledger(&self, trace: &CompiledTrace) -> Result<Ledger, LabError> {
        let capacity_pages = self.capacity_pages(trace)?;
        Ok(Ledger::of_clients(trace.footprint_pages(), &capacity_pages, self.clients))
    }

    /// The cost of each tier, the disk last.
    pub fn costs(&self) -> Vec<PageCost> {
        let caches = self.tiers.iter().map(|tier| &tier.device);
        caches.chain([&self.disk]).map(Device::page_cost).collect()
    }

    /// The policy, empty, for a trace.
    ///
    /// # Errors
    /// A size that cannot be, a hierarchy that the policy does not run on, a trace of another number
    /// of clients, or one too long for an oracle.
    pub fn build(&self, trace: &CompiledTrace) -> Result<BoxedPolicy, LabError> {
        if trace.clients() != self.clients {
            let [configured, found] = [self.clients, trace.clients()].map(Clients::get);
            return Err(LabError::WrongClients { configured, found });
        }
        let setup = Setup {
            capacity_pages: self.capacity_pages(trace)?,
            geometry: trace.geometry(),
            costs: self.costs(),
            write_miss: self.write_miss,
            admission: self.admission.clone(),
            clients: self.clients,
            indexing: Indexing::Dense,
        };
        if self.policy.needs_hints() && self.values.hints().is_none() {
            let hints = self.record_hints(trace, &setup)?;
            let values = self.values.clone().with_hints(Arc::new(hints));
            return Ok(self.policy.build(&setup, &values)?);
        }
        if self.policy.needs_foresight() && self.values.foresight().is_none() {
            let values = self.values.clone().with_foresight(trace.foresight()?);
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
