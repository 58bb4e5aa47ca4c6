//! Plans: what is bought for a budget, and an engine that can be served with it.

use serde_json::Value;

use super::{TRACE, fails, json, text};

/// A trace of its own: plans on the bundled one take a while without optimisation.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let (trace, pages) = (place.word("oltp.csv"), PAGES.to_string());
        let words =
            ["trace", "generate", "--kind", "oltp", "--requests", "4000", "--pages", &pages];
        text(&[&words[..], &["-o", &trace]].concat());
        place
    }

    fn word(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn plan(&self, more: &[&str]) -> Vec<String> {
        let trace = self.word("oltp.csv");
        let words = ["plan", &trace, "--budget", "0.01", "--policies", "lru,lru-exclusive"];
        let loops = ["--closed-loop", "4", "--json"];
        [&words[..], &PRICES, &loops, more].concat().into_iter().map(str::to_owned).collect()
    }

    /// Return the plan, and which entry of its front is chosen.
    fn found(&self, more: &[&str]) -> (Value, usize) {
        let words = self.plan(more);
        let found = json(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let chosen = usize::try_from(found["chosen"].as_u64().unwrap()).unwrap();
        (found, chosen)
    }
}

const PAGES: u32 = 1000;

const PRICES: [&str; 2] = ["--price", "ram=4,flash=0.4,disk=0.02"];

fn plan<'a>(budget: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&words_of(budget)[..], &["--policies", "lru,lru-exclusive,face-gsc"], more].concat()
}

fn words_of(budget: &str) -> Vec<&str> {
    [&["plan", TRACE, "--page-size", "8KiB", "--budget", budget][..], &PRICES].concat()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Return the price of a choice without the disk, from its sizes.
fn price(choice: &Value) -> f64 {
    let gib = |pages: f64| pages * 4096.0 / f64::from(1 << 30);
    let [ram, flash] = ["ram_pages", "flash_pages"].map(|name| gib(number(&choice[name])));
    ram * 4.0 + flash * 0.4
}

fn years(choice: &Value) -> f64 {
    choice["lifetime_years"].as_f64().unwrap_or(f64::INFINITY)
}

#[test]
fn a_plan_keeps_the_budget_and_its_engine_can_be_served() {
    let place = Place::new();
    let config = place.word("cache.toml");
    let (found, chosen) = place.found(&["--objective", "p99", "-o", &config]);
    let front = found["front"].as_array().unwrap();
    let disk = number(&found["trace"]["footprint_pages"]) * 4096.0 / f64::from(1 << 30) * 0.02;
    assert!((number(&found["disk_cost"]) - disk).abs() < 1e-9);
    for choice in front {
        assert!((number(&choice["cost"]) - disk - price(choice)).abs() < 1e-9, "{choice}");
        assert!(number(&choice["cost"]) <= 0.01, "{choice}");
    }
    let best = number(&front[chosen]["p99_us"]);
    assert!(front.iter().all(|choice| number(&choice["p99_us"]) >= best));
    for one in front {
        let beats = |other: &&Value| {
            number(&other["cost"]) <= number(&one["cost"])
                && number(&other["p99_us"]) <= number(&one["p99_us"])
                && years(other) >= years(one)
        };
        assert_eq!(front.iter().filter(beats).count(), 1, "{one}");
    }
    let engine = std::fs::read_to_string(&config).unwrap();
    let name = front[chosen]["policy"]["name"].as_str().unwrap();
    assert!(engine.contains(&format!("name = \"{name}\"")), "{engine}");
    assert!(text(&["serve", "--check", &config]).contains("can be served"));
}

#[test]
fn a_report_says_what_to_buy_and_strikes_out_what_dies() {
    let place = Place::new();
    let report = place.word("plan.html");
    let asked = ["--objective", "io-time", "--min-lifetime-years", "1000", "--report", &report];
    let (found, chosen) = place.found(&asked);
    let html = std::fs::read_to_string(&report).unwrap();
    let name = found["front"][chosen]["policy"]["name"].as_str().unwrap();
    assert!(html.contains("<strong>Buy RAM ") && html.contains(&format!("run {name}: it costs ")));
    assert!(html.contains(" *</td>"), "the chosen one has a star");
    let struck_out = found["struck_out"].as_array().unwrap();
    assert_ne!(struck_out.len(), 0, "flash does not last that long here");
    for one in struck_out {
        let name = one["policy"]["name"].as_str().unwrap();
        assert!(html.contains(&format!("<s>{name}</s>")), "{name}");
        let reason = one["reason"].as_str().unwrap();
        assert!(html.contains(reason), "{reason}");
    }
    let unmoved = place.found(&asked[..4]).0;
    assert_eq!(found, unmoved, "a report changes nothing");
}

#[test]
fn lifetime_and_objective_are_kept() {
    let place = Place::new();
    let asked = ["--objective", "io-time"];
    let (found, chosen) = place.found(&[&asked[..], &["--min-lifetime-years", "0"]].concat());
    assert_eq!(found["struck_out"], Value::Array(vec![]));
    let front = found["front"].as_array().unwrap();
    let best = number(&front[chosen]["io_time_ms"]);
    assert!(front.iter().all(|choice| number(&choice["io_time_ms"]) >= best));
    assert!(number(&front[chosen]["flash_pages"]) > 0.0 && years(&front[chosen]) < 1000.0);
    // No drive lasts that long here; RAM does.
    let (lasting, chosen) = place.found(&[&asked[..], &["--min-lifetime-years", "1000"]].concat());
    let front = lasting["front"].as_array().unwrap();
    assert!(front.iter().all(|choice| years(choice) >= 1000.0), "{front:?}");
    assert!(number(&front[chosen]["io_time_ms"]) > best);
    let hybrids = ["--min-lifetime-years", "1000", "--policies", "lru-exclusive"];
    let words = place.plan(&asked);
    let words = words.iter().map(String::as_str).filter(|word| *word != "lru,lru-exclusive");
    let words: Vec<&str> = words.filter(|word| *word != "--policies").chain(hybrids).collect();
    fails(&words, &["the longest lasts", "write less to flash", "--min-lifetime-years"]);
}

#[test]
fn what_wears_out_too_soon_is_struck_out_and_never_recommended() {
    let place = Place::new();
    let (found, chosen) = place.found(&["--objective", "io-time"]);
    assert_eq!(found["min_lifetime_years"], 5.0);
    let front = found["front"].as_array().unwrap();
    assert!(front.iter().all(|choice| years(choice) >= 5.0), "{front:?}");
    let struck_out = found["struck_out"].as_array().unwrap();
    assert!(!struck_out.is_empty());
    for one in struck_out {
        assert!(years(one) < 5.0, "{one}");
        let reason = one["reason"].as_str().unwrap();
        assert!(reason.contains("wears out in") && reason.contains("5 years"), "{reason}");
        // Else nobody would ask for it.
        let beats = |other: &Value| {
            ["cost", "io_time_ms"].iter().all(|name| number(&other[*name]) <= number(&one[*name]))
        };
        assert!(!front.iter().any(beats), "{one}");
    }
    let config = place.word("cache.toml");
    let words = place.plan(&["--objective", "io-time", "--currency", "EUR", "-o", &config]);
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| *word != "--json").collect();
    let shown = text(&words);
    let name = struck_out[0]["policy"]["name"].as_str().unwrap();
    assert!(shown.contains(&format!("| ~~{name}~~")) && shown.contains("cost, EUR"), "{shown}");
    assert!(shown.contains("sooner than 5 years (3,000 erases per block"), "{shown}");
    let engine = std::fs::read_to_string(&config).unwrap();
    assert!(engine.contains("0.0100 EUR") || engine.contains("of 0.01 EUR"), "{engine}");
    let best = front[chosen]["policy"]["name"].as_str().unwrap();
    assert!(engine.contains(&format!("name = \"{best}\"")), "{engine}");
}

