//! Tests of the advice: its sentences on known histories, and how often its range holds the truth.

use std::sync::Arc;

use thermocline_core::random::{Draws as _, SplitMix64};

use super::super::status::Adoption;
use super::*;

/// The milliseconds per access of each shadow in a minute, of which the first is the policy that runs.
type Minute<'a> = &'a dyn Fn(u32) -> Vec<f64>;

/// Accesses of the engine in a minute.
const ACCESSES: u64 = 60_000;

/// Return an engine that has run for `minutes`. The first shadow is the running policy; the others take a
/// reload, except for those with sizes in their names.
fn after(minutes: u32, names: &[&str], io_ms: Minute<'_>) -> (History, Status) {
    let mut history = History::default();
    let mut status = Status { has_flash: true, is_flash_configured: true, ..Status::default() };
    status.shadows = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let takes = match place {
                0 => Takes::Nothing,
                _ if name.contains('=') => Takes::Restart,
                _ => Takes::Reload,
            };
            let adoption = Adoption { takes, configuration: String::new() };
            ShadowStatus { name: (*name).into(), sample: 0.01, adoption, ..ShadowStatus::default() }
        })
        .collect();
    let mut totals = vec![0.0; names.len()];
    for minute in 1..=minutes {
        status.uptime_s = f64::from(minute) * 60.0;
        let now_ms = io_ms(minute);
        for (place, shadow) in status.shadows.iter_mut().enumerate() {
            shadow.accesses += ACCESSES;
            shadow.sampled_accesses += ACCESSES / 100;
            totals[place] += now_ms[place] * ACCESSES as f64;
            shadow.io_ms_per_access = totals[place] / shadow.accesses as f64;
            shadow.flash_writes_per_access = 0.5 / (place + 1) as f64;
        }
        let snapshot = Arc::new(status.clone());
        if history.is_due(&snapshot) {
            history.keep(&snapshot);
        }
    }
    (history, status)
}

