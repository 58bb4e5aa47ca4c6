//! Tests of the page: what it says of known snapshots, and that names cannot break it.

use std::sync::Arc;
use std::time::Duration;

use super::super::status::Adoption;
use super::*;

/// Return the page of an engine with that past.
fn page(status: &Status, history: &History) -> String {
    let process = Process { configuration: "/etc/a b/cache.toml".into(), id: 4711 };
    let volumes = &["db", "web"];
    render(&View { status, history, process: &process, volumes, date: "today", nonce: "n0nce" })
}

/// Return an engine after `uptime_s` seconds, with that many reads from RAM and disk.
fn at(uptime_s: f64, ram: u64, disk: u64) -> Status {
    let mut status = Status {
        uptime_s,
        policy: "hat".into(),
        write_mode: "back".into(),
        page_bytes: 4096,
        capacity_pages: [256, 1024],
        ..Status::default()
    };
    (status.accesses.read.ram, status.accesses.read.disk) = (ram, disk);
    for _ in 0..disk {
        status.latency.read.disk.record(Duration::from_millis(3));
    }
    status
}

/// Return the cells of a row of the table with that caption.
#[track_caller]
fn cells(page: &str, caption: &str, row: &str) -> Vec<String> {
    let (_, table) = page.split_once(&format!("<caption>{caption}</caption>")).expect(caption);
    let (table, _) = table.split_once("</table>").unwrap();
    let (_, row) = table.split_once(&format!("<th scope=\"row\">{row}</th>")).expect(row);
    let (row, _) = row.split_once("</tr>").unwrap();
    let cells = row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1);
    cells.map(|cell| cell.trim_end_matches("</td>").to_owned()).collect()
}

#[test]
fn figures_are_shown_since_the_start_and_over_the_last_hour() {
    let mut history = History::default();
    for minute in 0..120_u32 {
        let reads = u64::from(minute) * 10;
        history.keep(&Arc::new(at(f64::from(minute) * 60.0, reads, 0)));
    }
    let page = page(&at(7200.0, 1200, 800), &history);
    let all = ["2,000", "60.00 %", "60.00 %", "0.00 %", "40.00 %", "0.00 %"];
    assert_eq!(cells(&page, "Since the start", "read"), all);
    assert_eq!(cells(&page, "Since the start", "written")[..2], ["0", "-"]);
    let last = ["1,400", "42.86 %", "42.86 %", "0.00 %", "57.14 %", "0.00 %"];
    assert_eq!(cells(&page, "The last hour", "all"), last);
    let (_, latencies) = page.split_once("How long requests took").unwrap();
    let times = ["800", "3 ms", "4 ms", "4 ms", "4 ms"];
    assert_eq!(cells(latencies, "The last hour", "read, disk"), times);
    assert_eq!(cells(latencies, "Since the start", "flush"), ["0", "-", "-", "-", "-"]);
    assert!(page.contains("None since the start."));
}

#[test]
fn what_is_slower_than_all_classes_is_said() {
    let mut status = at(10.0, 1, 0);
    status.latency.read.disk.record(Duration::from_mins(1));
    let page = page(&status, &History::default());
    let (_, latencies) = page.split_once("How long requests took").unwrap();
    assert_eq!(cells(latencies, "Since the start", "read, disk")[1..3], ["60.0 s", "&gt; 8.4 s"]);
}

#[test]
fn names_cannot_break_the_page() {
    let evil = "<script>alert('x')</script>\"&";
    let mut status = at(10.0, 1, 1);
    (status.policy, status.export, status.write_mode) = (evil.into(), evil.into(), evil.into());
    let adoption = Adoption { takes: Takes::Reload, configuration: evil.into() };
    let shadow = |takes| ShadowStatus {
        name: evil.into(),
        adoption: Adoption { takes, ..adoption.clone() },
        ..ShadowStatus::default()
    };
    status.shadows = vec![shadow(Takes::Nothing), shadow(Takes::Reload)];
    let process = Process { configuration: format!("/{evil}").into(), id: 1 };
    for shadow in &status.shadows {
        assert!(!change(shadow, &process).contains("<script"));
    }
    let page = page(&status, &History::default());
    assert_eq!(page.matches("<script").count(), 1, "its own: {page}");
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
}

