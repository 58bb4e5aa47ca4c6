//! The policies of caches.

use super::{Depth, Entry};
use crate::policy::hybrid::{
    arc_l2arc, face, hat, hca, lazy_cleaning, lru_two_tier, tac, two_tier,
};
use crate::policy::multi::{demote, hfa, hint_k, lru_n_inclusive, mq_n, promote, ulc};
use crate::policy::single::{ALGORITHMS, Algorithm, ORACLES, mq};

/// All policies, in the order in which they are listed.
pub const ENTRIES: &[Entry] = &joined();

/// Policies of RAM and flash.
const HYBRIDS: &[Entry] = &[
    Entry {
        name: "hat",
        summary: "hot, warm and cold pages by hit position in one page reference queue",
        source: "Lv, Cui, Chen, Li: Hotness-Aware Hit (HAT), CIKM 2013; Front. Comput. Sci. 8(3), 2014",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: hat::PARAMETERS,
        build: hat::build,
    },
    Entry {
        name: "tac",
        summary: "temperature per extent; warm extents are admitted to a write-through flash",
        source: "Canim et al.: SSD Bufferpool Extensions for Database Systems, PVLDB 3, 2010",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: tac::PARAMETERS,
        build: tac::build,
    },
    Entry {
        name: "lc",
        summary: "lazy cleaning: dirty pages go to flash and are cleaned to disk in groups, later",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::LC_PARAMETERS,
        build: lazy_cleaning::build_lc,
    },
    Entry {
        name: "cw",
        summary: "clean write: dirty pages go to disk only, flash holds clean pages",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::PARAMETERS,
        build: lazy_cleaning::build_cw,
    },
    Entry {
        name: "dw",
        summary: "dual write: dirty pages go to flash and to disk",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::PARAMETERS,
        build: lazy_cleaning::build_dw,
    },
    Entry {
        name: "face",
        summary: "flash as a multi-version FIFO, so that flash writes are sequential",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::PARAMETERS,
        build: face::build_fifo,
    },
    Entry {
        name: "face-gr",
        summary: "FaCE with group replacement: pages leave the FIFO in batches",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::GROUP_PARAMETERS,
        build: face::build_group,
    },
    Entry {
        name: "face-gsc",
        summary: "FaCE with group second chance: referenced pages of a batch are enqueued again",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::GROUP_PARAMETERS,
        build: face::build_second_chance,
    },
    Entry {
        name: "lru-inclusive",
        summary: "one LRU order: flash holds its newest pages, RAM the newest of those",
        source: "baseline; inclusive scheme of Koltsidas and Viglas, ADBIS 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: &[],
        build: lru_two_tier::build_inclusive,
    },
    Entry {
        name: "lru-exclusive",
        summary: "one LRU order: RAM holds its newest pages, flash the next ones",
        source: "baseline; exclusive scheme of Koltsidas and Viglas, ADBIS 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: &[],
        build: lru_two_tier::build_exclusive,
    },
    Entry {
        name: "two-tier",
        summary: "an algorithm for each tier, and whether they are exclusive, inclusive or neither",
        source: "Koltsidas, Viglas: Designing a Flash-Aware Two-Level Cache, ADBIS 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: two_tier::PARAMETERS,
        build: two_tier::build,
    },
    Entry {
        name: "hca",
        summary: "LFU in RAM, an exclusive flash, and a buffer between that writes it by the block",
        source: "Aldahlawi, El-Araby, Suboh, El-Ghazawi: Hybrid Caching Architecture (HCA), IJIEE 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: hca::PARAMETERS,
        build: hca::build,
    },
    Entry {
        name: "arc-l2arc",
        summary: "ARC in RAM; a feed copies what it will evict next to a ring on flash, as ZFS does",
        source: "OpenZFS; Leventhal: Flash Storage Today, ACM Queue 6(4), 2008",
        depth: Depth::RamFlash,
        needs_clock: true,
        takes_admission: false,
        parameters: arc_l2arc::PARAMETERS,
        build: arc_l2arc::build,
    },
];

/// Policies of any number of tiers.
const HIERARCHIES: &[Entry] = &[
    Entry {
        name: "lru-n-inclusive",
        summary: "every tier an LRU and a superset of those above it",
        source: "baseline",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: lru_n_inclusive::build,
    },
    Entry {
        name: "demote",
        summary: "a tier's victim becomes the newest page of the tier below: one LRU over all tiers",
        source: "Wong, Wilkes: My Cache or Yours?, USENIX ATC 2002",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: demote::PARAMETERS,
        build: demote::build,
    },
    Entry {
        name: "promote",
        summary: "exclusive without demotions: each tier on the way up tosses a coin to keep a page",
        source: "Gill: On Multi-level Exclusive Caching, FAST 2008",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: promote::PARAMETERS,
        build: promote::build,
    },
    Entry {
        name: "hint-k",
        summary: "a page's last moves between tiers say how near to the top it stays (reconstructed)",
        source: "Wu, He, Cao, Xie: Hint-K, ICPP 2010; IEEE TPDS 25(3), 2014",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hint_k::PARAMETERS,
        build: hint_k::build,
    },
    Entry {
        name: "mq-n",
        summary: "LRU over MQ: lower tiers keep pages by frequency, each tier on its own",
        source: "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: mq::PARAMETERS,
        build: mq_n::build,
    },
    Entry {
        name: "ulc",
        summary: "one stack by last use, cut by a yardstick per tier; new pages bypass full tiers",
        source: "Jiang, Zhang: ULC, a File Block Placement and Replacement Protocol, ICDCS 2004",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: ulc::PARAMETERS,
        build: ulc::build,
    },
    Entry {
        name: "d-hfa",
        summary: "two queues per tier by frequency of demotions; hits move to the top",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::D_PARAMETERS,
        build: hfa::build_demote,
    },
    Entry {
        name: "p-hfa",
        summary: "two queues per tier by frequency of promotions; pages rise with a probability",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::P_PARAMETERS,
        build: hfa::build_promote,
    },
    Entry {
        name: "h-hfa",
        summary: "two queues per tier by frequency of moves; pages rise and fall by their last moves",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::H_PARAMETERS,
        build: hfa::build_hint,
    },
    Entry {
        name: "oracle-hfa",
        summary: "h-hfa with the hints that an earlier run of it gave later",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::ORACLE_PARAMETERS,
        build: hfa::build_oracle,
    },
];

const ENTRIES_COUNT: usize = HYBRIDS.len() + ALGORITHMS.len() + ORACLES.len() + HIERARCHIES.len();

/// The tables in one.
const fn joined() -> [Entry; ENTRIES_COUNT] {
    let mut entries = [HYBRIDS[0]; ENTRIES_COUNT];
    let mut count = 0;
    while count < ENTRIES_COUNT {
        let (single, oracle) = (HYBRIDS.len(), HYBRIDS.len() + ALGORITHMS.len());
        let deep = oracle + ORACLES.len();
        entries[count] = if count < single {
            HYBRIDS[count]
        } else if count < oracle {
            of_ram(ALGORITHMS[count - single])
        } else if count < deep {
            of_ram(ORACLES[count - oracle])
        } else {
            HIERARCHIES[count - deep]
        };
        count += 1;
    }
    entries
}

/// An algorithm as a policy of RAM over the disk.
const fn of_ram(algorithm: Algorithm) -> Entry {
    Entry {
        name: algorithm.name,
        summary: algorithm.summary,
        source: algorithm.source,
        depth: Depth::Ram,
        needs_clock: false,
        takes_admission: false,
        parameters: algorithm.policy_parameters,
        build: algorithm.build_policy,
    }
}
