//! The link between host and drive: bytes take their time on it, in one direction or in both.
//!
//! * Source: Serial ATA, which is half duplex, and PCI Express, which is full duplex.
//! * State: constant.
//! * Cost: O(1) per transfer.
//! * Deviations: (1) commands, acknowledgements and protocol are part of the bandwidth that the
//!   configuration states. (2) Transfers are served in the order of asking, whole requests for writes
//!   and flash operations for reads.

use super::check::round_ns;
use super::config::SsdConfig;

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToHost = 0,
    ToDrive = 1,
}

/// A link of limited bandwidth.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    page_ns: u64,
    is_half_duplex: bool,
    /// Per direction: when the bytes that wait will have been sent. Half duplex uses the first only.
    free_at_ns: [u64; 2],
}

impl Link {
    /// Return the link of a configuration that was checked; `None` if bytes take no time on it.
    pub(crate) fn new(config: &SsdConfig) -> Option<Self> {
        (config.host_link_mb_per_s > 0.0).then(|| Self {
            page_ns: round_ns(f64::from(config.page_bytes) * 1e3 / config.host_link_mb_per_s),
            is_half_duplex: config.host_link_half_duplex,
            free_at_ns: [0; 2],
        })
    }

    /// Sends pages; returns when the last of them has arrived.
    pub(crate) fn send(&mut self, direction: Direction, pages: u32, now_ns: u64) -> u64 {
        let line = if self.is_half_duplex { 0 } else { direction as usize };
        let free_at_ns = &mut self.free_at_ns[line];
        *free_at_ns = now_ns.max(*free_at_ns).saturating_add(u64::from(pages) * self.page_ns);
        *free_at_ns
    }

    /// Forgets what waits.
    pub(crate) fn stop(&mut self) {
        self.free_at_ns = [0; 2];
    }
}