#[test]
fn the_page_asks_for_nothing_else_and_every_header_has_a_scope() {
    let page = page(&at(10.0, 1, 1), &History::default());
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="));
    assert!(!page.contains(" style=") && !page.contains("@import") && !page.contains("url("));
    assert_eq!(page.matches("nonce=\"n0nce\"").count(), 2);
    assert_eq!(
        page.matches("<th").count() - page.matches("<thead").count(),
        page.matches("<th scope=").count()
    );
    assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
}

#[test]
fn a_shadow_comes_with_the_change_that_adopts_it() {
    let configuration = "[policy]\nname = \"lru\"\n".to_owned();
    let shadow = |takes| ShadowStatus {
        name: "lru".into(),
        adoption: Adoption { takes, configuration: configuration.clone() },
        ..ShadowStatus::default()
    };
    let process = Process { configuration: "/etc/a b/cache.toml".into(), id: 4711 };
    let reload = change(&shadow(Takes::Reload), &process);
    for part in [
        "in the place of the section [policy]",
        "[policy]\nname = &quot;lru&quot;",
        "thermocline serve --check &#39;/etc/a b/cache.toml&#39; &amp;&amp;\nkill -HUP 4711",
    ] {
        assert!(reload.contains(part), "{part}: {reload}");
    }
    assert!(change(&shadow(Takes::Restart), &process).contains("kill -TERM 4711"));
}

#[test]
fn the_life_of_a_flash_is_projected() {
    const TB: u64 = 1_000_000_000_000;
    // 600 TB, a third of which is used; a TB a day leaves 400 days.
    for (rated, written, rate, words) in [
        (
            600 * TB,
            200 * TB,
            Some(TB as f64 / DAY_S),
            "33.33 % are used. At this rate the rest lasts 13 months",
        ),
        (600 * TB, 0, Some(1e6), "lasts 19.0 years"),
        (600 * TB, 0, Some(1.0), "more than 100 years"),
        (600 * TB, 599 * TB, Some(TB as f64 / DAY_S), "lasts 24 h"),
        (600 * TB, 600 * TB, Some(1.0), "all it is rated for"),
        (600 * TB, 1, Some(0.0), "no end is in sight"),
        (600 * TB, 1, None, "Ten minutes after the start"),
    ] {
        let text = life(rated, written, rate);
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn wear_is_measured_over_the_last_day() {
    let written = |uptime_s: f64, gib: u64| {
        let figures = serde_json::json!({ "flash_lifetime_written_bytes": gib << 30 });
        let figures = serde_json::from_value(figures).unwrap();
        Status { is_flash_configured: true, figures, ..at(uptime_s, 0, 0) }
    };
    let mut history = History::default();
    // 100 GiB before the last day, 2 GiB an hour since.
    for minute in 0..3000_u32 {
        let gib = 100 + u64::from(minute.saturating_sub(1559)) / 30;
        history.keep(&Arc::new(written(f64::from(minute) * 60.0, gib)));
    }
    let sentences = wear(&written(180_000.0, 148), &history).join(" ");
    assert!(sentences.contains("set up as a cache: 148 GiB."), "{sentences}");
    assert!(sentences.contains("In the last 24 h: 48 GiB, a rate of 48 GiB a day."), "{sentences}");
    assert!(sentences.contains("rated_writes"), "{sentences}");
    let young = wear(&written(300.0, 148), &History::default()).join(" ");
    assert!(!young.contains("a rate of"), "{young}");
    assert!(wear(&at(1.0, 0, 0), &history)[0].contains("no flash"));
}

#[test]
fn pages_of_volumes_lead_to_one_another() {
    let mut status = at(60.0, 1, 1);
    status.export = "db".into();
    let page = page(&status, &History::default());
    assert!(page.contains("<a href=\"/?volume=web\">web</a>"), "{page}");
    assert!(page.contains("<strong aria-current=\"page\">db</strong>"), "{page}");
}
