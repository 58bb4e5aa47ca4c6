//! One configuration: a policy with its parameters over a hierarchy of sized tiers and devices.

use thermocline_core::policy::multi::hfa::record_hints;
use thermocline_core::registry::{Future, PolicyEntry};
use thermocline_core::{
    Admission, BoxedPolicy, Clients, Geometry, Inputs, Ledger, PageCost, Setup, WriteMiss, config,
};
use thermocline_device::Device;
use thermocline_trace::CompiledTrace;

use crate::{LabError, Prices, TierSize, Timing, TracePages, default_latencies_ms};

/// One run: everything but the trace.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The policy.
    pub policy: PolicyEntry,
    /// Its parameters, all of them.
    pub values: config::Values,
    /// The cache tiers, fastest first.
    pub tiers: Vec<TierConfiguration>,
    /// The device of the disk.
    pub disk: Device,
    /// Treatment of write misses.
    pub write_miss: WriteMiss,
    /// Pages that may enter flash.
    pub admission: Admission,
    /// The access time of each tier, the disk last, in milliseconds.
    pub latencies_ms: Vec<f64>,
    /// The price of each tier, the disk last, if costs are to be told.
    pub prices: Option<Prices>,
    /// The devices' queues, if time is to be simulated.
    pub timing: Option<Timing>,
    /// Number of clients, each with a first tier of its own.
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
    /// Create a policy on tiers over a disk, for one client: a write miss fetches the page, every
    /// page may enter flash, access times are the default ones, and neither costs nor time are
    /// simulated.
    pub fn new(
        policy: PolicyEntry,
        values: config::Values,
        tiers: Vec<TierConfiguration>,
        disk: Device,
    ) -> Self {
        Self {
            policy,
            values,
            latencies_ms: default_latencies_ms(tiers.len()),
            tiers,
            disk,
            write_miss: WriteMiss::Fetch,
            admission: Admission::ALL,
            clients: Clients::ONE,
            prices: None,
            timing: None,
        }
    }

    /// Return the capacity of each cache tier in pages, for a trace.
    ///
    /// # Errors
    /// If a multiple has no tier above, or a tier cannot hold that many pages.
    pub fn capacity_pages(&self, trace: impl Into<TracePages>) -> Result<Vec<u32>, LabError> {
        let TracePages { page_size_bytes, footprint_pages } = trace.into();
        let mut capacities = Vec::with_capacity(self.tiers.len());
        for tier in &self.tiers {
            let above = capacities.last().copied();
            capacities.push(tier.size.pages(
                &tier.name,
                page_size_bytes,
                footprint_pages,
                above,
            )?);
        }
        Ok(capacities)
    }

    /// Return the capacity of every cache tier, the first one of each client among them.
    pub(crate) fn tier_capacities_pages(
        &self,
        trace: &CompiledTrace,
    ) -> Result<Vec<u32>, LabError> {
        Ok(self.per_tier(&self.capacity_pages(trace)?))
    }

    /// Return the name of every tier, as by [`Tier`](thermocline_core::Tier), the disk last; with
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

    /// Return a value per tier from a value per configured tier, with that of the first one for
    /// every client.
    pub(crate) fn per_tier<T: Clone>(&self, of_tiers: &[T]) -> Vec<T> {
        let further = usize::from(self.clients.get()) - 1;
        let firsts = of_tiers.iter().take(1).flat_map(|first| vec![first.clone(); further]);
        firsts.chain(of_tiers.iter().cloned()).collect()
    }

    /// Return a Ledger for a run on a trace.
    pub(crate) fn ledger(&self, trace: &CompiledTrace) -> Result<Ledger, LabError> {
        let capacity_pages = self.capacity_pages(trace)?;
        Ok(Ledger::of_clients(trace.footprint_pages(), &capacity_pages, self.clients))
    }

    /// Return the cost of each tier, the disk last.
    pub fn costs(&self) -> Vec<PageCost> {
        let caches = self.tiers.iter().map(|tier| &tier.device);
        caches.chain([&self.disk]).map(Device::page_cost).collect()
    }

    /// Return the policy, empty, for a trace.
    ///
    /// # Errors
    /// If a size is invalid, the policy does not support the hierarchy, or the trace has another
    /// number of clients or is too long for an oracle.
    pub fn build(&self, trace: &CompiledTrace) -> Result<BoxedPolicy, LabError> {
        self.build_for_sample(trace, Inputs::NONE)
    }

    /// Return the hierarchy without knowledge of accesses to come.
    pub(crate) fn setup(&self, geometry: Geometry, capacity_pages: Vec<u32>) -> Setup {
        Setup {
            costs: self.costs(),
            write_miss: self.write_miss,
            admission: self.admission.clone(),
            clients: self.clients,
            ..Setup::new(geometry, capacity_pages)
        }
    }

    /// Build the policy for a trace that may be a sample, with the whole trace's knowledge of its
    /// order.
    pub(crate) fn build_for_sample(
        &self,
        trace: &CompiledTrace,
        of_sample: Inputs,
    ) -> Result<BoxedPolicy, LabError> {
        if trace.clients() != self.clients {
            let [configured, found] = [self.clients, trace.clients()].map(Clients::get);
            return Err(LabError::WrongClients { configured, found });
        }
        let mut setup = self.setup(trace.geometry(), self.capacity_pages(trace)?);
        setup.inputs = match self.policy.capabilities.future {
            Future::Unknown => Inputs::NONE,
            Future::Hints => record_hints(&setup, &self.values, trace.accesses()).into(),
            Future::Accesses => trace.foresight()?.into(),
        };
        setup.inputs.miss_order = of_sample.miss_order;
        setup.inputs.run_lengths = of_sample.run_lengths;
        setup.inputs.sample_rate = of_sample.sample_rate;
        Ok(self.policy.build(&setup, &self.values)?)
    }
}
