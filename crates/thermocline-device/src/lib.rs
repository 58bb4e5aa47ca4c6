//! Costs of page transfers on devices: presets with their sources, and your own.
//!
//! The cost model charges a constant per page read and per page write of each tier and sums it up,
//! as the papers do. A [`Device`] is one such pair of constants; the [presets](presets()) name the
//! real device, or the paper, and where the figures come from.
//!
//! Where waiting matters, a device is a state machine that takes [requests](queueing) with their
//! times and says when each completes: [`Server`] has the cost model's constants, [`hdd::Hdd`] is a
//! hard disk, [`ssd::Ssd`] a solid-state drive.
//!
//! ```
//! use thermocline_core::Nanos;
//! use thermocline_device::hdd::{Hdd, HddConfig};
//! use thermocline_device::queueing::{DeviceOp, DeviceRequest};
//!
//! let mut disk = Hdd::new(&HddConfig::preset("st380011a")?, 4096)?;
//! for page in [0, 9_000_000] {
//!     disk.submit(Nanos(0), DeviceRequest { op: DeviceOp::Read, page, pages: 1 })?;
//! }
//! let mut completed = vec![];
//! disk.advance(Nanos(100_000_000), &mut completed);
//! assert_eq!(completed.len(), 2);
//! assert!(completed[1].at.0 > 5_000_000, "the second page takes a seek");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod hdd;
pub mod queueing;
pub mod ssd;

mod cost;
mod presets;
mod request;
mod response;
mod server;

pub use cost::{Catalogue, Device, DeviceError, presets};
pub use response::{ResponseTimes, ResponseUs};
pub use server::Server;
