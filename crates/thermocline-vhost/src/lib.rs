//! A block device for virtual machines: vhost-user-blk in front of whatever an NBD server serves.
//!
//! The monitor of a virtual machine (QEMU, cloud-hypervisor) connects at a Unix socket and hands over the
//! guest's memory and the rings in which the guest puts its requests. From then on guest and engine meet in
//! that memory: the thread that serves a shard takes requests from the rings itself, and answers there.
//!
//! * `control`: the conversation with the monitor, in a thread of its own.
//! * `door`: the rings of a shard, as a [`Door`](thermocline_nbd::doors::Door).
//! * `ring`: one ring: requests out of it, answers into it.
//! * `chain`: where the bytes of a request lie in the guest's memory.
//! * `block`: what the device is like, and what the requests mean.
//! * `mapping`: memory that the monitor hands over.
//! * `in_flight`: requests that a later server must take up again, in memory that the monitor keeps.
//!
//! A guest can write anything into its memory. A request that makes no sense is answered with an error; a
//! ring that makes no sense is not looked at any more; a message that makes no sense ends the connection.
//!
//! Sources: *Virtual I/O Device (VIRTIO) Version 1.2*, sections 2.7 (split virtqueues) and 5.2 (block
//! device); "Vhost-user Protocol" of QEMU's documentation, with its section "Inflight I/O tracking".
#![cfg(target_os = "linux")]

mod block;
mod chain;
mod control;
mod door;
mod in_flight;
mod mapping;
mod ring;

pub use block::{Device, QUEUES_MAX};
pub use control::VhostUser;
pub use door::VhostDoor;
