//! Policies of RAM and flash over the disk.

pub mod arc_l2arc;
pub mod face;
pub mod hat;
pub mod hca;
pub mod lazy_cleaning;
pub mod lru_two_tier;
pub mod tac;
pub mod two_tier;
