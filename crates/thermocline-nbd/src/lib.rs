//! Network block devices: the protocol without sockets, and a server that batches.
//!
//! * [`protocol`]: the numbers and words of NBD.
//! * [`codec`]: both sides of the conversation, as state machines over bytes.
//! * [`service`]: what is served.
//! * [`cached`]: a cache engine, served.
//! * [`doors`]: what is served, used by others beside the server.
//! * [`durability`]: what a flush may say at a door after another server was killed.
//! * `sharded`: the engines of several shards, served as one export (Linux).
//! * [`uri`]: where exports are found.
//! * [`backing`]: another server as the backing store of an engine.
//! * [`server`]: sockets, and the loop that drives a service in the same thread.
//!
//! ```
//! use thermocline_engine::{Engine, Options, PolicyOptions};
//! use thermocline_nbd::cached::Cached;
//! use thermocline_nbd::server::{Export, Listen, Server, Settings};
//!
//! // 1000 pages of 4 KiB on disk, 16 in RAM, 64 on flash; both devices are in memory.
//! let options = Options::new(1000, 16, 64, PolicyOptions::named("hat")?);
//! let service = Cached::new(Engine::in_memory(options)?);
//! let export = Export { info: service.info("disk", "a cached disk"), service };
//! let mut server = Server::new(Settings::default(), vec![export])?;
//! let address = server.listen(Listen::Tcp("127.0.0.1:0".parse()?))?;
//! println!("nbd://{}/disk", address.expect("a TCP address was asked for"));
//! # server.handle().stop();
//! server.run(|_| ())?; // until `stop` of a `server.handle()`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_os = "linux")]
pub mod backing;
pub mod cached;
pub mod codec;
pub mod doors;
pub mod durability;
pub mod protocol;
pub mod server;
pub mod service;
#[cfg(target_os = "linux")]
pub mod sharded;
pub mod uri;