#[track_caller]
fn check(minutes: u32, names: &[&str], io_ms: Minute<'_>, adopts: Option<&str>, words: &[&str]) {
    let (history, status) = after(minutes, names, io_ms);
    let advice = advice(&history, &status);
    let text = advice.sentences.join(" ");
    for part in words {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(advice.adopt.map(|shadow| shadow.name.as_str()), adopts, "{text}");
}

#[test]
fn a_better_policy_is_named_with_its_range() {
    let names = ["hat", "lru", "face-gsc"];
    // By turns 30 and 40 % less.
    let gsc = |minute| if minute / 100 % 2 == 0 { 0.7 } else { 0.6 };
    check(
        3000,
        &names,
        &|minute| vec![1.0, 1.2, gsc(minute)],
        Some("face-gsc"),
        &[
            "`face-gsc` would have needed 35 % less I/O time than `hat` in the last 24 h, likely range 3",
            "It would write 67 % less to flash.",
        ],
    );
}

#[test]
fn the_window_is_the_last_day_and_not_the_time_before() {
    let was = |minute| if minute < 1000 { 0.1 } else { 2.0 };
    let words =
        ["No other policy would have been better: `lru` comes next, with 100.0 % more I/O time"];
    check(3000, &["hat", "lru"], &|minute| vec![1.0, was(minute)], None, &words);
    // Nor does the time in which shadows fill count.
    let filling = |minute| if minute < 20 { 0.1 } else { 2.0 };
    let words = ["100.0 % more I/O time than `hat` in the last 60 min"];
    check(80, &["hat", "lru"], &|minute| vec![1.0, filling(minute)], None, &words);
}

#[test]
fn what_may_be_chance_is_not_advised() {
    let mut random = SplitMix64::new(5);
    let noise: Vec<f64> = (0..=3000).map(|_| 0.9 + 20.0 * random.unit().powi(60)).collect();
    let words = ["No other policy would have been better for certain", "% more to"];
    let io_ms = |minute: u32| vec![1.0, 0.4 + f64::from(minute / 90 % 2)];
    check(1440, &["hat", "lru"], &io_ms, None, &words);
    let words = ["No other policy would have been better"];
    check(200, &["hat", "lru"], &|minute| vec![1.0, noise[minute as usize]], None, &words);
}

#[test]
fn a_tie_is_no_reason_to_change() {
    let words = ["`lru` comes next, with as much I/O time as `hat` within 2 % in the last 24 h"];
    check(3000, &["hat", "lru"], &|_| vec![1.0, 0.99], None, &words);
}

#[test]
fn other_sizes_are_named_if_they_save_more() {
    let names = ["hat", "lru", "hat:ram=2x"];
    check(
        3000,
        &names,
        &|_| vec![1.0, 0.8, 0.5],
        Some("lru"),
        &[
            "`lru` would have needed 20.0 % less",
            "`hat:ram=2x` would have needed 50.0 % less",
            "take a restart",
        ],
    );
    check(
        3000,
        &names,
        &|_| vec![1.0, 1.1, 0.5],
        Some("hat:ram=2x"),
        &["`lru` comes next", "50.0 %"],
    );
    let narrow = ["50.0 % less I/O time than `hat` in the last 24 h, likely range 50.0 to 50.0 %"];
    check(3000, &names, &|_| vec![1.0, 0.5, 0.5], Some("lru"), &narrow);
    let (history, status) = after(3000, &names, &|_| vec![1.0, 0.5, 0.5]);
    let text = advice(&history, &status).sentences.join(" ");
    assert!(!text.contains("ram=2x"), "it saves no more than a reload does: {text}");
}

#[test]
fn too_little_data_gives_no_advice() {
    for minutes in [1, 9] {
        let words = ["too little data", "This one has seen"];
        check(minutes, &["hat", "lru"], &|_| vec![1.0, 0.5], None, &words);
    }
    check(
        80,
        &["hat", "lru"],
        &|_| vec![0.0, 0.5],
        None,
        &["needed no I/O time in the last 60 min"],
    );
    let (history, mut status) = after(3000, &["hat", "lru"], &|_| vec![1.0, 0.5]);
    // Others began since: what was is not theirs.
    status.shadow_start_s = status.uptime_s - 30.0;
    assert!(advice(&history, &status).sentences[0].contains("too little data"));
}

#[test]
fn what_cannot_be_compared_is_said() {
    check(3000, &["hat"], &|_| vec![1.0], None, &["The only shadow is the policy that runs"]);
    check(3000, &[], &|_| vec![], None, &["No shadow policies run"]);
    let (history, mut status) = after(3000, &["hat", "lru"], &|_| vec![1.0, 0.5]);
    status.shadows.remove(0);
    assert!(advice(&history, &status).sentences[0].contains("cannot be a shadow"));
    status.has_flash = false;
    assert!(advice(&history, &status).sentences[0].contains("flash is not in use"));
}

/// Return the part of 1000 windows, of that many blocks with correlated noise, whose range holds the truth.
fn coverage(blocks: usize, correlation: f64) -> f64 {
    let mut random = SplitMix64::new(7);
    let mut held = 0;
    for _ in 0..1000 {
        let mut noise = 0.0;
        let (mut own, mut other) = (vec![], vec![]);
        for _ in 0..blocks {
            // The sum of twelve is close to normal.
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            noise = correlation * noise + (1.0 - correlation * correlation).sqrt() * normal;
            let load = 1.0 + random.unit();
            own.push(load);
            other.push(load * (0.7 + 0.1 * noise));
        }
        let found = saving(&own, &other).unwrap();
        held += u32::from(found.low <= 0.3 && 0.3 <= found.high);
    }
    f64::from(held) / 1000.0
}

#[test]
fn the_likely_range_holds_the_truth_as_often_as_it_says() {
    for blocks in [BLOCKS_MIN, BLOCKS_MAX] {
        let found = coverage(blocks, 0.0);
        assert!((0.92..=0.98).contains(&found), "{blocks} blocks on their own: {found}");
    }
    let found = coverage(BLOCKS_MAX, 0.5);
    assert!(found >= 0.88, "blocks that are alike: {found}");
}

#[test]
fn students_t_is_that_of_the_tables() {
    for (freedom, table) in [(7.0, 2.3646), (11.0, 2.2010), (23.0, 2.0687)] {
        let error = (student(freedom) - table).abs() / table;
        assert!(error < 0.01, "{freedom}: {}", student(freedom));
    }
}
