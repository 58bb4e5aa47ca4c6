//! Policies of one RAM tier over the disk.

pub mod lru;
