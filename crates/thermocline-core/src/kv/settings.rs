//! Settings of tiers of blocks.

use alloc::vec::Vec;

use super::places::{PLACES_MAX, Places, numbered};
use crate::{CACHE_TIERS_MAX, Clients, Nanos, Tier};

/// Settings of tiers of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvSettings {
    /// The tiers, the fastest first.
    pub tiers: Vec<KvTier>,
    /// The engines.
    pub engines: Clients,
    /// Number of first tiers that are private to each engine; the others are shared.
    pub private_tiers: usize,
    /// Rule by which blocks enter the tiers below the first.
    pub mode: Mode,
    /// End of a chain that is evicted first.
    pub order: Order,
    /// Order in which a lookup searches the tiers.
    pub matching: Matching,
    /// Copies that a request renews, in [`Mode::Through`].
    pub touch: Touch,
    /// Choice of the block that makes room.
    pub victim: Victim,
    /// Number of blocks whose count of uses is kept after they left all tiers.
    pub ghost_blocks: u32,
}

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvTier {
    /// Its capacity in blocks; that of each engine for a tier that engines do not share.
    pub capacity_pages: u32,
    /// Minimum number of requests that must have used a block before it enters the tier.
    pub admit_uses: u32,
    /// Time that a copy is kept after its last use.
    pub ttl: Option<Nanos>,
    /// The blocks up to which it is filled: beyond these it makes room.
    pub fill_pages: u32,
    /// Number of blocks that leave when it makes room.
    pub batch_pages: u32,
}

/// Rule by which blocks enter the tiers below the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A tier's victims move down; a block that is used moves to the first tier and leaves the others.
    Exclusive,
    /// A tier's victims move down; a block that is used is copied to the first tier.
    Back,
    /// Every block of a request is written to every tier at once; victims are dropped.
    Through,
}

/// End of a chain that is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last tokens: a prefix that stays can still hit.
    TailFirst,
    /// The first tokens.
    HeadFirst,
}

/// Order in which a lookup searches the tiers: it may come up again after it went down, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// It may not: a tier is searched once, for the blocks of the chain that the tiers above lack.
    Cascade,
    /// Each block may be in any tier.
    Mixed,
}

/// Copies that a request renews, in [`Mode::Through`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// All copies of its blocks.
    All,
    /// Copies in the tier that serves the block, and above. All tiers serve a block that is
    /// computed.
    Served,
}

/// Choice of the block that makes room, in a tier that keeps an order of recency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The least recently used one.
    Oldest,
    /// The same, unless blocks of the same tier continue it: then the least recently used of these, and
    /// so on. No block is left without those before it.
    Leaf,
}

impl Mode {
    /// All that there are.
    pub const ALL: &'static [Self] = &[Self::Exclusive, Self::Back, Self::Through];

    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Back => "back",
            Self::Through => "through",
        }
    }
}

impl Order {
    /// All that there are.
    pub const ALL: &'static [Self] = &[Self::TailFirst, Self::HeadFirst];

    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TailFirst => "tail",
            Self::HeadFirst => "head",
        }
    }
}

impl Matching {
    /// All that there are.
    pub const ALL: &'static [Self] = &[Self::Cascade, Self::Mixed];

    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cascade => "cascade",
            Self::Mixed => "mixed",
        }
    }
}

impl Touch {
    /// All that there are.
    pub const ALL: &'static [Self] = &[Self::All, Self::Served];

    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Served => "served",
        }
    }
}

impl Victim {
    /// All that there are.
    pub const ALL: &'static [Self] = &[Self::Oldest, Self::Leaf];

    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oldest => "oldest",
            Self::Leaf => "leaf",
        }
    }
}

impl KvTier {
    /// Create a tier that every block may enter, for as long as there is room.
    pub const fn new(capacity_pages: u32) -> Self {
        Self {
            capacity_pages,
            admit_uses: 1,
            ttl: None,
            fill_pages: capacity_pages,
            batch_pages: 1,
        }
    }
}

impl KvSettings {
    /// Exclusive tiers of one engine, tails first.
    pub fn new(tiers: Vec<KvTier>) -> Self {
        Self {
            tiers,
            engines: Clients::ONE,
            private_tiers: 1,
            mode: Mode::Exclusive,
            order: Order::TailFirst,
            matching: Matching::Cascade,
            touch: Touch::All,
            victim: Victim::Oldest,
            ghost_blocks: 0,
        }
    }

    /// Return the number of places: a tier that is not shared is one for each engine.
    pub fn places(&self) -> usize {
        let engines = usize::from(self.engines.get());
        engines * self.private_tiers + self.tiers.len() - self.private_tiers
    }

    /// Return the place that a tier is for an engine, as the tiers of moves count places.
    pub fn place(&self, engine: u8, tier: usize) -> Tier {
        numbered(
            Places::new(self.engines, self.private_tiers, self.tiers.len()).place(engine, tier),
        )
    }

    /// Checks what drivers have to refuse before.
    pub(super) fn assert_valid(&self) {
        assert!((1..=CACHE_TIERS_MAX).contains(&self.tiers.len()), "there are one to eight tiers");
        let private = 1..=self.tiers.len();
        assert!(private.contains(&self.private_tiers), "an engine has a tier of its own");
        assert!(self.places() <= PLACES_MAX, "every place has a bit");
        for tier in &self.tiers {
            assert!(tier.fill_pages <= tier.capacity_pages, "a tier is not filled beyond its size");
            assert!(tier.batch_pages > 0, "room is made for a block");
        }
    }
}
