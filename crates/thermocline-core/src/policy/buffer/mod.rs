//! Write buffers: the RAM of an SSD, which spares its NAND programs and erases.
//!
//! Two tiers: the buffer, and the NAND below it, where every page lives. A write is absorbed by the
//! buffer; it reaches the NAND when the policy copies it there. Copies of one access to pages of
//! one flash block are one flush. A flush that makes room comes before the write that needs it.
//!
//! Pages of the buffer are whole: a write miss never reads the NAND first.

pub mod block_list;
pub mod bpac;
pub mod cfdc;
pub mod hwb;
pub mod page_list;
pub mod unbuffered;

mod frames;

use crate::entry::PolicyEntry;

/// All write buffers, in the order in which they are listed; their names are their own.
pub const BUFFERS: &[PolicyEntry] = &[
    unbuffered::UNBUFFERED,
    page_list::LRU,
    page_list::CFLRU,
    cfdc::CFDC,
    page_list::LRU_WSR,
    block_list::FAB,
    block_list::BPLRU,
    block_list::LB_CLOCK,
    bpac::BPAC,
    hwb::HWB,
];
