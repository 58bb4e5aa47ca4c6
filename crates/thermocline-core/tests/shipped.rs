//! The caches that systems ship: worked examples, and each policy beside its specification.
//!
//! The vectors have no page cache above. A state is written as the model of the cache writes it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;

use models::Counts;
use models::pair::Pair;
use proptest::prelude::*;
use thermocline_core::Access;

/// Accesses, then the state, of which the example leaves `...` open, and the flash hits, flash
/// reads, flash writes, disk reads and disk writes.
type Step = (&'static str, &'static str, Option<[u64; 5]>);

struct Vector {
    id: &'static str,
    policy: &'static str,
    given: &'static [(&'static str, &'static str)],
    memory_pages: u32,
    flash_pages: u32,
    pages: u64,
    steps: &'static [Step],
}

#[test]
fn the_sheets_worked_examples_hold() {
    for vector in VECTORS {
        let given: Vec<(String, String)> =
            vector.given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        let numbers: Vec<u64> = (0..vector.pages).collect();
        let sizes = [vector.memory_pages, vector.flash_pages];
        let mut pair = Pair::new(vector.policy, &given, sizes, &numbers);
        for (number, &(accesses, state, counts)) in (1..).zip(vector.steps) {
            for access in accesses.split(' ') {
                pair.access(parse(access));
                pair.assert_same_contents();
            }
            let place = format!("{}, step {number}: {accesses}", vector.id);
            let found = pair.model.state();
            let is_same = match state.split_once("...") {
                Some((begin, end)) => found.starts_with(begin) && found.ends_with(end),
                None => found == state,
            };
            assert!(is_same, "{place}: {found:?}, {state:?}");
            if let Some(counts) = counts {
                assert_eq!(figures(&pair.counts()), counts, "{place}");
            }
        }
    }
}

fn parse(text: &str) -> Access {
    let (op, page) = text.split_at(1);
    let page = page.parse().unwrap();
    if op == "W" { Access::write(page) } else { Access::read(page) }
}

fn figures(counts: &Counts) -> [u64; 5] {
    let Counts { flash_hits, flash_reads, flash_writes, disk_reads, disk_writes, .. } = *counts;
    [flash_hits, flash_reads, flash_writes, disk_reads, disk_writes]
}

const SMQ: [(&str, &str); 3] = [("levels", "8"), ("hotspot_min", "8"), ("block_pages", "1")];

const SWEPT: [(&str, &str); 2] = [("feed", "2026"), ("headroom_boost", "100")];

