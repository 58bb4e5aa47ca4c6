//! Advice for the caches that a machine has: what is set today, and the commands that set something
//! else.
//!
//! [`installed`] reads the settings and counters of lvmcache (dm-cache and dm-writecache), bcache, Open
//! CAS and ZFS. [`mapping`] turns them into the policy that models such a cache, and [`commands`] turns
//! a recommendation into shell lines; [`recommend`] makes a recommendation of the policy that a forecast
//! was made of.
//!
//! The crate runs only programs that print, and reads only files: the commands that change a machine
//! are text, for a person to read and run.
//!
//! ```
//! use thermocline_advise::installed::lvmcache;
//!
//! let mut recorded = |program: &str, arguments: &[&str]| match (program, arguments.first()) {
//!     ("dmsetup", Some(&"table")) => Ok("ssd: 0 4096 cache 253:2 253:1 253:3 128 0 smq 0\n".into()),
//!     ("dmsetup", _) => Ok("ssd: 0 4096 cache 8 72/1024 128 9/16 113 27 5 6 0 9 1 0 0 smq 0 rw -\n".into()),
//!     _ => Err(std::io::ErrorKind::NotFound.into()),
//! };
//! let found = lvmcache::read(&mut recorded)?;
//! assert_eq!(found.caches[0].size_bytes, 1 << 20);
//! # Ok::<(), thermocline_advise::installed::InstalledError>(())
//! ```

mod size;
mod words;

pub mod commands;
pub mod installed;
pub mod mapping;
pub mod recommend;
