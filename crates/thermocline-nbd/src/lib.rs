//! Network block devices: the protocol without sockets, and a server that batches.
//!
//! * [`protocol`]: the numbers and words of NBD.
//! * [`codec`]: both sides of the conversation, as state machines over bytes.
//! * [`service`]: what is served.
//! * [`cached`]: a cache engine, served.
//! * [`uri`]: where exports are found.
//! * [`backing`]: another server as the backing store of an engine.
//! * [`server`]: sockets, and the loop that drives a service in the same thread.

#[cfg(target_os = "linux")]
pub mod backing;
pub mod cached;
pub mod codec;
pub mod protocol;
pub mod server;
pub mod service;
pub mod uri;
