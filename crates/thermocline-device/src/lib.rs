//! What a page transfer costs on a device: presets with their sources, and your own.
//!
//! The cost model charges a constant per page read and per page write of each tier and sums it up,
//! as the papers do. A [`Device`] is one such pair of constants; the [presets](presets()) name the
//! real device, or the paper, and where the figures come from.
//!
//! Where waiting matters, a device is a state machine that takes [requests](queueing) with their
//! times and says when each completes: [`Server`] has the cost model's constants, [`hdd::Hdd`] is a
//! hard disk, [`ssd::Ssd`] a solid-state drive.

pub mod hdd;
pub mod queueing;
pub mod ssd;

mod cost;
mod presets;
mod response;
mod server;

pub use cost::{Catalogue, Device, DeviceError, presets};
pub use response::{ResponseTimes, ResponseUs};
pub use server::Server;
