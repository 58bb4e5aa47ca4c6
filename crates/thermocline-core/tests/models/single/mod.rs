//! Algorithms of one tier, written from the papers: vectors and scans.

mod car;
mod clock_pro;
mod experts;
pub(crate) mod histogram;
mod learned;
mod lirs;
mod lrfu;
mod one_tier;
mod rules;
mod tiny_lfu;

use std::collections::{BTreeMap, VecDeque};

use thermocline_core::random::SplitMix64;

use super::{Model, value};
use one_tier::OneTier;
use rules::{Clock, Lfu, Lru2, Mq, OneQueue, Sampled, Sieve, Slru, ThreeQueues, TwoQ};

/// Outcome of a reference.
pub(crate) enum Outcome {
    Hit,
    /// The page is in the cache now; another may have left.
    Admitted(Option<u32>),
    Refused,
}

/// A rule of which pages a cache keeps.
pub(crate) trait Rule {
    fn refer(&mut self, page: u32) -> Outcome;
    /// Show the visible state, in the paper's notation; each list starts with the page that came
    /// first.
    fn state(&self) -> String;
}

/// Return the specification of a policy of RAM over the disk.
pub(crate) fn build(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Model> {
    match policy {
        "lfu" => {
            let is_aging = value(given, "aging", "none".to_owned()) == "dynamic";
            let writes_through = value(given, "writes", "through".to_owned()) == "through";
            let lfu = Lfu { capacity, is_aging, pages: vec![], age: 0, now: 0 };
            Box::new(OneTier::new(Box::new(lfu)).writing_through(writes_through))
        }
        "fifo" | "lru" | "mru" => {
            let (is_renewed, is_newest_evicted) = (policy != "fifo", policy == "mru");
            boxed(OneQueue { capacity, is_renewed, is_newest_evicted, queue: vec![] })
        }
        "clock" => {
            let counter_max = (1 << value(given, "bits", 1)) - 1;
            boxed(Clock { capacity, counter_max, ring: VecDeque::new() })
        }
        "random" | "hyperbolic" => {
            let sample = (policy == "hyperbolic").then(|| value(given, "sample", 64));
            let draws = SplitMix64::new(value(given, "seed", 1));
            boxed(Sampled { capacity, sample, frames: vec![], now: 0, draws })
        }
        "sieve" => boxed(Sieve { capacity, queue: vec![], hand: 0 }),
        "lru-2" => boxed(Lru2 {
            capacity,
            correlated: value(given, "correlated", 0),
            retained: value(given, "retained", u64::MAX),
            buffer: vec![],
            known: BTreeMap::new(),
            now: 0,
        }),
        "slru" => {
            let segments: usize = value(given, "segments", 2);
            let protected_share: f64 = value(given, "protected_share", 0.8);
            let lowest = share(capacity, 1.0 - protected_share);
            boxed(Slru {
                capacity,
                upper: share(capacity, protected_share / (segments - 1) as f64),
                lowest: value(given, "fill_upwards", false).then_some(lowest),
                segments: vec![vec![]; segments],
            })
        }
        _ => build_with_history(policy, given, capacity),
    }
}

/// Return the same, of those that remember pages.
fn build_with_history(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Model> {
    match policy {
        "2q" => boxed(TwoQ {
            capacity,
            k_in: share(capacity, value(given, "in_share", 0.25)),
            k_out: share(capacity, value(given, "out_share", 0.5)),
            a1_in: vec![],
            a1_out: vec![],
            a_m: vec![],
        }),
        "s3-fifo" | "s4-fifo" | "clock2q-plus" => boxed(three_queues(policy, given, capacity)),
        "mq" => boxed(Mq {
            capacity,
            ghosts_max: share(capacity, value(given, "ghosts", 4.0)),
            life_time: given
                .iter()
                .any(|(name, _)| name == "life_time")
                .then(|| value(given, "life_time", 0)),
            queues: vec![vec![]; value(given, "queues", 8)],
            ghosts: vec![],
            known: BTreeMap::new(),
            distances: BTreeMap::new(),
            peak: None,
            now: 0,
        }),
        _ => build_adaptive(policy, given, capacity),
    }
}

/// S3-FIFO and what came of it.
fn three_queues(policy: &str, given: &[(String, String)], capacity: usize) -> ThreeQueues {
    let is_clock = policy == "clock2q-plus";
    let small_size = share(capacity, value(given, "small_share", 0.1)).max(1);
    let window: f64 = match policy {
        "s3-fifo" => 0.0,
        "s4-fifo" => value(given, "skip_share", 0.0),
        _ => value(given, "window_share", 0.5),
    };
    let ghost_share = value(given, "ghost_share", if is_clock { 0.5 } else { 0.9 });
    let is_window = |pages: &usize| *pages as f64 >= small_size as f64 * window;
    ThreeQueues {
        capacity,
        small_size,
        ghost_size: share(capacity, ghost_share),
        window_size: (0..=small_size).find(is_window).expect("a share is at most all"),
        promote_at: if is_clock { 1 } else { value(given, "promote_at", 2) },
        return_at: value(given, "return_at", 0),
        count_max: if is_clock { 1 } else { 3 },
        fills_main: policy != "s3-fifo" || value(given, "fill_main", false),
        small: vec![],
        main: vec![],
        ghosts: vec![],
    }
}

/// Build the algorithms that adapt the weights of recency and frequency as they run.
fn build_adaptive(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Model> {
    match policy {
        "3l-cache" => boxed(learned::ThreeLCache::new(capacity, given)),
        "car" => boxed(car::Car::new(capacity)),
        "clock-pro" => {
            let ghosts_max = share(capacity, value(given, "ghost_share", 1.0));
            let cold_share = value(given, "cold_share", 0.01);
            boxed(clock_pro::ClockPro::new(capacity, cold_share, ghosts_max))
        }
        "lirs" => {
            let stack_factor = value(given, "stack_factor", 3.0);
            boxed(lirs::Lirs::new(capacity, value(given, "hir_share", 0.01), stack_factor))
        }
        "lrfu" => boxed(lrfu::Lrfu::new(capacity, value(given, "lambda", 0.001))),
        "lecar" | "cacheus" => Box::new(OneTier::new(experts::build(policy, given, capacity))),
        "tinylfu" => boxed(tiny_lfu::TinyLfu::new(capacity, given)),
        "w-tinylfu" => boxed(tiny_lfu::Windowed::new(capacity, given)),
        _ => panic!("{policy} has no executable specification"),
    }
}

fn boxed(rule: impl Rule + 'static) -> Box<dyn Model> {
    Box::new(OneTier::new(Box::new(rule)))
}

/// Return a share of some pages, rounded down.
fn share(pages: usize, share: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few pages")]
    let pages = (pages as f64 * share) as usize;
    pages
}

/// Takes an entry out of a list, and returns `true` if it was there.
fn take<T: PartialEq>(list: &mut Vec<T>, entry: &T) -> bool {
    let place = list.iter().position(|known| known == entry);
    place.map(|place| list.remove(place)).is_some()
}
