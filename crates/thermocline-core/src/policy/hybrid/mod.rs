//! Policies of RAM and flash over the disk.

pub mod arc_l2arc;
pub mod auto;
pub mod face;
pub mod hat;
pub mod hca;
pub mod lazy_cleaning;
pub mod lru_two_tier;
pub mod shipped;
pub mod tac;
pub mod two_tier;

use crate::entry::PolicyEntry;

/// All of them, in the order in which the registry lists them.
pub const POLICIES: &[PolicyEntry] = &[
    hat::HAT,
    tac::TAC,
    lazy_cleaning::LC,
    lazy_cleaning::CW,
    lazy_cleaning::DW,
    face::FACE,
    face::FACE_GR,
    face::FACE_GSC,
    lru_two_tier::LRU_INCLUSIVE,
    lru_two_tier::LRU_EXCLUSIVE,
    two_tier::TWO_TIER,
    hca::HCA,
    arc_l2arc::ARC_L2ARC,
    shipped::dm_cache::DM_CACHE,
    shipped::dm_writecache::DM_WRITECACHE,
    shipped::bcache::BCACHE,
    shipped::open_cas::OPEN_CAS,
    shipped::dm_pcache::DM_PCACHE,
    shipped::log::CACHELIB,
    shipped::log::FOYER,
    auto::AUTO,
];
