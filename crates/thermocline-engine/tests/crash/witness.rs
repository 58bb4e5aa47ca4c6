//! Slots that the journal calls durable.
//!
//! The design detects damage to a slot only once a later journal block says that the slot's own
//! record is durable: before that, recovery treats damage as a write that the crash cut off. The
//! witness reads the journal blocks on their way to the flash, so that the simulation damages only
//! what the engine must notice.

use thermocline_engine::Layout;

const BLOCK: usize = 4096;
const RECORDS_START: usize = 72;
const RECORD: usize = 24;
const MAGIC: &[u8] = b"tcl-jrnl";
const FREE: u64 = 3;

/// The last record of a slot.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    sequence: u64,
    page: u64,
    version: u64,
    checksum: u32,
}

/// A journal block that is written: when, which, and from which block on it calls slots uncertain.
#[derive(Clone, Copy, Debug)]
struct Written {
    time: u64,
    sequence: u64,
    uncertain: u64,
}

/// Sees every journal block.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    layout: Layout,
    slots: Vec<Option<Recorded>>,
    written: Vec<Written>,
    /// Copies of blocks that are durable.
    durable: Vec<Written>,
    /// Records of earlier blocks are certain.
    uncertain: u64,
}

impl Witness {
    pub(crate) fn new(layout: &Layout) -> Self {
        let slots = vec![None; layout.slots as usize];
        Self { layout: *layout, slots, written: vec![], durable: vec![], uncertain: 0 }
    }

    /// Return the layout with which the flash was set up.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Return the number of bytes before the slots.
    pub(crate) fn slots_start(&self) -> usize {
        let page_bytes = self.page_bytes();
        (self.layout.metadata_bytes() as usize).next_multiple_of(page_bytes)
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.layout.page_bytes as usize
    }

    /// Return the number of slots before the annexes.
    pub(crate) fn slots(&self) -> usize {
        self.layout.slots as usize
    }

    /// Return the range of the journal.
    pub(crate) fn journal(&self) -> std::ops::Range<usize> {
        2 * BLOCK..(2 + self.layout.journal_blocks as usize) * BLOCK
    }

    /// Return the offset of a metadata block's other copy.
    pub(crate) fn twin(&self, offset: usize) -> usize {
        let place = offset / BLOCK;
        let ring = self.layout.journal_blocks as usize / 2;
        let twin = match place {
            0..2 => 1 - place,
            _ if place < 2 + ring => place + ring,
            _ if place < 2 + 2 * ring => place - ring,
            _ => {
                let table = 2 + self.layout.journal_blocks as usize;
                table + ((place - table) ^ 1)
            }
        };
        twin * BLOCK
    }

    /// Note that a block is being written.
    pub(crate) fn started(&mut self, bytes: &[u8]) {
        let Some((sequence, _)) = header(bytes) else { return };
        let count = number(bytes, 64, 4) as usize;
        for record in bytes[RECORDS_START..].chunks(RECORD).take(count) {
            let slot = number(record, 4, 4) as usize;
            let is_free = number(record, 20, 2) == FREE;
            self.slots.resize(self.slots.len().max(slot + 1), None);
            self.slots[slot] = (!is_free).then(|| Recorded {
                sequence,
                page: number(record, 22, 2) << 32 | number(record, 0, 4),
                version: number(record, 8, 8),
                checksum: number(record, 16, 4) as u32,
            });
        }
    }

    /// Note that a block is written.
    pub(crate) fn completed(&mut self, time: u64, bytes: &[u8]) {
        if let Some((sequence, uncertain)) = header(bytes) {
            self.written.push(Written { time, sequence, uncertain });
        }
    }

    /// Note that everything written before `started` is durable. A block counts when both copies
    /// are.
    pub(crate) fn synced(&mut self, started: u64) {
        for written in std::mem::take(&mut self.written) {
            if written.time >= started {
                self.written.push(written);
                continue;
            }
            let twin = self.durable.iter().position(|other| other.sequence == written.sequence);
            if let Some(twin) = twin {
                self.durable.swap_remove(twin);
                self.uncertain = self.uncertain.max(written.uncertain);
            } else {
                self.durable.push(written);
            }
        }
    }

    /// Note that the power failed: of the blocks that were not durable, nobody knows which
    /// survived.
    pub(crate) fn power_failed(&mut self) {
        self.written.clear();
        self.durable.clear();
    }

    /// Note that a recovery has verified all slots that it names.
    pub(crate) fn recovered(&mut self) {
        self.written.clear();
        self.durable.clear();
        self.uncertain = 0;
        for recorded in self.slots.iter_mut().flatten() {
            recorded.sequence = 0;
        }
    }

    /// Return `true` if the engine must notice if these bytes of a slot are damaged or missing.
    pub(crate) fn is_certain(&self, slot: usize, bytes: &[u8]) -> bool {
        self.slots[slot].is_some_and(|recorded| {
            (recorded.sequence < self.uncertain || recorded.sequence == 0)
                && checksum(recorded.page, recorded.version, bytes) == recorded.checksum
        })
    }
}

/// Return the number of a journal block, and from which block on it calls slots uncertain.
fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    bytes.starts_with(MAGIC).then(|| (number(bytes, 32, 8), number(bytes, 48, 8)))
}

fn number(bytes: &[u8], start: usize, length: usize) -> u64 {
    bytes[start..start + length].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

fn checksum(page: u64, version: u64, bytes: &[u8]) -> u32 {
    let (lower, upper) = (&page.to_le_bytes()[..4], &page.to_le_bytes()[4..6]);
    let mut identity = [lower, &version.to_le_bytes()].concat();
    if page >> 32 > 0 {
        identity.extend(upper);
    }
    crc32c::crc32c_append(crc32c::crc32c(&identity), bytes)
}