#[test]
fn a_trace_of_a_faster_machine_is_planned_with_a_closed_loop() {
    let place = Place::new();
    // Ten thousand requests a second, and ten, for one disk.
    for (interval_us, is_faster) in [("100", true), ("100000", false)] {
        let trace = place.word(interval_us);
        let made = ["trace", "generate", "--kind", "oltp", "--requests", "4000", "-o", &trace];
        text(&[&made[..], &["--pages", "2000", "--interval-us", interval_us]].concat());
        let words = ["plan", &trace, "--budget", "0.01", "--policies", "lru,lru-exclusive"];
        let words = [&words[..], &PRICES].concat();
        let found = json(&[&words[..], &["--json"]].concat());
        let chosen = &found["front"][usize::try_from(found["chosen"].as_u64().unwrap()).unwrap()];
        assert!(number(&chosen["p99_us"]) < 1e6, "{chosen}");
        assert_eq!(chosen["is_saturated"], false);
        let shown = text(&words);
        if is_faster {
            assert_eq!(found["closed_loop"], 8);
            assert!(number(&found["saturated_by"]) > 256.0);
            assert_eq!(found["objective"], "io-time");
            assert!(shown.contains("best by I/O time: nothing keeps pace"), "{shown}");
            assert!(shown.contains("8 requests are kept outstanding"), "{shown}");
            assert!(shown.contains("faster machine; --closed-loop N"), "{shown}");
        } else {
            assert!(found.get("closed_loop").is_none() && found.get("saturated_by").is_none());
            assert!(shown.contains("at the trace's times (open loop)"), "{shown}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be() {
    fails(&plan("0.001", &["--closed-loop", "4"]), &["disk alone costs", "one page of RAM"]);
    fails(&plan("-1", &[]), &["budget"]);
    fails(&plan("1", &["--price", "tape=1"]), &["tape=1", "flash=0.2"]);
    let one = ["plan", TRACE, "--budget", "1", "--price", "ram=4"];
    fails(&one, &["`flash` is missing"]);
    fails(&plan("1", &["--drive", "floppy"]), &["floppy", "tlc-nvme"]);
    fails(&plan("1", &["--disk-size", "big"]), &["--disk-size big", "4TiB"]);
    fails(&plan("1", &["--min-lifetime-years=-1"]), &["at least 0"]);
    for currency in ["", "US dollars", "a-very-long-one"] {
        fails(&plan("1", &["--currency", currency]), &["--currency", "as in EUR"]);
    }
    let named = |name| [&words_of("1")[..], &["--policies", name]].concat();
    fails(&named("larc2"), &["larc2", "lru"]);
    for oracle in ["oracle-hfa", "opt"] {
        fails(&named(oracle), &[oracle, "no engine", "face-gsc"]);
    }
    for budget in ["nan", "inf"] {
        fails(&plan(budget, &["--closed-loop", "4"]), &["--budget", "a number of at least 0"]);
    }
    fails(&plan("1", &["-o", "no-such-folder/c.toml", "--closed-loop", "4"]), &["no-such-folder"]);
    let folder = tempfile::tempdir().unwrap();
    let untimed = folder.path().join("untimed.txt");
    std::fs::write(&untimed, "1\n2\n3\n1\n").unwrap();
    let words = ["plan", untimed.to_str().unwrap(), "--budget", "1"];
    fails(&[&words[..], &PRICES].concat(), &["no times", "closed loop"]);
}
