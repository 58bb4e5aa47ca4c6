//! Worked examples, step by step: what each specification's lists look like, and that
//! the policy beside it counts and holds the same.
//!
//! The first table follows from the papers; the second pins our choices where they are silent. Notation of
//! the states, by policy: HAT lists its hot and its warm region, head first, with H, W and C for
//! hot, warm and cold; TAC its slots in order of admission, `x` after an invalid one, and then
//! temperatures by extent; LC, DW and CW their frames in order of admission, `d` after a dirty one;
//! FaCE its FIFO from front to rear with versions, `x` if invalid, `r` if referenced; HCA its first
//! level with counts, its buffer and its flash, the oldest first; ARC its lists T1, T2, B1 and B2 and
//! its flash, the oldest first; the LRU baselines their order, the newest first.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;

use models::Counts;
use models::pair::Pair;
use thermocline_core::{Access, Tier};

/// An access, then state, memory and flash after it; the example leaves `*` open.
type Step = (&'static str, &'static str, &'static str, &'static str);

struct Vector {
    id: &'static str,
    policy: &'static str,
    given: &'static [(&'static str, &'static str)],
    sizes: [u32; 2],
    steps: &'static [Step],
    /// Hits in memory and on flash, reads of disk and flash, writes of flash and disk.
    counts: [u64; 6],
}

#[test]
fn the_sheets_worked_examples_hold() {
    SHEETS.iter().for_each(check);
}

#[test]
fn what_we_chose_where_the_sheets_are_silent_holds() {
    CHOICES.iter().for_each(check);
}

/// The non-hot zone of 25 pages at ratio 0.1 is 2 pages, not 3: halves round to even.
#[test]
fn the_nonhot_zone_rounds_halves_to_even() {
    let numbers: Vec<u64> = (0..32).collect();
    let mut pair = Pair::new("hat", &[], [25, 4], &numbers);
    for page in (0..25).chain(0..23).chain(25..28) {
        pair.access(Access::read(page));
        pair.assert_same_contents();
    }
    assert_eq!(pair.model.state().matches('H').count(), 23);
    // With 22 hot pages, the first one would be warm and on flash by now.
    assert!(pair.held(Tier::FLASH).is_empty());
}

fn check(vector: &Vector) {
    let given: Vec<(String, String)> =
        vector.given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    let numbers: Vec<u64> = (0..16).collect();
    let mut pair = Pair::new(vector.policy, &given, vector.sizes, &numbers);
    for (number, &(access, state, memory, flash)) in (1..).zip(vector.steps) {
        pair.access(parse(access));
        pair.assert_same_contents();
        let measured = [pair.model.state(), held(&pair, Tier::RAM), held(&pair, Tier::FLASH)];
        for (expected, measured) in [state, memory, flash].into_iter().zip(measured) {
            let place = format!("{}, step {number}: {access}", vector.id);
            assert!(expected == "*" || measured == expected, "{place}: {measured:?}, {expected:?}");
        }
    }
    let Counts {
        memory_hits, flash_hits, disk_reads, flash_reads, flash_writes, disk_writes, ..
    } = pair.counts();
    let counts = [memory_hits, flash_hits, disk_reads, flash_reads, flash_writes, disk_writes];
    assert_eq!(counts, vector.counts, "{}", vector.id);
}

fn parse(text: &str) -> Access {
    let (op, page) = text.split_at(1);
    let page = page.parse().unwrap();
    if op == "W" { Access::write(page) } else { Access::read(page) }
}

