//! Results of runs that never were, for tests of what is made of results.

use crate::{PolicySummary, Summary, TierSummary, TraceSummary};

/// Return a run on 10 pages of RAM and some of flash.
pub(crate) fn summary(policy: &str, flash_pages: u64, io_time_ms: f64) -> Summary {
    let tier = |name: &str, capacity_pages, hits: u64| TierSummary {
        name: name.into(),
        capacity_pages,
        hits,
        read_hits: hits,
        write_hits: 0,
        hit_ratio: hits as f64 / 100.0,
        hit_bytes: None,
        byte_hit_ratio: None,
        page_reads: hits,
        page_writes: 0,
        device: "d".into(),
        read_ms: 1.0,
        write_ms: 2.0,
        latency_ms: 1.0,
    };
    Summary {
        trace: TraceSummary {
            path: "t.csv".into(),
            page_size_bytes: 4096,
            requests: 100,
            accesses: 100,
            reads: 100,
            writes: 0,
            footprint_pages: 50,
            objects: None,
        },
        policy: PolicySummary {
            name: policy.into(),
            parameters: serde_json::Map::new(),
            write_miss: "fetch",
            admission: None,
        },
        tiers: vec![
            tier("ram", Some(10), 20),
            tier("flash", Some(flash_pages), 30),
            tier("disk", None, 50),
        ],
        warm_up_accesses: 0,
        io_time_ms,
        average_response_ms: 1.0,
        demotions: vec![0],
        promotions: vec![0],
        demoted_bytes: vec![0],
        promoted_bytes: vec![0],
        metadata_bytes: 0,
        metadata_share: 0.0,
        gauges: vec![],
        clients: vec![],
        cost: None,
        over_time: None,
        replay_seconds: 0.1,
        accesses_per_second: 1000.0,
        timing: None,
        counts: Box::default(),
    }
}
