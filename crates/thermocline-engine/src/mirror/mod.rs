//! A flash of two devices, its *members*: what only the flash has is on both, so that losing one loses nothing.
//!
//! Each member is laid out alike: a [`Label`], and after it what a flash of one device would have. The journal,
//! the table and dirty slots are the same on both. A clean slot is on one of them, its [`home`], so that reads
//! of clean pages are spread, and each device is written less.
//!
//! * Each label has a generation. Before anything is acknowledged that one member lacks, the generation of the
//!   other one is raised durably ([`Mirror::fail`]), and then the note says the same. A member of an older
//!   generation is never a source of pages ([`Pairing::choose`]).
//! * A power failure may leave one member ahead of the other, by what was not acknowledged. A start first makes
//!   them alike ([`reconcile()`]); at each step, each of them alone is a flash that can be recovered.
//! * A device that [joins](Joining) gets a copy of what the members hold while they are used. Its label is written
//!   last: until then it counts as blank.

use std::io;

mod joining;
mod label;
mod ledger;
mod pairing;
mod reconcile;
mod state;
mod storage;

pub use self::joining::{Joining, Left, content_bytes};
pub use self::label::{Label, MEMBER_HEAD_BYTES};
pub use self::pairing::{Asked, FoundMember, MirrorError, Noted, Pairing, Place};
pub use self::reconcile::reconcile;
pub use self::state::{InUse, Keeper, Lane, Mirror};
pub(crate) use self::state::{StillUsed, Writer};
pub use self::storage::{Lanes, MirrorStorage};
use crate::operation::{DeviceError, Member};

/// Bytes that follow one another on one member, and then on the other. Regions begin at multiples of twice
/// that.
const STRIPE_BYTES: u64 = 64 << 10;

/// Error of an operation that went to a member which is not in use any more: the other one is to do it.
pub(crate) const MEMBER_IS_GONE: DeviceError = DeviceError(io::ErrorKind::NotConnected);

/// Return the member that has the clean slot at an offset of the flash, or of one of its regions.
pub(crate) const fn home(offset_bytes: u64) -> Member {
    if (offset_bytes / STRIPE_BYTES).is_multiple_of(2) { Member::First } else { Member::Second }
}