fn held(pair: &Pair, tier: Tier) -> String {
    pair.held(tier).iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

const SHEETS: &[Vector] = &[
    Vector {
        id: "hat-1",
        policy: "hat",
        given: &[],
        sizes: [3, 2],
        steps: &[
            ("R1", "1C |", "1", ""),
            ("R2", "2C 1C |", "1 2", ""),
            ("R3", "3C 2C 1C |", "1 2 3", ""),
            ("R1", "1H 3C 2C |", "1 2 3", ""),
            ("R2", "2H 1H | 3C", "1 2 3", ""),
            ("R4", "4C 2H 1H | 3C", "1 2 4", ""),
            ("R3", "3W 4C 2H 1H |", "1 2 3", ""),
            ("R5", "5C 3W 4C 2H 1H |", "1 2 5", "3"),
            ("R3", "3H 5C 4C 2H | 1W", "2 3 5", "1"),
            ("R1", "1W 3H 5C 4C 2H |", "1 2 3", "1"),
            ("R2", "2H 1W 3H | 5C 4C", "1 2 3", "1"),
        ],
        counts: [3, 2, 6, 2, 2, 0],
    },
    Vector {
        id: "hat-2",
        policy: "hat",
        given: &[],
        sizes: [2, 1],
        steps: &[
            ("W1", "*", "*", "*"),
            ("R1", "*", "*", "*"),
            ("R2", "*", "*", "*"),
            ("R3", "*", "*", "*"),
            ("R1", "*", "*", "*"),
            ("W2", "*", "*", "*"),
            ("R3", "*", "*", "*"),
            ("R4", "4C 3W 2C 1H |", "1 4", "3"),
        ],
        counts: [2, 0, 6, 1, 2, 1],
    },
    Vector {
        id: "hat-3",
        policy: "hat",
        given: &[],
        sizes: [2, 1],
        steps: &[
            ("W1", "*", "*", "*"),
            ("R1", "*", "*", "*"),
            ("R2", "*", "*", "*"),
            ("R2", "2H | 1W", "1 2", ""),
            ("R3", "3C 2H | 1W", "2 3", "1"),
            ("R1", "1W 3C 2H |", "1 2", "1"),
            ("R1", "1H | 3C 2W", "1 2", ""),
        ],
        counts: [3, 1, 3, 1, 1, 0],
    },
    Vector {
        id: "tac-1",
        policy: "tac",
        given: &[("extent_pages", "2"), ("random_saving_ms", "10"), ("sequential_saving_ms", "1")],
        sizes: [1, 2],
        steps: &[
            ("R0", "0 | 0:10", "0", "0"),
            ("R4", "0 4 | 0:10 2:10", "4", "0 4"),
            ("R8", "0 4 | 0:10 2:10 4:10", "8", "0 4"),
            ("R4", "0 4 | 0:10 2:20 4:10", "4", "0 4"),
            ("W8", "4 8x | 0:10 2:20 4:20", "8", "4"),
            ("R9", "8 9 | 0:10 2:20 4:21", "9", "8 9"),
        ],
        counts: [0, 1, 5, 1, 5, 1],
    },
    Vector {
        id: "tac-2",
        policy: "tac",
        given: &[
            ("extent_pages", "1"),
            ("aging_interval", "2"),
            ("random_saving_ms", "8"),
            ("sequential_saving_ms", "8"),
        ],
        sizes: [1, 2],
        steps: &[
            ("R0", "*", "*", "*"),
            ("R5", "*", "*", "*"),
            ("R9", "5 9 | 0:4 5:8 9:8", "9", "5 9"),
        ],
        counts: [0, 0, 3, 0, 3, 0],
    },
    Vector {
        id: "tac-3",
        policy: "tac",
        given: &[("extent_pages", "1"), ("random_saving_ms", "10"), ("sequential_saving_ms", "10")],
        sizes: [1, 1],
        steps: &[
            ("W0", "0x | 0:10", "0", ""),
            ("R5", "0 | 0:10 5:10", "5", "0"),
            ("R0", "0 | 0:20 5:10", "0", "0"),
        ],
        counts: [0, 1, 2, 1, 2, 1],
    },
    Vector {
        id: "lc-1",
        policy: "lc",
        given: &[("dirty_threshold", "0.5"), ("low_mark", "0"), ("filling_threshold", "1")],
        sizes: [1, 2],
        steps: &[
            ("W1", "", "1", ""),
            ("R5", "1d", "5", "1"),
            ("W9", "1d 5", "9", "1 5"),
            ("R1", "1 9", "1", "1 9"),
            ("W1", "9", "1", "9"),
        ],
        counts: [1, 1, 3, 3, 3, 2],
    },
    Vector {
        id: "lc-2 under DW",
        policy: "dw",
        given: &[],
        sizes: [1, 2],
        steps: &[("W1", "", "1", ""), ("R5", "1", "5", "1")],
        counts: [0, 0, 2, 0, 1, 1],
    },
    Vector {
        id: "lc-2 under CW",
        policy: "cw",
        given: &[],
        sizes: [1, 2],
        steps: &[("W1", "", "1", ""), ("R5", "", "5", "")],
        counts: [0, 0, 2, 0, 0, 1],
    },
    Vector {
        id: "lc-3",
        policy: "lc",
        given: &[("filling_threshold", "0")],
        sizes: [1, 2],
        steps: &[("R1", "", "1", ""), ("R2", "1", "2", "1"), ("R9", "1", "9", "1")],
        counts: [0, 0, 3, 0, 1, 0],
    },
    Vector {
        id: "face-1",
        policy: "face",
        given: &[],
        sizes: [1, 3],
        steps: &[
            ("W1", "", "1", ""),
            ("R2", "1v1", "2", "1"),
            ("R1", "1v1r 2v0", "1", "1 2"),
            ("W1", "1v1r 2v0", "1", "1 2"),
            ("R3", "1v1xr 2v0 1v2", "3", "1 2"),
            ("R4", "2v0 1v2 3v0", "4", "1 2 3"),
            ("R5", "1v2 3v0 4v0", "5", "1 3 4"),
            ("R6", "3v0 4v0 5v0", "6", "3 4 5"),
        ],
        counts: [1, 1, 6, 2, 6, 1],
    },
    Vector {
        id: "face-2",
        policy: "face-gsc",
        given: &[("group_pages", "2")],
        sizes: [1, 2],
        steps: &[
            ("W1", "", "1", ""),
            ("R2", "1v1", "2", "1"),
            ("R1", "1v1r 2v0", "1", "1 2"),
            ("R3", "1v1r 2v0", "3", "1 2"),
            ("R4", "1v1 3v0", "4", "1 3"),
        ],
        counts: [0, 1, 4, 1, 4, 0],
    },
    Vector {
        id: "face-3",
        policy: "face-gsc",
        given: &[("group_pages", "2")],
        sizes: [1, 2],
        steps: &[
            ("W1", "*", "*", "*"),
            ("R2", "*", "*", "*"),
            ("R1", "*", "*", "*"),
            ("R2", "1v1r 2v0r", "2", "1 2"),
            ("R1", "1v1r 2v0r", "1", "1 2"),
            ("R3", "1v1r 2v0r", "3", "1 2"),
            ("R4", "2v0 3v0", "4", "2 3"),
        ],
        counts: [0, 3, 4, 4, 4, 1],
    },
    Vector {
        id: "hca-1: counts are kept on flash",
        policy: "hca",
        given: &[("buffer_pages", "0"), ("counts", "kept")],
        sizes: [2, 2],
        steps: &[
            ("R1", "1:1 | |", "1", ""),
            ("R2", "1:1 2:1 | |", "1 2", ""),
            ("R1", "1:2 2:1 | |", "1 2", ""),
            ("R3", "1:2 3:1 | | 2", "1 3", "2"),
            ("R2", "1:2 2:2 | | 3", "1 2", "3"),
            ("R4", "2:2 4:1 | | 3 1", "2 4", "1 3"),
            ("R5", "2:2 5:1 | | 1 4", "2 5", "1 4"),
        ],
        counts: [1, 1, 5, 1, 4, 0],
    },
    Vector {
        id: "HCA: counts are forgotten when pages leave the first level",
        policy: "hca",
        given: &[("buffer_pages", "0")],
        sizes: [2, 2],
        steps: &[
            ("R1", "1:1 | |", "1", ""),
            ("R2", "1:1 2:1 | |", "1 2", ""),
            ("R1", "1:2 2:1 | |", "1 2", ""),
            ("R3", "1:2 3:1 | | 2", "1 3", "2"),
            ("R2", "1:2 2:1 | | 3", "1 2", "3"),
            ("R4", "1:2 4:1 | | 3 2", "1 4", "2 3"),
            ("R5", "1:2 5:1 | | 2 4", "1 5", "2 4"),
        ],
        counts: [1, 1, 5, 1, 4, 0],
    },
    Vector {
        id: "hca-2: L1 of one page and a buffer of two are a memory of three",
        policy: "hca",
        given: &[("buffer_pages", "2"), ("pages_per_block", "4")],
        sizes: [3, 4],
        steps: &[
            ("R0", "*", "*", "*"),
            ("R1", "*", "*", "*"),
            ("R4", "*", "*", "*"),
            ("R2", "2:1 | 4 | 0 1", "2 4", "0 1"),
            ("R4", "4:1 | 2 | 0 1", "2 4", "0 1"),
        ],
        counts: [1, 0, 4, 0, 2, 0],
    },
    Vector {
        id: "hca-3",
        policy: "hca",
        given: &[("buffer_pages", "0")],
        sizes: [1, 2],
        steps: &[("R1", "*", "*", "*"), ("R2", "*", "*", "*"), ("W1", "1:1 | | 2", "1", "2")],
        counts: [0, 1, 2, 1, 2, 1],
    },
    Vector {
        id: "l2arc-1",
        policy: "arc-l2arc",
        given: &[("feed_every", "2"), ("write_max", "1"), ("headroom", "1"), ("warm_up", "false")],
        sizes: [2, 2],
        steps: &[
            ("R1", "*", "*", "*"),
            ("R2", "*", "*", "1"),
            ("R3", "*", "*", "*"),
            ("R1", "*", "1 3", "1 3"),
            ("W1", "*", "*", "3"),
            ("R3", "*", "*", "3"),
        ],
        counts: [2, 1, 3, 1, 2, 0],
    },
    Vector {
        id: "l2arc-2",
        policy: "arc-l2arc",
        given: &[("feed_every", "1"), ("warm_up", "false")],
        sizes: [1, 1],
        steps: &[("W1", "*", "1", ""), ("R2", "*", "*", "*"), ("R1", "*", "1", "1")],
        counts: [0, 0, 3, 0, 2, 1],
    },
];

const CHOICES: &[Vector] = &[
    Vector {
        id: "HAT, memory of one page: no page is ever hot, the queue is all warm region",
        policy: "hat",
        given: &[],
        sizes: [1, 1],
        steps: &[
            ("R1", "| 1C", "1", ""),
            ("R1", "| 1W", "1", ""),
            ("R2", "| 2C 1W", "2", "1"),
            ("R1", "| 1W", "1", "1"),
        ],
        counts: [1, 1, 2, 1, 1, 0],
    },
    Vector {
        id: "HAT, flash of one page: the page just referenced yields the only place, as a cold page",
        policy: "hat",
        given: &[],
        sizes: [2, 1],
        steps: &[
            ("W1", "1C |", "1", ""),
            ("R1", "1H |", "1", ""),
            ("R2", "2C 1H |", "1 2", ""),
            ("R2", "2H | 1W", "1 2", ""),
            ("R3", "3C 2H | 1W", "2 3", "1"),
            ("R1", "1W 3C 2H |", "1 2", "1"),
            ("R1", "1H | 3C 2W", "1 2", ""),
            ("R4", "4C 1H | 3C 2W", "1 4", "2"),
            ("R4", "4H | 1W 3C 2W", "1 4", "2"),
            ("R2", "2C 4H | 1W", "2 4", "1"),
        ],
        counts: [4, 2, 4, 2, 3, 0],
    },
    Vector {
        id: "HAT, no flash: a warm victim is cold and goes to disk, and its id is forgotten",
        policy: "hat",
        given: &[],
        sizes: [2, 0],
        steps: &[
            ("W1", "1C |", "1", ""),
            ("R1", "1H |", "1", ""),
            ("R2", "2C 1H |", "1 2", ""),
            ("R2", "2H | 1W", "1 2", ""),
            ("R3", "3C 2H |", "2 3", ""),
        ],
        counts: [2, 0, 3, 0, 0, 1],
    },
    Vector {
        id: "HAT: a write to a warm page leaves its old flash copy, which its eviction refreshes",
        policy: "hat",
        given: &[],
        sizes: [2, 1],
        steps: &[
            ("R1", "1C |", "1", ""),
            ("R1", "1H |", "1", ""),
            ("R2", "2C 1H |", "1 2", ""),
            ("R2", "2H | 1W", "1 2", ""),
            ("R3", "3C 2H | 1W", "2 3", "1"),
            ("W1", "1W 3C 2H |", "1 2", "1"),
            ("R4", "4C 1W 3C 2H |", "2 4", "1"),
        ],
        counts: [2, 1, 4, 1, 2, 0],
    },
    Vector {
        id: "LC: a hit comes before the eviction that makes room for it, in the history too",
        policy: "lc",
        given: &[],
        sizes: [1, 2],
        steps: &[
            ("R1", "", "1", ""),
            ("R3", "1", "3", "1"),
            ("R1", "1 3", "1", "1 3"),
            ("R3", "1 3", "3", "1 3"),
            ("R1", "1 3", "1", "1 3"),
            ("R5", "1 3", "5", "1 3"),
            ("R7", "3 5", "7", "3 5"),
        ],
        counts: [0, 3, 4, 3, 3, 0],
    },
    Vector {
        id: "LC: the cleaner begins with the next victim, not with the page that is dirty longest",
        policy: "lc",
        given: &[("dirty_threshold", "0.25"), ("low_mark", "1"), ("group_pages", "1")],
        sizes: [1, 4],
        steps: &[
            ("W1", "", "1", ""),
            ("R7", "1d", "7", "1"),
            ("R1", "1d 7", "1", "1 7"),
            ("W9", "1d 7", "9", "1 7"),
            ("R7", "1d 7 9", "7", "1 7 9"),
        ],
        counts: [0, 2, 3, 3, 3, 1],
    },
    Vector {
        id: "LRU, inclusive: a memory hit on a page that flash lost writes it to flash again",
        policy: "lru-inclusive",
        given: &[],
        sizes: [4, 1],
        steps: &[("R0", "0", "0", "0"), ("R1", "1 0", "0 1", "1"), ("R0", "0 1", "0 1", "0")],
        counts: [1, 0, 2, 0, 3, 0],
    },
    Vector {
        id: "LRU, inclusive: a page that leaves both tiers at once is written to disk only",
        policy: "lru-inclusive",
        given: &[],
        sizes: [1, 1],
        steps: &[("W1", "1", "1", "1"), ("R2", "2", "2", "2")],
        counts: [0, 0, 2, 0, 2, 1],
    },
    Vector {
        id: "HCA: of groups of equal size that leaves first whose page entered first",
        policy: "hca",
        given: &[("buffer_pages", "2"), ("pages_per_block", "4")],
        sizes: [3, 4],
        steps: &[
            ("R8", "8:1 | |", "8", ""),
            ("R0", "0:1 | 8 |", "0 8", ""),
            ("R4", "4:1 | 8 0 |", "0 4 8", ""),
            ("R8", "8:1 | 0 4 |", "0 4 8", ""),
            ("R9", "9:1 | 4 8 | 0", "4 8 9", "0"),
        ],
        counts: [1, 0, 4, 0, 1, 0],
    },
    Vector {
        id: "HCA without flash: the buffer forgets by the group",
        policy: "hca",
        given: &[("buffer_pages", "2"), ("pages_per_block", "4")],
        sizes: [3, 0],
        steps: &[
            ("W0", "0:1 | |", "0", ""),
            ("R1", "1:1 | 0 |", "0 1", ""),
            ("R4", "4:1 | 0 1 |", "0 1 4", ""),
            ("R2", "2:1 | 4 |", "2 4", ""),
        ],
        counts: [0, 0, 4, 0, 0, 1],
    },
    Vector {
        id: "HCA: a memory of one page is all first level",
        policy: "hca",
        given: &[],
        sizes: [1, 1],
        steps: &[("R0", "0:1 | |", "0", ""), ("R1", "1:1 | | 0", "1", "0")],
        counts: [0, 0, 2, 0, 1, 0],
    },
    Vector {
        id: "ARC: a ghost of T1 raises the target, one of T2 lowers it",
        policy: "arc",
        given: &[],
        sizes: [2, 0],
        steps: &[
            ("R1", "1 | | | |", "1", ""),
            ("R1", "| 1 | | |", "1", ""),
            ("R2", "2 | 1 | | |", "1 2", ""),
            ("R3", "3 | 1 | 2 | |", "1 3", ""),
            ("R2", "3 | 2 | | 1 |", "2 3", ""),
            ("R1", "| 2 1 | 3 | |", "1 2", ""),
        ],
        counts: [1, 0, 5, 0, 0, 0],
    },
    Vector {
        id: "L2ARC: before the first eviction, a feed begins with the hottest and writes more",
        policy: "arc-l2arc",
        given: &[("feed_every", "3"), ("write_max", "1"), ("write_boost", "1"), ("headroom", "1")],
        sizes: [3, 4],
        steps: &[
            ("R1", "1 | | | |", "1", ""),
            ("R2", "1 2 | | | |", "1 2", ""),
            ("R3", "1 2 3 | | | | 3 2", "1 2 3", "2 3"),
            ("R4", "2 3 4 | | | | 3 2", "2 3 4", "2 3"),
            ("R5", "3 4 5 | | | | 3 2", "3 4 5", "2 3"),
            ("R6", "4 5 6 | | | | 3 2 4", "4 5 6", "2 3 4"),
        ],
        counts: [0, 0, 6, 0, 3, 0],
    },
    Vector {
        id: "L2ARC: the rotor passes holes; a slot is overwritten when its turn comes",
        policy: "arc-l2arc",
        given: &[("feed_every", "1"), ("write_max", "1"), ("warm_up", "false")],
        sizes: [2, 2],
        steps: &[
            ("R1", "1 | | | | 1", "1", "1"),
            ("R2", "1 2 | | | | 1 2", "1 2", "1 2"),
            ("W2", "1 | 2 | | | 1", "1 2", "1"),
            ("R3", "3 | 2 | 1 | | 3", "2 3", "3"),
        ],
        counts: [1, 0, 3, 0, 3, 0],
    },
    Vector {
        id: "L2ARC that reuses holes: nothing is overwritten while there is one",
        policy: "arc-l2arc",
        given: &[
            ("feed_every", "1"),
            ("write_max", "1"),
            ("warm_up", "false"),
            ("reuse_holes", "true"),
        ],
        sizes: [2, 2],
        steps: &[
            ("R1", "1 | | | | 1", "1", "1"),
            ("R2", "1 2 | | | | 1 2", "1 2", "1 2"),
            ("W2", "1 | 2 | | | 1", "1 2", "1"),
            ("R3", "3 | 2 | 1 | | 1 3", "2 3", "1 3"),
        ],
        counts: [1, 0, 3, 0, 3, 0],
    },
];
