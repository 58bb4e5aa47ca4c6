//! Classes from the future: how long each write lives until its page is written again.
//!
//! The lives of all writes are cut into classes of equally many writes, the longest lives being class 0.
//!
//! * Source: the oracle with future knowledge beside which Wang et al., *Separating Data via Block
//!   Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage*, FAST '22,
//!   put their scheme; theirs cuts lives at multiples of a segment.
//! * State: a byte per write, and 4 while it is made.
//! * Cost: O(n log n) for n writes.
//! * Deviations: (1) quantiles in place of multiples of a segment, as for identifiers. (2) What garbage
//!   collection moves is not classified again.

use thermocline_core::PageId;
use thermocline_core::foresight::{Foresight, NEVER};

use crate::LabError;

/// Return the class of each write, 0 to below `classes`: the sooner its page is written again, the
/// higher.
///
/// # Errors
/// If there are too many writes.
///
/// # Panics
/// If there are more than 256 classes.
pub(crate) fn oracle_classes(
    writes: &[PageId],
    pages: u32,
    classes: u32,
) -> Result<Box<[u8]>, LabError> {
    let future = Foresight::new(pages, writes.iter().copied())?;
    let lives: Vec<u32> = (0_u32..)
        .zip(0..future.len())
        .map(|(now, index)| match future.access(index).1 {
            NEVER => NEVER,
            next => next - now,
        })
        .collect();
    let mut sorted = lives.clone();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let bounds: Vec<u32> = (1..classes as usize)
        .filter_map(|class| sorted.get(class * sorted.len() / classes as usize).copied())
        .collect();
    let class = |life: u32| bounds.iter().filter(|&&bound| life < bound).count();
    Ok(lives
        .into_iter()
        .map(|life| u8::try_from(class(life)).expect("there are at most 256 classes"))
        .collect())
}
