//! A block device of the local kernel: ublk in front of whatever an NBD server serves.
//!
//! The driver `ublk_drv` makes `/dev/ublkbN`, and hands its requests to this process: each queue belongs to
//! the thread of a shard, which fetches and answers requests by `io_uring`, and copies their bytes by reads
//! and writes of `/dev/ublkcN`. When the process is killed, the device stays: its requests wait, and the next
//! server takes them up again.
//!
//! * `abi`: the driver's structures and numbers.
//! * `control`: commands to the driver.
//! * `device`: how a device begins, comes back and ends, in a thread of its own.
//! * `door`: the queue of a shard, as a [`Door`](thermocline_nbd::doors::Door).
//! * `queue`: the same queue as the driver has it.
//! * `note`: what the next server must know of answers that no flush covered.
//!
//! Sources: `include/uapi/linux/ublk_cmd.h` of Linux 6.12; "Userspace block device driver (ublk driver)" of
//! the kernel's documentation.
#![cfg(target_os = "linux")]

mod abi;
mod control;
mod device;
mod door;
mod note;
mod queue;

pub use control::UblkError;
pub use device::{DEPTH_MAX, DEVICES_MAX, Options, Ublk, UblkRun};
pub use door::UblkDoor;