const VECTORS: &[Vector] = &[
    Vector {
        id: "smq-3",
        policy: "dm-cache",
        given: &[SMQ[0], SMQ[1], SMQ[2], ("accesses_per_second", "2")],
        memory_pages: 0,
        flash_pages: 4,
        pages: 8,
        steps: &[
            ("R0", " |  | 0:7 | 6 4", Some([0, 0, 0, 1, 0])),
            ("R0", "7:0 |  | 0:7 | 0 4", Some([0, 0, 1, 3, 0])),
            ("R1", "7:0,1 |  | 0:7 1:0 | 0 4", Some([0, 0, 2, 5, 0])),
            ("R1 R0", "7:1,0 |  | 0:7 1:0 | 6 1", Some([2, 2, 2, 5, 0])),
            ("R0 R0", "7:1,0 |  | 0:7 1:0 | 6 4", Some([4, 4, 2, 5, 0])),
            ("R2 R2", "7:1,0 |  | 0:7 1:0 2:4 | 6 4", Some([4, 4, 2, 7, 0])),
            ("R2", "7:1,0,2 |  | 0:1 1:0 2:7 | 6 4", Some([4, 4, 3, 9, 0])),
            ("W0", "7:1,0,2 |  | 0:1 1:0 2:7 | 6 4", Some([5, 4, 4, 9, 1])),
        ],
    },
    Vector {
        id: "smq-4",
        policy: "dm-cache",
        given: &[
            SMQ[0],
            SMQ[1],
            SMQ[2],
            ("accesses_per_second", "1"),
            ("mode", "writeback"),
            ("cache_s", "5"),
            ("writeback_s", "2"),
        ],
        memory_pages: 0,
        flash_pages: 4,
        pages: 8,
        steps: &[
            ("W0 W1 W2 W3", " | 0:0 7:1,2,3 | ...", Some([0, 0, 4, 0, 0])),
            ("R0 R0 W1", " | 0:0 1:2 2:3 3:1 | ...", Some([3, 2, 5, 0, 0])),
            ("R5 R5 R5 R5 R5", " | 0:0 1:2 2:3 3:1 | ...", Some([3, 2, 5, 5, 0])),
            ("R5", "0:0 | 0:2 1:3 2:1 | ...", Some([3, 3, 5, 6, 1])),
            ("R5", " | 0:2 1:3 2:1 | ...", None),
            ("R5", "7:5 | 0:2 1:3 2:1 | ...", Some([3, 3, 6, 9, 1])),
            ("R5", "...", Some([4, 4, 6, 9, 1])),
        ],
    },
    Vector {
        id: "smq-5",
        policy: "dm-cache",
        given: &[
            SMQ[0],
            SMQ[1],
            ("block_pages", "2"),
            ("accesses_per_second", "1"),
            ("mode", "writeback"),
        ],
        memory_pages: 0,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("R0 R0", "7:0 |  | ...", Some([0, 0, 2, 4, 0])),
            ("W1", " | 7:0 | ...", Some([1, 0, 3, 4, 0])),
            ("W1 R4 R4 R4", "7:2 | 7:0 | ...", Some([2, 0, 6, 9, 0])),
        ],
    },
    Vector {
        id: "wc-1",
        policy: "dm-writecache",
        given: &[("accesses_per_second", "1000")],
        memory_pages: 0,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("W10 W11 R10 R3 W5 W10", "10@0 11@1 5@2", Some([2, 1, 4, 1, 0])),
            ("W6", "5@2 6@3", Some([2, 3, 5, 1, 2])),
            ("W7 R11", "5@2 6@3 7@4", Some([2, 3, 6, 2, 2])),
            ("W12", "7@4 12@5", Some([2, 5, 7, 2, 4])),
        ],
    },
    Vector {
        id: "wc-2",
        policy: "dm-writecache",
        given: &[("high_watermark", "100"), ("low_watermark", "75")],
        memory_pages: 0,
        flash_pages: 4,
        pages: 16,
        steps: &[
            ("W1 W2 W3 W1", "1@0 2@1 3@2", None),
            ("W4", "", Some([1, 4, 5, 0, 4])),
            ("W5 W6", "5@0 6@1", None),
        ],
    },
    Vector {
        id: "wc-3",
        policy: "dm-writecache",
        given: &[
            ("high_watermark", "100"),
            ("low_watermark", "100"),
            ("max_age_s", "4"),
            ("accesses_per_second", "1"),
        ],
        memory_pages: 0,
        flash_pages: 4,
        pages: 16,
        steps: &[
            ("W1 R9 R9 W1", "1@0", None),
            ("R9", "", Some([1, 1, 2, 3, 1])),
            ("R1", "", Some([1, 1, 2, 4, 1])),
        ],
    },
    Vector {
        id: "bc-1",
        policy: "bcache",
        given: &[("bucket_pages", "2"), ("accesses_per_second", "1000")],
        memory_pages: 0,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("R0 R1 R2 R3", "0 1, 2 3 | ...", None),
            ("R0 R4 R5 R6 R7", "0 1, 2 3, 4 5, 6 7 | 25 | -4 -5 -2 0 | ...", None),
            ("R8", "0 1, 8, 4 5, 6 7 | 25 | ...", None),
            ("R0", "0 1, 8, 4 5, 6 7 | 25 | 0 0 -4 -2 | ...", Some([2, 2, 9, 9, 0])),
        ],
    },
    Vector {
        id: "bc-2",
        policy: "bcache",
        given: &[("bucket_pages", "2"), ("mode", "writeback"), ("writeback_percent", "20")],
        memory_pages: 0,
        flash_pages: 20,
        pages: 16,
        steps: &[
            ("W0 W5", "0* 5* | 10 | ...", None),
            ("W9 W0", ". 5*, 9* 0* | ...", None),
            ("R0 W3 W3", ". 5*, 9* 0*, . 3* | 30 | ...", Some([3, 1, 6, 0, 0])),
            ("W4", ". 5*, 9* 0, . 3*, 4* | 40 | ...", None),
            ("W6 W7", ". 5*, 9* 0, . 3, 4 6*, 7* | 50 | ...", Some([3, 4, 9, 0, 3])),
            ("W8", ". 5*, 9* 0, . 3, 4 6*, 7* 8 | 40 | ...", Some([3, 4, 10, 0, 4])),
            ("W8", ". 5, 9* 0, . 3, 4 6*, 7* ., 8* | ...", Some([4, 5, 11, 0, 5])),
        ],
    },
    Vector {
        id: "bc-3",
        policy: "bcache",
        given: &[("bucket_pages", "2"), ("sequential_cutoff", "3")],
        memory_pages: 0,
        flash_pages: 16,
        pages: 16,
        steps: &[
            ("R0 R1 R2 R3 R7 R4 W5", "0 1, 7 | ...", None),
            ("W0", ". 1, 7 0 | ... | 4864", Some([1, 0, 4, 6, 2])),
        ],
    },
    Vector {
        id: "ocf-1",
        policy: "open-cas",
        given: &[],
        memory_pages: 0,
        flash_pages: 4,
        pages: 16,
        steps: &[
            ("R1 R2 R3 R4", "4 3 | 2 1, ...", None),
            ("R4 R3", "4 3 | 2 1, ...", None),
            ("R1", "1 4 | 3 2, ...", None),
            ("R5", "5 1 | 4 3, ...", None),
            ("R2", "2 5 | 1 4, ...", Some([3, 3, 6, 6, 0])),
        ],
    },
    Vector {
        id: "ocf-2",
        policy: "open-cas",
        given: &[("mode", "wb")],
        memory_pages: 0,
        flash_pages: 3,
        pages: 16,
        steps: &[
            ("W1 R2 W3 R2", "| 2, dirty 3 | 1, ", None),
            ("W4", "|, dirty 4 | 3 1, ", None),
            ("W5", "4 | 3 1, dirty |, ", Some([1, 4, 4, 1, 4])),
            ("R1", "1 | 4 3, ...", None),
            ("R5", "5 | 1 4, ...", Some([2, 5, 5, 2, 4])),
        ],
    },
    Vector {
        id: "ocf-3",
        policy: "open-cas",
        given: &[("promotion", "nhit"), ("nhit_trigger", "40")],
        memory_pages: 0,
        flash_pages: 5,
        pages: 16,
        steps: &[
            ("R1 R2", "2 | 1, dirty |, ", None),
            ("R3 R3", "2 | 1, dirty |, 3:2", None),
            ("R4 R3", "3 | 2 1, dirty |, 3:0 4:1", None),
            ("W4", "3 | 2 1, dirty |, 3:0 4:2", None),
            ("R4", "4 3 | 2 1, dirty |, 3:0 4:0", None),
            ("R3", "4 3 | 2 1, ...", Some([1, 1, 4, 7, 1])),
        ],
    },
    Vector {
        id: "ocf-4",
        policy: "open-cas",
        given: &[("mode", "wb"), ("seq_threshold", "3")],
        memory_pages: 0,
        flash_pages: 4,
        pages: 16,
        steps: &[
            ("R0 R1 R2 R3", "1 | 0, ...", None),
            ("W9 W10", "1 | 0, dirty 10 | 9, ", None),
            ("W11 R9 R10 R11", "1 | 0, dirty 10 | 9, ", Some([2, 2, 4, 5, 1])),
        ],
    },
    Vector {
        id: "l2n-1",
        policy: "arc-l2arc",
        given: &[
            SWEPT[0],
            SWEPT[1],
            ("write_max", "1"),
            ("headroom", "2"),
            ("feed_every", "2"),
            ("ext_headroom_pct", "0"),
            ("marker_reset", "1"),
        ],
        memory_pages: 4,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("R1 R2", "... 1 - - - - - - - hand 1", None),
            ("R3 R4", "... 1 2 - - - - - - hand 2", None),
            ("R5 W2", "... 1 - 3 - - - - - hand 3", None),
            ("R6 R7", "... 1 - 3 5 - - - - hand 4", None),
            ("R3 R1", "... 1 - 3 5 7 - - - hand 5", Some([2, 2, 5, 7, 0])),
        ],
    },
    Vector {
        id: "l2n-2",
        policy: "arc-l2arc",
        given: &[
            SWEPT[0],
            SWEPT[1],
            ("write_max", "2"),
            ("headroom", "1"),
            ("feed_every", "4"),
            ("ext_headroom_pct", "50"),
        ],
        memory_pages: 4,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("R1 R2 R3 R4", "... 1 2 - - - - - - hand 2", None),
            ("R5 R6 R7 R8", "... 1 2 5 6 - - - - hand 4", None),
        ],
    },
    Vector {
        id: "l2n-3",
        policy: "arc-l2arc",
        given: &[SWEPT[0], SWEPT[1], ("write_max", "1"), ("feed_every", "1"), ("dwpd_limit", "0")],
        memory_pages: 2,
        flash_pages: 4,
        pages: 16,
        steps: &[("R1 R2 R3 R4 R5 R6 R1", "... 5 6 1 4 hand 3", None)],
    },
    Vector {
        id: "l2n-4",
        policy: "arc-l2arc",
        given: &[SWEPT[0], SWEPT[1], ("write_max", "2"), ("feed_every", "1"), ("dwpd_limit", "0")],
        memory_pages: 2,
        flash_pages: 8,
        pages: 16,
        steps: &[("R1 R2 R3 R4 R5 R6 R7 R8 R9", "... 8 9 - 4 5 6 7 - hand 2", None)],
    },
    Vector {
        id: "pc-1",
        policy: "dm-pcache",
        given: &[
            ("segment_pages", "2"),
            ("gc_percent", "75"),
            ("accesses_per_second", "1"),
            ("writeback_s", "4"),
        ],
        memory_pages: 0,
        flash_pages: 8,
        pages: 16,
        steps: &[
            ("R1 W2 W1", ". 2 1", None),
            ("R3", ". 2 1 3", None),
            ("W4", "1 3 4", None),
            ("R5 R1", "1 3 4 5", None),
            ("R2", "4 5 2", Some([2, 4, 7, 4, 3])),
        ],
    },
    Vector {
        id: "navy-1",
        policy: "cachelib",
        given: &[("region_pages", "2"), ("eviction", "fifo")],
        memory_pages: 1,
        flash_pages: 6,
        pages: 16,
        steps: &[("R1 R2 R3 R1 R4 R5 R6", "'' '3 4' '5' |  | ", Some([1, 3, 5, 6, 0]))],
    },
    Vector {
        id: "navy-2",
        policy: "cachelib",
        given: &[("region_pages", "2"), ("eviction", "fifo"), ("reinsertion_hits", "1")],
        memory_pages: 1,
        flash_pages: 8,
        pages: 16,
        steps: &[(
            "R1 R2 R3 R4 R5 R2 R6 R7 R8",
            "'' '3 4' '5 6' '2 7' |  | ",
            Some([1, 3, 8, 8, 0]),
        )],
    },
    Vector {
        id: "navy-3",
        policy: "cachelib",
        given: &[
            ("region_pages", "2"),
            ("admission", "reject-first"),
            ("reject_entries", "4"),
            ("reject_sets", "2"),
        ],
        memory_pages: 1,
        flash_pages: 8,
        pages: 16,
        steps: &[(
            "R1 R2 R1 R3 R3 R4 R5 R6 R1 R7",
            "'1 3' '' '' '' |  | [3, 4] [5, 6]",
            Some([1, 1, 2, 8, 0]),
        )],
    },
    Vector {
        id: "foyer-1",
        policy: "foyer",
        given: &[("region_pages", "2"), ("probation_percent", "60")],
        memory_pages: 1,
        flash_pages: 10,
        pages: 16,
        steps: &[(
            "R1 R2 R3 R4 R5 R6 R7 R8 R9 R3 R10 R6 R11",
            "'6' '' '5 .' '7 8' '9 10' | 2 3 | ",
            Some([2, 6, 11, 11, 0]),
        )],
    },
];

