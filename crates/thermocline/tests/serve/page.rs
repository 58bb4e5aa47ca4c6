//! The page for people: that it has the figures of the metrics, and says what the shadows advise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::metrics::samples;
use super::{Cache, Client, Engine, flush};

/// Return the cells of a row of the table after that heading that has that caption.
#[track_caller]
fn cells(page: &str, heading: &str, caption: &str, row: &str) -> Vec<String> {
    let (_, section) = page.split_once(&format!(">{heading}</h2>")).expect(heading);
    let (_, table) = section.split_once(&format!("<caption>{caption}</caption>")).expect(caption);
    let (_, row) = table.split_once(&format!("<th scope=\"row\">{row}</th>")).expect(row);
    let (row, _) = row.split_once("</tr>").unwrap();
    let cells = row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1);
    cells.map(|cell| cell.trim_end_matches("</td>").to_owned()).collect()
}

fn number(text: &str) -> f64 {
    text.trim_end_matches(" %").replace(',', "").parse().unwrap()
}

/// Reads and writes of a client, and a flush.
fn work(client: &mut Client, round: u64) {
    for page in 0..64 {
        client.write((round * 7 + page) % 1900 * 4096, &[1; 4096]).unwrap();
        client.read((round * 13 + page) % 1900 * 4096, 4096).unwrap();
    }
    flush(client);
}

/// Counters that both show: on the page, and in the metrics.
fn counters(page: &str, metrics: &str) -> Vec<(String, f64, f64)> {
    let mut all = vec![];
    let start = "Since the start";
    for (row, op) in [("read", "op=\"read\""), ("written", "op=\"write\"")] {
        let shown = number(&cells(page, "Where pages were found", start, row)[0]);
        let counted = samples(metrics, "thermocline_page_accesses_total", op);
        all.push((row.to_owned(), shown, counted));
    }
    for (op, tier) in [("read", "RAM"), ("read", "flash"), ("read", "disk"), ("write", "RAM")] {
        let row = format!("{op}, {tier}");
        let shown = number(&cells(page, "How long requests took", start, &row)[0]);
        let of_op = metrics.lines().filter(|line| line.contains(&format!("op=\"{op}\"")));
        let of_op = of_op.collect::<Vec<_>>().join("\n");
        let tier = format!("tier=\"{}\"", tier.to_lowercase());
        let counted = samples(&of_op, "thermocline_request_seconds_count", &tier);
        all.push((row, shown, counted));
    }
    let flushes = number(&cells(page, "How long requests took", start, "flush")[0]);
    all.push(("flush".into(), flushes, samples(metrics, "thermocline_flush_seconds_count", "")));
    for metric in ["flushes_total", "journal_commits_total", "flash_lifetime_written_bytes_total"] {
        let metric = format!("thermocline_{metric}");
        let shown = number(&cells(page, "All figures", "The engine&#39;s own figures", &metric)[0]);
        let counted = samples(metrics, &metric, "");
        all.push((metric, shown, counted));
    }
    all
}

/// Ends the load, also when a test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn the_page_has_the_figures_of_the_metrics_under_load() {
    let mut cache = Cache::new(8);
    let engine = cache.set("nbd.export", "a<b>&").start();
    // The first snapshot is there.
    engine.status();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let ending = Ending(&ends);
        let load = scope.spawn(|| {
            let (mut client, mut round) = (engine.client_of("a<b>&"), 0);
            while !ends.load(Ordering::Acquire) {
                work(&mut client, round);
                round += 1;
            }
            round
        });
        let mut last = 0.0;
        for _ in 0..8 {
            // Between them, the page has figures between theirs.
            let before = engine.get("/metrics");
            let page = engine.get("/");
            let after = engine.get("/metrics");
            for (name, shown, earliest) in counters(&page, &before) {
                assert!(shown >= earliest, "{name}: {shown}, {earliest} before");
            }
            for (name, shown, latest) in counters(&page, &after) {
                assert!(shown <= latest, "{name}: {shown}, {latest} after");
            }
            engine.status();
            let reads = counters(&page, &before)[0].1;
            assert!(reads >= last);
            last = reads;
        }
        drop(ending);
        assert!(load.join().unwrap() > 0);
        assert!(last > 0.0, "there was a load");
    });
    // Nothing moves any more: both have the same.
    engine.wait_for("the engine to rest", || {
        let (before, page) = (engine.get("/metrics"), engine.get("/"));
        engine.status();
        (before == engine.get("/metrics")).then_some(())?;
        for (name, shown, counted) in counters(&page, &before) {
            assert!((shown - counted).abs() < 0.5, "{name}: {shown} {counted}");
        }
        let ram = samples(&before, "thermocline_page_accesses_total", "found=\"ram\"");
        let all = samples(&before, "thermocline_page_accesses_total", "");
        let row = cells(&page, "Where pages were found", "Since the start", "all");
        assert_eq!(row[2], format!("{:.2} %", ram / all * 100.0));
        Some(())
    });
    let page = engine.get("/");
    assert!(page.contains("<title>Thermocline a&lt;b&gt;&amp;: hat, writes back</title>"));
}

#[track_caller]
fn says(engine: &Engine, words: &str) {
    engine.status();
    let page = engine.get("/");
    assert!(page.contains(words), "{words}: {page}");
}

#[test]
fn the_page_says_how_it_wears_and_what_shadows_there_are() {
    let mut cache = Cache::new(8);
    let engine = cache.start();
    says(&engine, "No shadow policies run.");
    says(&engine, "How long it lasts is unknown");
    cache.set("shadow", vec!["lru"]).set("flash.rated_writes", "600TB");
    assert!(engine.reload(&cache));
    says(&engine, "There is too little data for advice yet");
    says(&engine, "<th scope=\"row\">hat (runs)</th>");
    says(&engine, "It is rated for 546 TiB, of which 0.00 % are used.");
    let shadows: serde_json::Value = serde_json::from_str(&engine.get("/shadows")).unwrap();
    assert!(shadows["advice"][0].as_str().unwrap().contains("too little data"), "{shadows}");
    assert_eq!(shadows["shadows"][0]["takes"], "reload");
    // The change that it names is one that the server takes.
    let change = shadows["shadows"][0]["configuration"].as_str().unwrap();
    assert_eq!(change, "[policy]\nname = \"lru\"\n");
    assert!(engine.reload(cache.replace_section("policy", change)));
    assert_eq!(engine.status()["policy"], "lru");
    says(&engine, "<th scope=\"row\">lru (runs)</th>");
}

#[test]
fn a_fault_is_named_on_the_page() {
    let mut cache = Cache::new(8);
    cache.set("flash.write_budget_gib_per_day", 0.001);
    let engine = cache.start();
    assert!(engine.get("/").contains("None since the start."));
    let mut client = engine.client();
    engine.wait_for("the budget to be spent", || {
        for page in 0..1900 {
            client.write(page * 4096, &[1; 4096]).unwrap();
        }
        flush(&mut client);
        engine.status();
        let page = engine.get("/");
        page.contains("The write budget of the flash is spent").then(|| {
            assert!(page.contains("<title>(1) Thermocline"), "the title counts it");
        })
    });
}
