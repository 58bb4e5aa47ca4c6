//! The figures by which the paper measures its architecture.

use serde::Serialize;
use thermocline_core::registry;
use thermocline_lab::{Configuration, LabError, RunOptions, Summary, WarmUp, Watch, run};
use thermocline_trace::CompiledTrace;

/// The policy that has these figures, and its baseline without an SSD.
const POLICY: &str = "hca";
const BASELINE: &str = "lfu";

/// The figures of the HCA paper (Eq. 1 to 5), in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Hits in RAM, divided by all I/Os.
    pub rhr: f64,
    /// Hits on the SSD, divided by all I/Os.
    pub shr: f64,
    /// Hits on disk, divided by all I/Os.
    pub dhr: f64,
    /// The SSD's part of the response time (Eq. 1).
    pub xcrta_ms: f64,
    /// The caches' part of the response time: Eq. 2 without its second multiplication by `shr`.
    pub hcrta_ms: f64,
    /// The same as Eq. 2 is printed.
    pub hcrta_printed_ms: f64,
    /// I/Os per second that the SSD contributes (Eq. 3).
    pub xciops: f64,
    /// The disk's part of the response time without an SSD (Eq. 4).
    pub bdrta_ms: f64,
    /// The disk's part of the response time with one (Eq. 5).
    pub hcdrta_ms: f64,
}

impl Figures {
    /// Compute them from the shares of hits in RAM, on the SSD and on disk, the disk's share without
    /// an SSD, and the time of an I/O at each, in milliseconds.
    pub fn of(shares: [f64; 3], baseline_dhr: f64, times_ms: [f64; 3]) -> Self {
        let [rhr, shr, dhr] = shares;
        let [ram_ms, ssd_ms, disk_ms] = times_ms;
        // Eq. 1. The operator before SHR is lost in print; a response time weighted with its share
        // of hits is a product.
        let xcrta_ms = ssd_ms * shr;
        Self {
            rhr,
            shr,
            dhr,
            xcrta_ms,
            // Eq. 2 multiplies XCRTA, which has SHR in it already, by SHR again. Both forms are
            // reported.
            hcrta_ms: rhr * ram_ms + xcrta_ms,
            hcrta_printed_ms: rhr * ram_ms + shr * xcrta_ms,
            // Eq. 3: the I/Os per second of an SSD that serves one I/O at a time.
            xciops: if ssd_ms > 0.0 { shr * 1000.0 / ssd_ms } else { 0.0 },
            // Eq. 4 and 5: the share of disk hits times the disk's response time, without and with
            // the SSD.
            bdrta_ms: baseline_dhr * disk_ms,
            hcdrta_ms: dhr * disk_ms,
        }
    }

    /// Compute them for a run of the paper's policy; none for another policy. This replays the trace
    /// through the baseline: the same memory alone.
    ///
    /// # Errors
    /// If the baseline does not support a configuration.
    pub fn of_run(
        trace: &CompiledTrace,
        configuration: &Configuration,
        summary: &Summary,
    ) -> Result<Option<Self>, LabError> {
        if configuration.policy.name != POLICY {
            return Ok(None);
        }
        let [ram, ssd, disk] = summary.tiers.as_slice() else { return Ok(None) };
        let policy = registry::find(BASELINE)?;
        let alone = Configuration {
            policy: policy.clone(),
            values: policy.values(&[])?,
            // The paper's baseline is the same RAM alone, with LFU, and no transient buffer.
            tiers: configuration.tiers[..1].to_vec(),
            latencies_ms: thermocline_lab::default_latencies_ms(1),
            timing: None,
            prices: None,
            ..configuration.clone()
        };
        let warm_up = WarmUp::Accesses(summary.warm_up_accesses);
        let options = RunOptions { warm_up, ..RunOptions::default() };
        let baseline = run(trace, &alone, options, &Watch::default())?;
        let tiers = [ram, ssd, disk];
        Ok(Some(Self::of(
            tiers.map(|tier| tier.hit_ratio),
            baseline.tiers[1].hit_ratio,
            tiers.map(|tier| tier.read_ms),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_follow_the_equations() {
        let found = Figures::of([0.5, 0.3, 0.2], 0.5, [0.0001, 0.1, 10.0]);
        let figures = [
            (found.xcrta_ms, 0.03),
            (found.hcrta_printed_ms, 0.009_05),
            (found.hcrta_ms, 0.030_05),
            (found.xciops, 3000.0),
            (found.bdrta_ms, 5.0),
            (found.hcdrta_ms, 2.0),
        ];
        for (ours, expected) in figures {
            assert!((ours - expected).abs() < 1e-9, "{ours} is not {expected}");
        }
    }
}