const PAGES: u32 = 24;

/// Drives a policy and its model; they count and hold the same after every access.
#[track_caller]
fn check(
    policy: &str,
    given: &[(&str, String)],
    sizes: [u32; 2],
    numbers: &[u64],
    accesses: &[Access],
) {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    let mut pair = Pair::new(policy, &given, sizes, numbers);
    for &access in accesses {
        pair.access(access);
        pair.assert_same_contents();
    }
}

/// Runs of neighbours over few pages, so that there is re-use and adjacency.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    (4..=PAGES).prop_flat_map(|pages| {
        let run = (0..pages, 1_u32..5, 0_u8..3, 1_usize..4).prop_map(
            move |(first, length, kind, times)| {
                let access = if kind == 0 { Access::write } else { Access::read };
                (first..(first + length).min(pages)).map(access).collect::<Vec<_>>().repeat(times)
            },
        );
        prop::collection::vec(run, 0..80).prop_map(|runs| runs.concat())
    })
}

/// Return the page number of each id: the id itself, or ids in an order of their own, as traces
/// give them.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let linear: Vec<u64> = (0..u64::from(PAGES)).collect();
    prop_oneof![Just(linear.clone()), Just(linear).prop_shuffle()]
}

fn per_second() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1, 2, 3, 7, 100])
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn dm_cache(
        sizes in [0_u32..6, 0..20], block in 1_u32..4, levels in prop::sample::select(vec![8, 9, 16]),
        mode in word(&["writeback", "writethrough", "passthrough"]), per_second in per_second(),
        periods in [0_u64..4, 0..4, 0..4, 0..8], hotspots in [1_u32..9, 1..40], idle in 0_u64..9,
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("block_pages", block.to_string()),
            ("levels", levels.to_string()),
            ("mode", mode),
            ("accesses_per_second", per_second.to_string()),
            ("writeback_s", periods[0].to_string()),
            ("demote_s", periods[1].to_string()),
            ("hotspot_s", periods[2].to_string()),
            ("cache_s", periods[3].to_string()),
            ("hotspot_min", hotspots[0].to_string()),
            ("hotspot_blocks", hotspots[1].to_string()),
            ("idle_every", idle.to_string()),
        ];
        check("dm-cache", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn dm_writecache(
        sizes in [0_u32..6, 0..14], marks in [0_u32..=100, 0..=100], max_age in 0_u64..5,
        commits in [1_u64..8, 0..4], group in 1_u32..6, device in word(&["ssd", "pmem"]),
        per_second in per_second(), numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("high_watermark", marks[0].to_string()),
            ("low_watermark", marks[1].to_string()),
            ("max_age_s", max_age.to_string()),
            ("autocommit_blocks", commits[0].to_string()),
            ("autocommit_s", commits[1].to_string()),
            ("group_pages", group.to_string()),
            ("device", device),
            ("accesses_per_second", per_second.to_string()),
        ];
        check("dm-writecache", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn bcache(
        sizes in [0_u32..6, 0..40], bucket in 1_u32..5, cutoff in 0_u64..6, percent in 0_u64..=40,
        mode in word(&["writethrough", "writeback", "writeback", "writearound", "none"]),
        replacement in word(&["lru", "fifo", "random"]), is_sync in any::<bool>(),
        control in word(&["limit", "limit", "pi"]), seed in any::<u64>(),
        // Parts of a second that are whole nanoseconds, so that the rate gives no less than it should.
        per_second in prop::sample::select(vec![1, 2, 5, 100]),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("bucket_pages", bucket.to_string()),
            ("sequential_cutoff", cutoff.to_string()),
            ("writeback_percent", percent.to_string()),
            ("mode", mode),
            ("replacement", replacement),
            ("sync_writes", is_sync.to_string()),
            ("control", control),
            ("seed", seed.to_string()),
            ("accesses_per_second", per_second.to_string()),
        ];
        check("bcache", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn open_cas(
        sizes in [0_u32..6, 0..20], line in 1_u32..4, promotion in word(&["always", "nhit"]),
        mode in word(&["wb", "wb", "wt", "wa", "wo", "wi", "pt"]), nhit in [2_u64..4, 0..101],
        seq in [1_u64..6, 0..4], seq_policy in word(&["full", "always", "never"]),
        cleaning in word(&["alru", "acp", "nop"]), alru in [1_u64..4, 0..101, 0..6],
        acp in [1_u64..30, 1..4, 1..8], eviction_batch in 1_u64..40, per_second in per_second(),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("line_pages", line.to_string()),
            ("promotion", promotion),
            ("mode", mode),
            ("nhit_threshold", nhit[0].to_string()),
            ("nhit_trigger", nhit[1].to_string()),
            ("seq_threshold", seq[0].to_string()),
            ("full_margin", seq[1].to_string()),
            ("seq_policy", seq_policy),
            ("cleaning", cleaning),
            ("alru_batch", alru[0].to_string()),
            ("alru_dirty_ratio", alru[1].to_string()),
            ("alru_inertia_pages", alru[2].to_string()),
            ("acp_wake_ms", (acp[0] * 100).to_string()),
            ("acp_batch", acp[1].to_string()),
            ("acp_chunk_pages", acp[2].to_string()),
            ("eviction_batch", eviction_batch.to_string()),
            ("accesses_per_second", per_second.to_string()),
        ];
        check("open-cas", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn arc_with_the_feed_of_2026(
        sizes in [1_u32..9, 0..20], every in 1_usize..6, write_max in 1_usize..5,
        headroom in [1_usize..4, 50..201], depth in 0_usize..101, reset in 1_usize..10,
        limit in prop_oneof![Just(0), 0_usize..1_000_000], page_bytes in 20_u64..32,
        warm_up in any::<bool>(), numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("feed", "2026".to_owned()),
            ("feed_every", every.to_string()),
            ("write_max", write_max.to_string()),
            ("headroom", headroom[0].to_string()),
            ("headroom_boost", headroom[1].to_string()),
            ("ext_headroom_pct", depth.to_string()),
            ("marker_reset", reset.to_string()),
            ("dwpd_limit", limit.to_string()),
            ("page_bytes", (1_u64 << page_bytes.min(31)).to_string()),
            ("warm_up", warm_up.to_string()),
        ];
        check("arc-l2arc", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn dm_pcache(
        sizes in [0_u32..6, 0..20], segment in 1_u32..5, gc in 1_u32..91, period in 1_u64..5,
        per_second in per_second(), numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("segment_pages", segment.to_string()),
            ("gc_percent", gc.to_string()),
            ("writeback_s", period.to_string()),
            ("accesses_per_second", per_second.to_string()),
        ];
        check("dm-pcache", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn cachelib_and_foyer(
        sizes in [1_u32..6, 0..30], region in 1_u32..5, eviction in word(&["lru", "fifo"]),
        hits in 0_u32..4, admission in word(&["all", "reject-first"]), reject in [1_u32..12, 1..5],
        probation in 0_u32..101, numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("region_pages", region.to_string()),
            ("eviction", eviction),
            ("reinsertion_hits", hits.to_string()),
            ("admission", admission),
            ("reject_entries", reject[0].to_string()),
            ("reject_sets", reject[1].to_string()),
        ];
        check("cachelib", &given, sizes, &numbers, &accesses);
        let given = [given[0].clone(), ("probation_percent", probation.to_string())];
        check("foyer", &given, sizes, &numbers, &accesses);
    }
}

proptest! {
    // Long traces through a slow specification.
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Six seconds pass, after which a page is written back each second; then buckets get a few dirty pages
    /// each, and the rate is updated three times more.
    #[test]
    fn bcache_whose_dirty_data_is_scattered(
        buckets in prop::collection::vec(1_u32..4, 10..32), percent in 1_u64..=40,
    ) {
        const PER_SECOND: u32 = 50;
        const BUCKET: u32 = 8;
        let given = [
            ("bucket_pages", BUCKET.to_string()),
            ("mode", "writeback".to_owned()),
            ("writeback_percent", percent.to_string()),
            ("sync_writes", "true".to_owned()),
            ("control", "pi".to_owned()),
            ("sequential_cutoff", "0".to_owned()),
            ("accesses_per_second", PER_SECOND.to_string()),
        ];
        let waiting = |seconds: u32| (0..PER_SECOND * seconds).map(|_| Access::read(0));
        let filling = (0..).zip(&buckets).flat_map(|(number, &writes)| {
            (0..BUCKET).map(move |place| {
                let page = number * BUCKET + place + 1;
                if place < writes { Access::write(page) } else { Access::read(page) }
            })
        });
        let accesses: Vec<Access> = waiting(6).chain(filling).chain(waiting(15)).collect();
        let numbers: Vec<u64> = (0..=32 * u64::from(BUCKET)).collect();
        check("bcache", &given, [0, 40 * BUCKET], &numbers, &accesses);
    }
}
